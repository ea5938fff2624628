"""The hard states of the benchmark, on a small cluster: each can be made, and cycles play on it."""

import pytest
from bench.hard_states import STATES, is_good, played

from weir.engine.victims.victim_candidates import VictimCandidates
from weir.engine.victims.victim_sets import Victim
from weir.model.policy import Policy


@pytest.mark.parametrize("state", list(STATES))
def test_state(state: str) -> None:
    row = played(STATES[state](10, Policy()))
    assert row["cycles"]
    assert is_good(row | {"longest_s": 0.5})


def test_a_decision_that_was_broken_off_is_no_good_one() -> None:
    assert not is_good({"longest_s": "more than 60"})
    assert not is_good({"longest_s": 1.5})


def test_a_burst_of_reclaims_searches_few_nodes_and_takes_the_youngest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = STATES["burst"](10, Policy())
    searched: list[int] = []
    victims_on = VictimCandidates.victims_on

    def counted(candidates: VictimCandidates, node: int) -> list[Victim]:
        searched.append(node)
        return victims_on(candidates, node)

    monkeypatch.setattr(VictimCandidates, "victims_on", counted)
    plan, _ = made.decide()
    stopped = [eviction.pod.workload for eviction in plan.evictions]
    assert stopped == [f"job-{index:06d}" for index in range(79, 79 - len(stopped), -1)]
    assert len(stopped) == 40
    assert len(searched) <= 3 * len(stopped)
