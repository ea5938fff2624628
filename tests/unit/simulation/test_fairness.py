"""Deviation from fair shares: counted by hand, and in replays in which a project has too much for a while."""

import pytest

from weir.model.policy import Policy
from weir.simulation.fairness import HOUR_S, deviation
from weir.simulation.replay import replay

from .fixtures import cluster, job


def test_capacity_of_another_project_counts_once() -> None:
    levels = {"a": ([3.0, 4.0], [2.0, 2.0]), "b": ([1.0, 0.0], [2.0, 2.0])}
    assert deviation(levels) == pytest.approx(3 / 8)


def test_capacity_that_no_project_uses_counts_half() -> None:
    assert deviation({"a": ([1.0], [4.0])}) == pytest.approx(3 / 8)


def test_no_demand_deviates_by_nothing() -> None:
    assert deviation({}) == 0.0
    assert deviation({"a": ([0.0], [0.0])}) == 0.0


@pytest.mark.parametrize(("patience", "by_hour"), [("0s", 0.0), ("10h", 3 * 2 / (1 * 4 + 3 * 4))])
def test_a_borrower_that_keeps_all_deviates_until_the_others_may_reclaim(
    patience: str, by_hour: float
) -> None:
    """It has all four devices for an hour; then another project asks for its half, for three hours."""
    job_traces = [job(f"borrower-{index}", 4 * HOUR_S, team="b") for index in range(4)]
    job_traces += [job(f"late-{index}", 3 * HOUR_S, at_s=HOUR_S, team="c") for index in range(2)]
    job_traces.append(job("last", 1.0, at_s=4 * HOUR_S, team="c"))
    policy = Policy.model_validate({"reclaim_share_after": patience})
    fairness = replay(cluster(teams=("b", "c"), guaranteed=False), job_traces, policy).numbers["fairness"]
    assert isinstance(fairness, dict)
    assert fairness["deviation_by_hour"] == pytest.approx(by_hour, abs=1e-3)
    assert fairness["deviation_by_day"] <= fairness["deviation_by_hour"]
