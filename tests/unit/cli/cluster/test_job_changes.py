"""`weir rerun` and `weir priority` on a cluster."""

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.cli.main import main

ENDED = {"conditions": [{"type": "Failed", "status": "True"}]}
OWNER = {"apiVersion": "weir.dev/v1alpha1", "uid": "s1", "controller": True}
JOB = "/apis/batch/v1/namespaces/vision/jobs/train"


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(list(words)) == code
    answer = capsys.readouterr()
    return answer.err if code else answer.out


def ended_job(fake_cluster: FakeCluster) -> dict[str, object]:
    of_controller = {"controller-uid": "j1", "batch.kubernetes.io/job-name": "train"}
    template = {
        "metadata": {"labels": {"a": "b", **of_controller}},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }
    job = fake_cluster.add_job(
        "train", selector={"matchLabels": of_controller}, template=template, suspend=True
    )
    job["metadata"] |= {
        "labels": {"weir.dev/project": "vision", **of_controller},
        "annotations": {
            "weir.dev/max-runtime": "2h",
            "weir.dev/user": "mia",
            "weir.dev/checkpointed-at": "x",
        },
    }
    job["status"] = ENDED
    return job


def test_a_job_that_is_over_runs_again_under_a_name_of_its_own(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    job = ended_job(fake_cluster)
    assert said(capsys, "rerun", "vision/train") == "vision/job-train-r2 is queued again.\n"
    (method, path, body) = fake_cluster.written[-1]
    assert (method, path) == ("POST", "/apis/batch/v1/namespaces/vision/jobs")
    assert body["metadata"] == {
        "name": "train-r2",
        "labels": {"weir.dev/project": "vision"},
        "annotations": {"weir.dev/max-runtime": "2h"},
    }
    assert body["spec"] == {
        "parallelism": 1,
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "main", "image": "i"}]},
        },
    }
    fake_cluster.refused = lambda _, __, body: (
        (409, "AlreadyExists") if body["metadata"]["name"] == "train-r3" else None
    )
    fake_cluster.objects[f"{JOB}-r2"]["status"] = ENDED
    assert said(capsys, "rerun", "train-r2") == "vision/job-train-r4 is queued again.\n"
    assert JOB in fake_cluster.objects, "the former one stays, and its output"
    job["status"] = {}
    assert "isn't over yet: stop it first" in said(capsys, "rerun", "train", code=2)


@pytest.mark.parametrize(
    ("change", "words", "answer"),
    [
        ({"ownerReferences": [{**OWNER, "kind": "Sweep", "name": "s"}]}, (), "belongs to Sweep s"),
        ({}, ("--failed",), "--array"),
        ({}, ("--index", "3"), "--array"),
    ],
)
def test_a_job_that_cannot_run_again_as_it_is_is_refused(
    change: dict[str, object],
    words: tuple[str, ...],
    answer: str,
    fake_cluster: FakeCluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = ended_job(fake_cluster)
    job["metadata"] |= change  # type: ignore[operator]
    assert answer in said(capsys, "rerun", "train", *words, code=2)
    assert not fake_cluster.written


@pytest.fixture
def classes(fake_cluster: FakeCluster) -> None:
    for name, value in (("weir-train", 50), ("urgent", 90), ("weir-build", 100)):
        path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}"
        fake_cluster.objects[path] = {"metadata": {"name": name}, "value": value}


@pytest.mark.parametrize("written", ["90", "urgent"])
def test_a_priority_is_a_class_that_the_job_names(
    written: str, classes: None, fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_cluster.add_job("train")
    assert said(capsys, "priority", "train", written) == "vision/job-train has priority 90 now.\n"
    assert fake_cluster.written[-1] == (
        "PATCH",
        JOB,
        {"metadata": {"annotations": {"priorityClassName": "urgent"}}},
    )


def test_a_priority_that_no_class_has_or_pods_name_is_refused(
    classes: None, fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    job = fake_cluster.add_job("train")
    known = "there are weir-train (50), urgent (90), weir-build (100)"
    assert known in said(capsys, "priority", "train", "high", code=2)
    assert known in said(capsys, "priority", "train", "7", code=2)
    job["spec"]["template"]["spec"]["priorityClassName"] = "weir-build"
    assert "submit it again with --priority 90" in said(capsys, "priority", "train", "urgent", code=2)
    assert not fake_cluster.written


def test_a_priority_leaves_the_preemptibility_as_it_is(
    classes: None, fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_cluster.add_job("train")
    row = {
        "metadata": {"namespace": "vision", "name": "job-train"},
        "name": "vision/job-train",
        "uid": 1,
        "project": "vision",
        "user": "mia",
        "type": "train",
        "status": "pending",
        "priority": 50,
        "preemptible": True,
        "devices": 1.0,
        "pods": 1,
        "pods_running": 0,
        "submitted_s": 1.0,
    }
    fake_cluster.rows = [row]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j1"}
    fake_cluster.objects["/apis/weir.dev/v1alpha1/namespaces/vision/workloads/job-train"] = {
        "metadata": {"name": "job-train"},
        "spec": {"owner": owner},
    }
    assert said(capsys, "priority", "train", "100") == "vision/job-train has priority 100 now.\n"
    annotations = {"priorityClassName": "weir-build", "weir.dev/preemptible": "true"}
    assert fake_cluster.written[-1][2] == {"metadata": {"annotations": annotations}}
