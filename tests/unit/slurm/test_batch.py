"""The batch program: output, signals before the end, restarts."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from weir.slurm.job_settings import JobSettings, as_text, read_settings

PATIENCE_S = 120.0


def batch(directory: Path, settings: JobSettings, script: str, **variables: str) -> subprocess.Popen[str]:
    """Start a script in a directory as a pod would."""
    own = directory / "pod"
    own.mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "WEIR_POD_ID": "12/1-0-0",
        "WEIR_POD_DIRECTORY": str(own),
        "WEIR_RESTARTS": "0",
        **variables,
    }
    return subprocess.Popen(
        [sys.executable, "-I", "-m", "weir.slurm.batch", as_text(settings), f"#!/bin/bash\n{script}\n"],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def log_of(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=PATIENCE_S)[0]


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("module", ["batch", "srun", "scontrol", "squeue", "scancel", "absent"])
def test_a_program_of_a_job_loads_the_standard_library_alone(module: str) -> None:
    program = (
        f"import sys; before = set(sys.modules); import weir.slurm.{module}; "
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(names - sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['weir']\n"


def test_settings_survive_the_way_to_the_job() -> None:
    settings = JobSettings(
        name="größe", tasks=3, notice=(10, 60, 1), variables={"A": "b c"}, limit_s=60.0, append=True
    )
    assert read_settings(as_text(settings)) == settings


def test_output_is_in_the_log_and_in_the_file(tmp_path: Path) -> None:
    job = batch(tmp_path, JobSettings(name="x", output="%x-%j-%5j.out"), "echo out; echo err >&2; exit 3")
    assert log_of(job) == "out\nerr\n"
    assert job.returncode == 3
    assert (tmp_path / "x-12-00012.out").read_text() == "out\nerr\n"


def test_a_full_disk_ends_the_copy_and_not_the_job(tmp_path: Path) -> None:
    job = batch(tmp_path, JobSettings(name="x", output="/dev/full"), "echo one; sleep 0.2; echo two; exit 4")
    log = log_of(job)
    assert job.returncode == 4
    assert log.startswith("one\n")
    assert log.endswith("two\n")
    assert "weir: /dev/full has no more output from here on: No space left on device." in log


def test_a_file_that_cant_be_opened_fails_the_job(tmp_path: Path) -> None:
    job = batch(tmp_path, JobSettings(name="x", output="missing/x.out"), "touch ran")
    assert "can't be opened" in log_of(job)
    assert job.returncode == 1
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("append", [None, True, False])
def test_a_restart_keeps_the_output_unless_told_otherwise(append: bool | None, tmp_path: Path) -> None:
    settings = JobSettings(name="x", output="o", append=append)
    log_of(batch(tmp_path, settings, "echo ${SLURM_RESTART_COUNT:-0}"))
    log_of(batch(tmp_path, settings, "echo ${SLURM_RESTART_COUNT:-0}", WEIR_RESTARTS="1"))
    assert (tmp_path / "o").read_text() == ("1\n" if append is False else "0\n1\n")


def test_a_job_without_requeue_isnt_started_again(tmp_path: Path) -> None:
    job = batch(tmp_path, JobSettings(name="x", requeue=False), "touch ran", WEIR_RESTARTS="1")
    assert "--no-requeue" in log_of(job)
    assert job.returncode == 1
    assert not (tmp_path / "ran").exists()


def test_notice_reaches_the_script(tmp_path: Path) -> None:
    job = batch(
        tmp_path,
        JobSettings(name="x"),
        "trap 'echo saved; exit 0' TERM; touch ready; while :; do sleep 0.05; done",
    )
    wait_for((tmp_path / "ready").exists)
    os.kill(job.pid, signal.SIGTERM)
    assert "saved" in log_of(job).splitlines()
    assert job.returncode == 0


def test_the_signal_of_the_user_comes_before_the_time_limit(tmp_path: Path) -> None:
    settings = JobSettings(name="x", notice=(signal.SIGUSR1, 600, 1), limit_s=610.0)
    job = batch(tmp_path, settings, "trap 'echo near the end; exit 9' USR1; while :; do sleep 0.05; done")
    assert log_of(job) == "near the end\n"
    assert job.returncode == 9


def test_the_signal_of_the_user_goes_to_the_tasks_of_steps(tmp_path: Path) -> None:
    settings = JobSettings(name="x", notice=(signal.SIGUSR2, 600, 0))
    script = """
    cat > task.sh <<'END'
    trap 'echo task; exit 0' USR2
    touch ready
    while :; do sleep 0.05; done
END
    trap 'echo script' USR2
    srun -n1 bash task.sh
    echo "srun ended with $?"
    """
    job = batch(tmp_path, settings, script)
    wait_for((tmp_path / "ready").exists)
    os.kill(job.pid, signal.SIGTERM)
    lines = log_of(job).splitlines()
    assert lines[-2:] == ["task", "srun ended with 0"]
    assert "script" not in lines


def test_a_script_that_dies_of_a_signal_is_seen_to(tmp_path: Path) -> None:
    job = batch(tmp_path, JobSettings(name="x"), "kill -KILL $$")
    log_of(job)
    assert job.returncode == -signal.SIGKILL


def test_exported_functions_are_functions_again(tmp_path: Path) -> None:
    functions = '{"BASH_FUNC_greet%%": "() {  echo hello $1\\n}"}'
    job = batch(tmp_path, JobSettings(name="x"), "greet you", SLURM_EXPORTED_FUNCTIONS=functions)
    assert log_of(job) == "hello you\n"
