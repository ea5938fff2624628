"""`weir simulate` as a person or a program calls it."""

import json
from pathlib import Path

import pytest

from weir.cli.main import main

CLUSTER = """
name: two teams
cluster:
  nodes: [{name: node, gpus: 4}]
projects:
  - {name: a, quota: {gpu: 2}}
  - {name: b, quota: {gpu: 2}}
"""
TRACE = """name,project,submitted,duration,gpus
borrower,b,0,200,4
owner,a,100,50,2
"""
KEYS = [
    *(
        "jobs",
        "completed",
        "failed",
        "makespan_s",
        "jct_mean_s",
        "delay_mean_s",
        "delay_p50_s",
        "delay_p99_s",
    ),
    *(
        "first_start_wait_mean_s",
        "allocation",
        "entitled",
        "fairness",
        "preemptions",
        "evictions_by_rule",
        "moves",
    ),
    *("lost_gpu_hours", "topology", "by_project", "by_type", "cycles", "cycle_ms_p50", "cycle_ms_p99"),
    *("wall_s", "peak_memory_mb"),
]


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A cluster and a trace that can be replayed."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "trace.csv").write_text(TRACE)
    return ["simulate", "--cluster", str(tmp_path / "cluster.yaml"), "--trace", str(tmp_path / "trace.csv")]


def test_json_has_exactly_the_numbers_it_promises(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs read it."""
    assert main([*words, "--output", "json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert sorted(numbers) == sorted(KEYS)
    assert (numbers["jobs"], numbers["completed"], numbers["preemptions"]) == (2, 2, 1)
    assert sorted(numbers["entitled"]) == ["jobs", "over_60s", "wait_mean_s", "wait_p99_s"]
    assert sorted(numbers["fairness"]) == ["deviation_by_day", "deviation_by_hour"]
    assert sorted(numbers["topology"]) == ["domains_mean", "gangs", "one_domain"]
    assert [*numbers["by_project"]] == ["a", "b"]
    assert [*numbers["by_type"]] == ["train"]


def test_policies_are_compared_by_name(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A preset or a file; text side by side, json by policy, and a page."""
    (tmp_path / "mine.yaml").write_text("placement: spread\n")
    more = ["--compare", "throughput", str(tmp_path / "mine.yaml"), "--report", str(tmp_path / "page.html")]
    assert main([*words, *more]) == 0
    assert capsys.readouterr().out.split("\n")[0].split() == ["balanced", "throughput", "mine"]
    page = (tmp_path / "page.html").read_text()
    assert "throughput" in page
    assert page.count("<svg") == 3 + 2 + 2
    assert main([*words, *more, "--output", "json"]) == 0
    assert [*json.loads(capsys.readouterr().out)] == ["balanced", "throughput", "mine"]


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (["--policy", "nowhere.yaml"], "nowhere.yaml"),
        (["--report", "/nowhere/page.html"], "its folder isn't there"),
        (["--trace", "nowhere.csv"], "no such file"),
        (["--format", "itp"], "has no column 'cluster'"),
        (["--format", "other"], "other"),
    ],
)
def test_what_cant_be_done_is_refused_in_words(
    words: list[str], change: list[str], answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2, before anything runs."""
    if change[0] in words:
        at = words.index(change[0])
        words = words[:at] + words[at + 2 :]
    assert main([*words, *change]) == 2
    assert answer in capsys.readouterr().err


def test_cluster_with_workloads_is_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay starts from an empty cluster."""
    (tmp_path / "cluster.yaml").write_text(
        CLUSTER + "workloads: [{name: w, project: a, pods: [{gpus: 1}]}]\n"
    )
    assert main(words) == 2
    assert "has workloads" in capsys.readouterr().err
