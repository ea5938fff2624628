"""`weir submit -f` with several workloads on a cluster: all run, or none."""

from pathlib import Path

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.cli.cluster import batch_submissions
from weir.cli.main import main

FILE = """
defaults: {project: vision, image: trainer:1, gpus: 1}
workloads:
  - {name: prepare, command: python prepare.py}
  - {name: train, command: python train.py, after_ok: [prepare]}
  - {name: report, command: python report.py, after_any: [train]}
"""
JOBS = "/apis/batch/v1/namespaces/vision/jobs"
PROJECT = "/apis/weir.dev/v1alpha1/projects/vision"


@pytest.fixture
def file(fake_cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fake_cluster.objects[PROJECT] = {"metadata": {"name": "vision"}, "spec": {"namespaces": ["vision"]}}
    monkeypatch.setattr(batch_submissions, "PAUSE_S", 0.01)
    path = tmp_path / "chain.yaml"
    path.write_text(FILE)
    return path


def submitted(capsys: pytest.CaptureFixture[str], file: Path, *, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["submit", "-f", str(file)]) == code
    answer = capsys.readouterr()
    return answer.err if code else answer.out


def test_all_jobs_are_held_until_all_are_there_and_a_chain_is_released_from_its_end(
    fake_cluster: FakeCluster, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submitted(capsys, file).splitlines() == [
        f"vision/job-{name}" for name in ("prepare", "train", "report")
    ]
    created, released = fake_cluster.written[:3], fake_cluster.written[3:]
    assert {method for method, _, _ in created} == {"POST"}
    assert all(body["spec"]["suspend"] for _, _, body in created)
    assert len({body["metadata"]["labels"]["weir.dev/batch"] for _, _, body in created}) == 1
    assert {method for method, _, _ in released} == {"PATCH"}
    jobs = [fake_cluster.objects[f"{JOBS}/{name}"] for name in ("prepare", "train", "report")]
    assert [job["spec"]["suspend"] for job in jobs] == [False] * 3
    assert jobs[1]["metadata"]["annotations"]["weir.dev/after-ok"] == "prepare"


def test_a_refusal_leaves_none(
    fake_cluster: FakeCluster, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_cluster.refused = lambda method, _, body: (
        (403, "no more jobs") if method == "POST" and body["metadata"]["name"] == "report" else None
    )
    assert "No more jobs" in submitted(capsys, file, code=2)
    assert not [path for path in fake_cluster.objects if path.startswith(JOBS)]
    assert "PATCH" not in {method for method, _, _ in fake_cluster.written}


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        ("after_ok: [report]", "prepare waits for report waits for train waits for prepare"),
        ("name: train", "is called train too"),
        ("nodes: 7", "nodes"),
        ("secrets: {A: b}", "a Job takes Secrets of its namespace"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_created(
    wrong: str, answer: str, fake_cluster: FakeCluster, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    field = wrong if wrong.startswith("name") else f"name: prepare, {wrong}"
    file.write_text(FILE.replace("name: prepare", field))
    assert answer in submitted(capsys, file, code=2)
    assert not fake_cluster.written


def test_a_submission_that_was_cut_off_is_reported_and_can_be_removed(
    fake_cluster: FakeCluster, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = fake_cluster.add_job("train", suspend=True)
    left["metadata"]["labels"] = {"weir.dev/batch": "k7m2xq4d"}
    fake_cluster.refused = lambda method, path, body: (
        (409, "exists")
        if method == "POST" and f"{path}/{body['metadata']['name']}" in fake_cluster.objects
        else None
    )
    told = submitted(capsys, file, code=2)
    assert "left of a submission that was cut off" in told
    assert "kubectl delete jobs -n vision -l weir.dev/batch=k7m2xq4d" in told
    assert [path for path in fake_cluster.objects if path.startswith(JOBS)] == [f"{JOBS}/train"]


def test_a_job_that_cannot_be_released_is_named_by_the_command_that_finds_it(
    fake_cluster: FakeCluster, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cluster.refused = lambda method, path, _: (
        (503, "etcd is gone") if method == "PATCH" and path.endswith("/prepare") else None
    )
    told = submitted(capsys, file, code=1)
    assert "All 3 Jobs are created, and not all could be released" in told
    mark = fake_cluster.objects[f"{JOBS}/prepare"]["metadata"]["labels"]["weir.dev/batch"]
    assert f"kubectl get jobs -n vision -l weir.dev/batch={mark}" in told
    assert [fake_cluster.objects[f"{JOBS}/{name}"]["spec"]["suspend"] for name in ("prepare", "train")] == [
        True,
        False,
    ]
