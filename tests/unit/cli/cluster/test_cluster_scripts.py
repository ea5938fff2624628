"""`weir sbatch` on a cluster: the Job, its number, and jobs that wait for one another by numbers."""

from pathlib import Path

import pytest
from tests.slurm import pods
from tests.unit.cli.cluster.fake_cluster import FakeCluster, Object

from weir.cli.main import main

JOBS = "/apis/batch/v1/namespaces/vision/jobs"
SERVICES = "/api/v1/namespaces/vision/services"
NUMBER = "weir.dev/slurm-job"


@pytest.fixture(autouse=True)
def project(fake_cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = {"metadata": {"name": "vision"}, "spec": {"namespaces": ["vision"]}}
    fake_cluster.objects["/apis/weir.dev/v1alpha1/projects/vision"] = project
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def write(directives: str, body: str = "echo in") -> None:
    Path("job.sh").write_text(f"#!/bin/sh\n#SBATCH {directives}\n{body}\n")


def sbatch(*words: str, code: int = 0) -> None:
    assert main(["sbatch", "--project=vision", "--image=trainer:1", *words]) == code


def jobs_of(fake_cluster: FakeCluster) -> list[Object]:
    return [each for path, each in fake_cluster.objects.items() if path.startswith(JOBS)]


def test_a_script_becomes_a_job_with_a_number(
    fake_cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("-J train --gpus=2 -t 30 -o train.out", "echo $SLURM_JOB_ID $SLURM_JOB_NAME on $SLURM_GPUS_ON_NODE")
    sbatch("job.sh")
    said, (job,) = capsys.readouterr(), jobs_of(fake_cluster)
    number = job["metadata"]["labels"][NUMBER]
    assert said.out == f"Submitted batch job {number}\n"
    assert f"`weir logs vision/job-train-{number} -f` follows its output." in said.err
    assert "ignored  --output=train.out (job.sh:2): a pod has a log" in said.err
    assert job["metadata"]["name"] == f"train-{number}"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "trainer:1"
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    (tmp_path / "pod").mkdir()
    assert pods.run_pod(job, tmp_path / "pod").result() == (0, f"{number} train on 2\n", "")


def test_the_image_may_be_that_of_the_site(
    fake_cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("-A vision")
    assert main(["sbatch", "job.sh"]) == 2
    assert "no image is named for the pods: write --image=IMAGE" in capsys.readouterr().err
    (tmp_path / "weir").mkdir()
    (tmp_path / "weir" / "slurm.yaml").write_text("image: site:1\n")
    assert main(["sbatch", "--parsable", "job.sh"]) == 0
    (job,) = jobs_of(fake_cluster)
    assert capsys.readouterr().out.strip() == job["metadata"]["labels"][NUMBER]
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "site:1"


def test_a_job_of_several_nodes_is_a_gang(fake_cluster: FakeCluster) -> None:
    write("-N2 --ntasks-per-node=4 --gpus-per-node=4", "srun python train.py")
    sbatch("job.sh")
    (job,) = jobs_of(fake_cluster)
    assert (job["spec"]["completions"], job["spec"]["completionMode"]) == (2, "Indexed")
    assert [path for path in fake_cluster.objects if path.startswith(SERVICES)]
    assert pods.variables_of(job, 1)["MASTER_ADDR"].startswith(f"{job['metadata']['name']}-0.")


def test_a_job_waits_for_others_by_their_numbers(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    write("-J first")
    sbatch("--parsable", "job.sh")
    number = capsys.readouterr().out.strip()
    again = fake_cluster.add_job(f"first-{number}-r2")
    again["metadata"] |= {"labels": {NUMBER: number}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    write(f"-J second --dependency=afterok:{number}")
    sbatch("job.sh")
    (second,) = [job for job in jobs_of(fake_cluster) if job["metadata"]["name"].startswith("second")]
    assert second["metadata"]["annotations"]["weir.dev/after-ok"] == f"first-{number}-r2", "the last run"
    capsys.readouterr()
    sbatch("--dependency=afterok:5", "job.sh", code=2)
    assert "--dependency: there is no job 5 in vision" in capsys.readouterr().err


def test_another_number_is_drawn_if_a_job_has_the_name(fake_cluster: FakeCluster) -> None:
    tried: list[str] = []

    def refuse_first(method: str, path: str, body: Object) -> tuple[int, str] | None:
        if method != "POST" or path != JOBS:
            return None
        tried.append(body["metadata"]["labels"][NUMBER])
        return (409, "it exists") if len(tried) == 1 else None

    fake_cluster.refused = refuse_first
    write("-J train")
    sbatch("job.sh")
    (job,) = jobs_of(fake_cluster)
    assert len(set(tried)) == 2
    assert pods.variables_of(job)["SLURM_JOB_ID"] == tried[1]


def test_a_trial_creates_nothing(fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    write("-n2 --hint=nomultithread")
    sbatch("--test-only", "job.sh")
    assert "--hint=nomultithread" in capsys.readouterr().err
    assert not fake_cluster.written


def test_a_missing_right_is_a_sentence(fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    fake_cluster.refused = lambda *_: (
        403,
        'jobs.batch is forbidden: User "ann" cannot create resource "jobs"',
    )
    write("-n1")
    sbatch("job.sh", code=2)
    assert "Traceback" not in capsys.readouterr().err
