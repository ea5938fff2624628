"""Alternatives to a cluster, and what their comparison says."""

import json
from pathlib import Path

import pytest

from weir.cli.main import main
from weir.model.policy import Policy
from weir.simulation.alternatives import AddedNodes, changed, parse_alternative
from weir.simulation.comparison import ReplayedAlternative, compared, verdict

from .fixtures import cluster


def no_policy(name: str) -> Policy:
    raise AssertionError(name)


def test_alternative_adds_nodes_and_changes_quotas() -> None:
    alternative = parse_alternative("add-nodes=2x8xH100,add-nodes=1x4,quota.a=3")
    assert alternative.nodes == (AddedNodes(2, 8, "H100"), AddedNodes(1, 4))
    scenario, _ = changed(cluster(nodes=1, gpus=4), alternative, no_policy)
    assert [(node.gpus, node.gpu_model) for node in scenario.nodes] == [
        (4, "A100"),
        (8, "H100"),
        (8, "H100"),
        (4, "A100"),
    ]
    assert len({node.name for node in scenario.nodes}) == 4
    assert {queue.name: queue.quota["gpu"] for queue in scenario.queues} == {"a": 3000, "b": 2000}
    assert alternative.subject == "20 more GPUs and a quota of 3 for a"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "add-nodes=8",
        "add-nodes=0x8",
        "add-nodes=2x99",
        "quota.=3",
        "quota.a=-1",
        "quota.a=x",
        "quota.a=0.0001",
        "colour=red",
    ],
)
def test_wrong_alternative_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|no |negative"):
        parse_alternative(text)


def test_unknown_project_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no project c: the cluster has a, b"):
        changed(cluster(), parse_alternative("quota.c=1"), no_policy)


def runs(name: str | None, *waits: float) -> ReplayedAlternative:
    numbers = [
        {"jobs": 4, "first_start_wait_mean_s": wait, "by_project": {"a": {"first_start_wait_mean_s": wait}}}
        for wait in waits
    ]
    return ReplayedAlternative(None if name is None else parse_alternative(name), numbers)


def test_difference_counts_beyond_the_spread_of_the_seeds() -> None:
    base = runs(None, 3600.0, 7200.0)
    assert verdict([base, runs("add-nodes=1x1", 60.0, 120.0)]) == (
        "1 more GPU cuts the mean wait from 1h30m to 1m30s."
    )
    assert verdict([base, runs("add-nodes=2x8", 60.0), runs("quota.a=1", 30.0)]).startswith(
        "A quota of 1 for a"
    )
    assert "doesn't change the mean wait" in verdict([base, runs("quota.a=1", 7000.0, 8000.0)])
    assert "raises the mean wait" in verdict([base, runs("quota.a=1", 9000.0, 9900.0)])
    comparison = compared([base, runs("quota.a=1", 5000.0, 8000.0), runs("add-nodes=2x8", 60.0, 61.0)])
    differences = [
        compared_row["numbers"]["wait"]["difference"] for compared_row in comparison["alternatives"]
    ]
    assert differences == [None, None, pytest.approx(60.5 - 5400.0)]
    assert comparison["alternatives"][2]["by_project"]["a"]["wait"]["difference"] == pytest.approx(
        60.5 - 5400.0
    )


def test_more_nodes_end_the_wait_that_the_trace_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.yaml").write_text(
        "cluster: {nodes: [{name: node, gpus: 4}]}\nprojects: [{name: a, quota: {gpu: 4}}]\n"
    )
    jobs = [f"job-{index},a,{index},3600,4" for index in range(4)]
    (tmp_path / "trace.csv").write_text("\n".join(["name,project,submitted,duration,gpus", *jobs]) + "\n")
    words = ["simulate", "--cluster", str(tmp_path / "cluster.yaml"), "--trace", str(tmp_path / "trace.csv")]
    assert main([*words, "--add-nodes", "3x4", "--seeds", "2", "--output", "progress"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    result = json.loads(last)["result"]
    base, larger = result["alternatives"]
    assert base["numbers"]["wait"]["mean"] > 3600
    assert larger["numbers"]["wait"]["high"] < 60
    assert result["verdict"].startswith("12 more GPUs cut the mean wait from ")
    assert main([*words, "--what-if", "quota.b=1"]) == 2
    assert "there is no project b" in capsys.readouterr().err
