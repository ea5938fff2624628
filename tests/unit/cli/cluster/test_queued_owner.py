"""`weir why` and `weir describe` of Jobs that Weir has no Workload of."""

import json
from typing import Any

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.cli.main import main

PROJECTS = "/apis/weir.dev/v1alpha1/projects"


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert main([*words, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def suspended_job(fake_cluster: FakeCluster, scheduler: str = "weir") -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    template = {"spec": {"schedulerName": scheduler, "containers": [container]}}
    job = fake_cluster.add_job("train", template=template, suspend=True, parallelism=2)
    written = {"manager": "kubectl-create", "time": "2026-01-01T00:00:00Z"}
    fields = {"fieldsV1": {"f:spec": {"f:suspend": {}}}}
    other = {"manager": "kube-controller-manager", "fieldsV1": {"f:status": {}}}
    job["metadata"]["managedFields"] = [{**written, **fields}, other]
    fake_cluster.add(
        f"{PROJECTS}/v", {"metadata": {"name": "v", "uid": "p"}, "spec": {"namespaces": ["vision"]}}
    )
    return job


@pytest.mark.parametrize("scheduler", ["weir", "default-scheduler"])
def test_a_job_that_was_created_suspended_says_so_with_its_project_and_size(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str], scheduler: str
) -> None:
    suspended_job(fake_cluster, scheduler)
    found = answer(capsys, "why", "vision/train")
    assert (found["status"], found["reason"]["why"], found["suggestions"]) == ("pending", "suspended", [])
    sentence = found["reason"]["sentence"]
    assert sentence == (
        "suspended: spec.suspend of Job train is true, as kubectl-create wrote it, so it has no pods; "
        "`weir resume vision/job-train` resumes it, and then it enters the queue of v"
    )
    row = answer(capsys, "describe", "vision/train")
    assert [row[key] for key in ("project", "devices", "pods")] == ["v", 8.0, 2]
    assert row["reason"]["why"] == "suspended"
    assert main(["why", "vision/train"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "spec.suspend of Job train is true" in printed
    assert "Nothing that was tried" not in printed


def test_a_suspended_job_that_another_scheduler_places_is_not_ours(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    suspended_job(fake_cluster, "volcano")
    found = answer(capsys, "why", "vision/train")
    assert found["reason"]["why"] == "other_scheduler"
    assert "name the scheduler volcano" in found["reason"]["sentence"]


def test_a_job_that_is_not_suspended_is_pending_without_a_reason_yet(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    suspended_job(fake_cluster)["spec"]["suspend"] = False
    assert answer(capsys, "why", "vision/train")["reason"] is None
    assert answer(capsys, "describe", "vision/train")["project"] == "v"


def test_a_job_of_kueue_is_resumed_by_kueue(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    suspended_job(fake_cluster)["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus"}
    sentence = answer(capsys, "why", "vision/train")["reason"]["sentence"]
    assert sentence.endswith("Kueue resumes it, from its queue gpus, and then it enters the queue of v")
    assert main(["resume", "vision/train"]) == 2
    assert "can't be resumed here: Kueue resumes it, from its queue gpus" in capsys.readouterr().err
    assert not fake_cluster.written


def test_a_suspended_job_is_resumed(fake_cluster: FakeCluster) -> None:
    suspended_job(fake_cluster)
    assert main(["resume", "vision/train"]) == 0
    assert [(method, body) for method, _, body in fake_cluster.written] == [
        ("PATCH", {"spec": {"suspend": False}})
    ]
