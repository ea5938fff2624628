"""New work of a project of a cluster that is being deleted."""

from pathlib import Path

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.cli.main import main

PROJECT = "/apis/weir.dev/v1alpha1/projects/vision"


@pytest.mark.parametrize(
    "words",
    [
        "submit -p vision --image a:1 -- true",
        "submit -f FILE",
        "schedule add --name n --cron @daily -p vision --image a:1 -- true",
        "sweep -p vision --image a:1 --param lr=log:1e-5..1 --trials 3 --rungs 1,3 -- true",
    ],
)
def test_new_work_is_refused_with_what_to_do(
    words: str, fake_cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leaving = {"name": "vision", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    fake_cluster.objects[PROJECT] = {"metadata": leaving, "spec": {"namespaces": ["vision"]}}
    file = tmp_path / "jobs.yaml"
    file.write_text("workloads:\n- {name: a, project: vision, image: 'a:1', command: 'true'}\n")
    assert main(words.replace("FILE", str(file)).split()) == 2
    sentence = (
        "vision is being deleted and takes no new work; name another project, or create it again once it is "
        "gone."
    )
    assert sentence in capsys.readouterr().err
    assert [method for method, path, _ in fake_cluster.written if "selfsubject" not in path] == []


@pytest.mark.parametrize("of_pods", [False, True])
def test_a_rerun_is_refused_with_what_to_do(
    *, of_pods: bool, fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    leaving = {"name": "vision", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    fake_cluster.objects[PROJECT] = {"metadata": leaving, "spec": {"namespaces": ["vision"]}}
    job = fake_cluster.add_job("train")
    job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    labels = {"labels": {"weir.dev/project": "vision"}}
    if of_pods:
        job["spec"]["template"]["metadata"] = labels
    else:
        job["metadata"] |= labels
    assert main(["rerun", "vision/train"]) == 2
    assert (
        "vision is being deleted and takes no new work; submit the work to another project"
        in capsys.readouterr().err
    )
    assert [method for method, path, _ in fake_cluster.written if "selfsubject" not in path] == []
