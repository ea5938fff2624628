"""`srun` in a job: tasks, their GPUs, their exit codes and signals."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from weir.slurm.job_place import DIRECTORY

PATIENCE_S = 120.0


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """The variables of a job with four CPUs and four GPUs."""
    (tmp_path / "place" / "steps").mkdir(parents=True)
    return {
        "PATH": os.environ["PATH"],
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "4",
        "SLURM_CPUS_ON_NODE": "4",
        "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b,GPU-c,GPU-d",
        DIRECTORY: str(tmp_path / "place"),
    }


def srun(job: dict[str, str], directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "weir.slurm.srun", *words]
    return subprocess.run(
        command, cwd=directory, env=job, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def started(job: dict[str, str], directory: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-I", "-m", "weir.slurm.srun", *words], cwd=directory, env=job)


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_each_task_sees_its_own_gpus(job: dict[str, str], tmp_path: Path) -> None:
    done = srun(
        job, tmp_path, "-n2", "--gpus-per-task=2", "--label", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"
    )
    assert sorted(done.stdout.splitlines()) == ["0: GPU-a,GPU-b", "1: GPU-c,GPU-d"]


def test_steps_at_the_same_time_have_different_gpus(job: dict[str, str], tmp_path: Path) -> None:
    script = "echo $CUDA_VISIBLE_DEVICES > gpu-$NUMBER; while [ ! -e go ]; do sleep 0.05; done"
    steps = [
        started({**job, "NUMBER": str(number)}, tmp_path, "-n1", "--exact", "--gpus=1", "sh", "-c", script)
        for number in range(4)
    ]
    wait_for(lambda: all((tmp_path / f"gpu-{number}").exists() for number in range(4)))
    (tmp_path / "go").touch()
    assert [step.wait(PATIENCE_S) for step in steps] == [0, 0, 0, 0]
    assert {(tmp_path / f"gpu-{number}").read_text().strip() for number in range(4)} == {
        *("GPU-a", "GPU-b", "GPU-c", "GPU-d")
    }


def test_a_killed_step_frees_its_gpus(job: dict[str, str], tmp_path: Path) -> None:
    step = started(job, tmp_path, "-n1", "--gpus=4", "sh", "-c", "echo $$ > pid; exec sleep 600")
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip() != "")
    step.kill()
    step.wait()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert srun(job, tmp_path, "-n1", "--gpus=4", "true").returncode == 0


def test_more_tasks_than_cpus_may_be_asked_for(job: dict[str, str], tmp_path: Path) -> None:
    done = srun(job, tmp_path, "-n6", "-O", "--label", "echo", "ready")
    assert sorted(done.stdout.splitlines()) == [f"{rank}: ready" for rank in range(6)]


def test_the_exit_code_is_the_highest_and_a_signal_counts(job: dict[str, str], tmp_path: Path) -> None:
    done = srun(job, tmp_path, "-n4", "sh", "-c", "exit $SLURM_PROCID")
    assert done.returncode == 3
    assert "task 3: Exited with exit code 3" in done.stderr
    assert srun(job, tmp_path, "-n1", "sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL
    assert srun(job, tmp_path, "-n2", "./nothing").returncode == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--mpi=pmix", "true"), "mpirun"),
        (("--pty", "bash"), "weir exec"),
        (("-N2", "true"), "--nodes=1"),
        (("-n5", "true"), "the job has 4"),
        (("-n1", "--gpus=5", "true"), "the job has 4"),
        (("--bogus", "true"), "no option of srun"),
        ((), "no command"),
        (("-n1", "true", ":", "-n1", "true"), "--multi-prog"),
        (("-n", "many", "true"), "whole number"),
    ],
)
def test_what_it_cant_do_is_one_sentence(
    words: tuple[str, ...], hint: str, job: dict[str, str], tmp_path: Path
) -> None:
    done = srun(job, tmp_path, *words)
    assert done.returncode == 1
    assert done.stderr.startswith("srun: error: ")
    assert len(done.stderr.splitlines()) == 1
    assert hint in done.stderr


def test_outside_of_a_job_it_says_where_it_runs(tmp_path: Path) -> None:
    done = srun({"PATH": os.environ["PATH"]}, tmp_path, "true")
    assert done.returncode == 1
    assert "weir sbatch" in done.stderr


def test_a_signal_reaches_the_tasks(job: dict[str, str], tmp_path: Path) -> None:
    script = "trap 'echo got > got-$SLURM_PROCID; exit 5' USR1; touch ready-$SLURM_PROCID; while :; do sleep 0.05; done"
    step = started(job, tmp_path, "-n2", "bash", "-c", script)
    wait_for(lambda: all((tmp_path / f"ready-{rank}").exists() for rank in range(2)))
    step.send_signal(signal.SIGUSR1)
    assert step.wait(PATIENCE_S) == 5
    assert all((tmp_path / f"got-{rank}").exists() for rank in range(2))


def test_a_signal_while_tasks_are_started_reaches_them(job: dict[str, str], tmp_path: Path) -> None:
    """The first task is ready, and gets the signal, before `srun` knows of it."""
    script = "trap 'exit 5' USR1; touch ready-$SLURM_PROCID; for i in $(seq 400); do sleep 0.05; done"
    program = """
import os, signal, subprocess, sys, time
from weir.slurm import srun, step_tasks

class Slow(subprocess.Popen):
    def __init__(self, *command, **options):
        super().__init__(*command, **options)
        name = f"ready-{options['env']['SLURM_PROCID']}"
        while not os.path.exists(name):
            time.sleep(0.02)
        if name == "ready-0":
            os.kill(os.getpid(), signal.SIGUSR1)

step_tasks.subprocess.Popen = Slow
sys.exit(srun.main(sys.argv[1:]))
"""
    command = [sys.executable, "-I", "-c", program, "-n2", "bash", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=job, timeout=PATIENCE_S, check=False)
    assert done.returncode == 5


def test_the_first_failure_ends_the_others_if_asked(job: dict[str, str], tmp_path: Path) -> None:
    script = "[ $SLURM_PROCID = 1 ] && exit 4; sleep 600"
    done = srun(job, tmp_path, "-n2", "-K", "sh", "-c", script)
    assert done.returncode == 128 + signal.SIGTERM


def test_programs_differ_by_task(job: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "tasks").write_text("# ranks program\n0 echo first %t\n1-3 echo other %t %o\n")
    done = srun(job, tmp_path, "--multi-prog", "--label", "tasks")
    assert sorted(done.stdout.splitlines()) == ["0: first 0", "1: other 1 0", "2: other 2 1", "3: other 3 2"]
    (tmp_path / "tasks").write_text("0 echo first\n")
    assert "task 1 has no program" in srun(job, tmp_path, "--multi-prog", "tasks").stderr
