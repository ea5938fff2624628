"""Job scripts of Slurm against the API server and its controllers.

The pods run nothing here, so their commands run as processes of this machine.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.command_line import Run, answering, runner
from tests.kubernetes.test_installed import installed_without_policies
from tests.slurm.pods import run_pod
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project

JOBS = "/apis/batch/v1/namespaces/team-a/jobs"
GANG = """#!/bin/sh
#SBATCH --job-name='My gang' --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --time=30
[ $$ -gt 1 ] && echo "pod $SLURM_NODEID of $SLURM_NNODES"
[ "$(scontrol show hostnames | head -n 1)" = "$MASTER_ADDR" ] && echo addressed
srun --label sh -c 'echo "$SLURM_PROCID of $SLURM_NTASKS as $SLURM_JOB_NAME, GPUs $CUDA_VISIBLE_DEVICES"'
"""
ARRAY = "#!/bin/sh\necho task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT after $SLURM_JOB_DEPENDENCY\n"


@pytest.fixture
def run(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(plane, monkeypatch, capsys)


@pytest.fixture
def team(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    """Two nodes of two GPUs, a project, and a Weir that answers."""
    home = installed_without_policies(cluster)
    monkeypatch.setenv("WEIR_NAMESPACE", home)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    cluster.add_nodes(2, gpus=2)
    cluster.namespace("team-a")
    cluster.api.create(project("team-a", 4))
    with answering(cluster, home):
        yield cluster


def as_job(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a Job with the spec of a pod."""
    name = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
    return {"metadata": {"name": name}, "spec": {"template": {"spec": pod["spec"]}}}


def index_of(pod: dict[str, Any]) -> int:
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


def pods_of(team: Cluster, name: str, count: int) -> list[dict[str, Any]]:
    """Wait for the running pods of a Job; return them by index."""

    def running() -> list[dict[str, Any]]:
        return [
            pod
            for pod in team.pods("team-a")
            if (pod.get("status") or {}).get("phase") == "Running" and as_job(pod)["metadata"]["name"] == name
        ]

    team.until(lambda: len(running()) == count, f"the pods of {name} to run")
    return sorted(running(), key=index_of)


def test_scripts_run_in_pods_and_wait_for_one_another(run: Run, team: Cluster, tmp_path: Path) -> None:
    options = ("--image", "busybox", "--project", "team-a")
    Path("gang.sh").write_text(GANG)
    code, out, err = run("sbatch", *options, "gang.sh")
    assert code == 0, err
    number = re.fullmatch(r"Submitted batch job (\d+)\n", out)
    assert number is not None, out
    name = f"my-gang-{number[1]}"
    outputs = [run_pod(as_job(pod), tmp_path, index_of(pod)).result() for pod in pods_of(team, name, 2)]
    assert [(code, err) for code, _, err in outputs] == [(0, ""), (0, "")]
    lines = [sorted(out.splitlines()) for _, out, _ in outputs]
    assert lines == [
        [f"{task}: {task} of 4 as My gang, GPUs 0,1" for task in (2 * pod, 2 * pod + 1)]
        + ["addressed", f"pod {pod} of 2"]
        for pod in (0, 1)
    ]
    Path("parts.sh").write_text(ARRAY)
    dependency = f"--dependency=after:{number[1]}"
    code, out, err = run("sbatch", "--parsable", *options, "--array=3-9:3%2", dependency, "parts.sh")
    assert code == 0, err
    parts = f"parts-sh-{out.strip()}"
    spec = team.api.get(f"{JOBS}/{parts}")
    assert spec["metadata"]["annotations"]["weir.dev/after"] == name
    assert (spec["spec"]["completions"], spec["spec"]["parallelism"]) == (3, 2)
    (tmp_path / "parts").mkdir()
    for pod in pods_of(team, parts, 2):
        _, out, _ = run_pod(as_job(pod), tmp_path / "parts", index_of(pod)).result()
        assert out == f"task {3 + 3 * index_of(pod)} of 3 after after:{number[1]}\n"
