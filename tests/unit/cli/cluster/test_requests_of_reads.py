"""Requests of commands that read a cluster: they ask Weir's API, and list no objects of others."""

from typing import Any

import pytest
from tests.unit.cli.cluster.fake_cluster import QUERY, FakeCluster
from tests.unit.cli.samples import DETAIL, EV, NODE, WHY
from tests.unit.client.fake import page, row

from weir.cli.main import main

WORKLOAD = f"{QUERY}/namespaces/vision/workloads/job-train"
PROJECTS = "/apis/weir.dev/v1alpha1/projects"
METADATA = {"name": "job-train", "namespace": "vision"}
STATUS = {
    "version": "0.1.0",
    "nodes": 1,
    "devices": 4,
    "allocated": 1.75,
    "running": 1,
    "pending": 1,
    "policy": "",
    "started_s": 1_000_000.0,
}


@pytest.fixture
def cluster(fake_cluster: FakeCluster) -> FakeCluster:
    """A cluster with a workload, a node and a project, and pods and Jobs that could be listed."""
    fake_cluster.rows = [row("vision/job-train", metadata=METADATA)]
    answers: dict[str, Any] = {
        WORKLOAD: {**DETAIL, "name": "vision/job-train", "metadata": METADATA},
        f"{WORKLOAD}/why": {**WHY, "name": "vision/job-train"},
        f"{WORKLOAD}/series": {"name": "vision/job-train", "stands_in": False, "series": [], "note": "soon"},
        f"{WORKLOAD}/decision": {"rankings": [], "eligible": 0, "protected": 0, "victims": []},
        f"{QUERY}/events": page(*EV),
        f"{QUERY}/namespaces/vision/events": page(*EV),
        f"{QUERY}/nodes": page(NODE),
        f"{QUERY}/pools/cluster": STATUS,
        f"{PROJECTS}/vision": {"metadata": {"name": "vision", "uid": "p1"}, "spec": {"quota": {"gpu": 4}}},
    }
    for path, answer in answers.items():
        fake_cluster.add(path, answer)
    fake_cluster.add_job("train")
    fake_cluster.add_pod("train-0", "train")
    return fake_cluster


def outside(cluster: FakeCluster) -> set[str]:
    """Return the paths of the requests that Weir's API doesn't answer."""
    return {path for path in cluster.asked if not path.startswith(f"{QUERY}/")}


@pytest.mark.parametrize(
    ("words", "beside"),
    [
        ("why train", set()),
        ("why vision/job-train -o json", set()),
        ("why train --explain", set()),
        ("list", set()),
        ("list -A -o wide", set()),
        ("list -p vision --status pending", set()),
        ("describe train", set()),
        ("events", set()),
        ("events train -o wide", set()),
        ("nodes", set()),
        ("status", set()),
        ("top -o json", set()),
        ("top", {PROJECTS}),  # a few objects of Weir's own
    ],
)
def test_a_read_asks_the_api_of_weir_alone(
    words: str, beside: set[str], cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 0
    assert capsys.readouterr().out
    assert outside(cluster) == beside


def test_a_workload_that_weir_does_not_know_yet_is_found_in_the_namespace_of_the_project(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.rows = []
    cluster.add(
        f"{PROJECTS}/speech",
        {"metadata": {"name": "speech", "uid": "p2"}, "spec": {"namespaces": ["teams"]}},
    )
    job = cluster.add_job("fresh")
    job["metadata"]["namespace"] = "teams"
    cluster.add("/apis/batch/v1/namespaces/teams/jobs/fresh", job)
    del cluster.objects["/apis/batch/v1/namespaces/vision/jobs/fresh"]
    assert main(["describe", "fresh"]) == 2
    monkeypatch.setenv("WEIR_PROJECT", "speech")
    assert main(["describe", "fresh"]) == 0
    assert "teams/job-fresh" in capsys.readouterr().out


def test_an_unknown_workload_is_looked_for_by_name(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.rows = []
    assert main(["why", "lost"]) == 2
    assert "There is no workload lost" in capsys.readouterr().err
    assert outside(cluster) == {
        "/apis/batch/v1/namespaces/vision/jobs/lost",
        "/api/v1/namespaces/vision/pods/lost",
        "/apis",
    }
