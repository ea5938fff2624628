"""`weir sbatch` on a real pool: numbers, conditions, arrays, signals, and names."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.slurm.runs import wait_for
from tests.unit.local.server.server_process import Serving, serving
from tools import prefork

FOREVER = "while :; do sleep 0.05; done"


class Jobs:
    """Submits scripts to a pool, from a directory."""

    def __init__(self, pool: Serving, directory: Path) -> None:
        self.pool = pool
        self.directory = directory

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "SBATCH", "WEIR"))
        }
        own = {
            "WEIR_HOME": str(self.pool.home),
            "WEIR_PROJECT": "default",
            "XDG_CONFIG_HOME": str(self.directory),
        }
        return prefork.run(
            [sys.executable, "-m", "weir", "sbatch", *words],
            cwd=self.directory,
            env={**kept, **own, **variables},
        )

    def submit(self, script: str, *words: str, **variables: str) -> str:
        """Submit a script; return its number."""
        (self.directory / "job.sh").write_text(f"#!/bin/bash\n{script}\n")
        done = self.run("--parsable", *words, "job.sh", **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def get(self, job: str) -> dict[str, Any]:
        row: dict[str, Any] = self.pool.get(f"/api/v1/workloads/{job}")
        return row

    def until(self, job: str, status: str) -> Mapping[str, Any]:
        wait_for(lambda: self.get(job)["status"] == status)
        return self.get(job)

    def text(self, name: str) -> str:
        return (self.directory / name).read_text()


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("pool") / "home", gpus=4) as found:
        yield found
        found.stop_all()


@pytest.fixture
def jobs(pool: Serving, tmp_path: Path) -> Iterator[Jobs]:
    yield Jobs(pool, tmp_path)
    pool.stop_all()


def test_a_job_waits_for_another_by_its_number(jobs: Jobs) -> None:
    first = jobs.submit(f"#SBATCH --job-name=first\n{FOREVER}")
    second = jobs.submit("#SBATCH -J second\necho $SLURM_JOB_DEPENDENCY", f"--dependency=afternotok:{first}")
    jobs.until(first, "running")
    assert jobs.get(second)["status"] == "pending"
    jobs.pool.ask("POST", f"/api/v1/workloads/{first}/stop")
    jobs.until(second, "succeeded")
    assert jobs.text(f"slurm-{second}.out") == f"afternotok:{first}\n"
    refused = jobs.run("--dependency=afterok:999999", "job.sh")
    assert refused.returncode == 2
    assert "999999" in refused.stderr


def test_an_array_has_the_variables_and_files_of_slurm(jobs: Jobs) -> None:
    script = "echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_MAX"
    array = jobs.submit(f"{script}; [ $SLURM_JOB_ID != $SLURM_ARRAY_JOB_ID ]", "--array=1-5:2%2")
    jobs.until(array, "succeeded")
    for index in (1, 3, 5):
        assert jobs.text(f"slurm-{array}_{index}.out") == f"{array} {index} 3 5\n"


def test_jobs_may_share_a_name(jobs: Jobs) -> None:
    one = jobs.submit(f"#SBATCH --job-name='my job'\n{FOREVER}")
    two = jobs.submit("#SBATCH --job-name='my job'\necho $SLURM_JOB_NAME")
    jobs.until(two, "succeeded")
    assert jobs.text(f"slurm-{two}.out") == "my job\n"
    assert jobs.get(one)["name"] == "my-job"
    assert jobs.get(two)["name"].startswith("my-job-")


def test_a_command_line_may_be_the_script(jobs: Jobs) -> None:
    done = jobs.run("--wait", "--output=wrapped.out", "--wrap", "echo wrapped; exit 6")
    assert done.returncode == 6
    assert jobs.text("wrapped.out") == "wrapped\n"
    assert done.stdout.startswith("Submitted batch job ")


def test_the_signal_comes_before_the_time_limit(jobs: Jobs) -> None:
    job = jobs.submit(f"#SBATCH --time=1 --signal=B:USR1@40\ntrap 'echo in time; exit 0' USR1\n{FOREVER}")
    jobs.until(job, "succeeded")
    assert "in time" in jobs.text(f"slurm-{job}.out")
    assert jobs.get(job)["max_runtime_s"] == 60


def test_a_stop_reaches_the_script_and_its_tasks(jobs: Jobs) -> None:
    task = "trap 'echo task; exit 0' TERM; touch ready; while :; do sleep 0.05; done"
    job = jobs.submit(f"trap 'echo script' TERM\nsrun -n1 bash -c \"{task}\"\nwait")
    wait_for((jobs.directory / "ready").exists)
    jobs.pool.ask("POST", f"/api/v1/workloads/{job}/stop")
    jobs.until(job, "stopped")
    assert {"task", "script"} <= set(jobs.text(f"slurm-{job}.out").splitlines())


def test_a_job_goes_on_while_the_server_is_killed(jobs: Jobs) -> None:
    job = jobs.submit(
        "echo before; touch ready; while [ ! -e go ]; do sleep 0.05; done; srun echo after; exit 3"
    )
    wait_for((jobs.directory / "ready").exists)
    jobs.pool.end(signal.SIGKILL)
    (jobs.directory / "go").touch()
    wait_for(lambda: "after" in jobs.text(f"slurm-{job}.out"))
    jobs.pool.begin()
    row = jobs.until(job, "failed")
    assert (row["exit_code"], row["restarts"]) == (3, 0)
    assert jobs.text(f"slurm-{job}.out") == "before\nafter\n"


def test_nothing_is_left_of_a_job_whose_batch_program_is_killed(jobs: Jobs) -> None:
    job = jobs.submit("srun -n1 bash -c 'echo $$ > pid; exec sleep 600'")
    wait_for(lambda: (jobs.directory / "pid").exists() and jobs.text("pid").strip() != "")
    task = psutil.Process(int(jobs.text("pid")))
    batch = next(each for each in task.parents() if "weir.slurm.batch" in " ".join(each.cmdline()))
    os.kill(batch.pid, signal.SIGKILL)
    assert jobs.until(job, "failed")["exit_code"] == 128 + signal.SIGKILL
    wait_for(lambda: not task.is_running() or task.status() == psutil.STATUS_ZOMBIE)


def test_a_preempted_job_gets_its_signal_and_goes_on(jobs: Jobs) -> None:
    for name, quota in (("owners", 4), ("guests", 0)):
        status, answer = jobs.pool.ask(
            "PUT", f"/api/v1/projects/{name}", {"name": name, "quota": {"gpu": quota}}
        )
        assert status in (200, 201), answer
    script = f"""#SBATCH --gpus=4 --signal=B:USR1@60 --output=guest.out
trap 'echo saved; exit 1' USR1
echo "restarts ${{SLURM_RESTART_COUNT:-0}}"
[ "${{SLURM_RESTART_COUNT:-0}}" = 1 ] && exit 0
{FOREVER}"""
    guest = jobs.submit(script, "--project=guests")
    wait_for(lambda: (jobs.directory / "guest.out").exists() and "restarts 0" in jobs.text("guest.out"))
    owner = jobs.submit("#SBATCH -G4 -o owner.out\necho owner", "--project=owners")
    jobs.until(owner, "succeeded")
    jobs.until(guest, "succeeded")
    lines = jobs.text("guest.out").splitlines()
    assert [line for line in lines if line.startswith(("restarts", "saved"))] == [
        "restarts 0",
        "saved",
        "restarts 1",
    ]
    assert jobs.get(guest)["restarts"] == 1


def test_a_job_submits_the_next_one(jobs: Jobs) -> None:
    (jobs.directory / "next.sh").write_text("#!/bin/bash\necho next of $1 > next.txt\n")
    job = jobs.submit("sbatch --parsable next.sh $SLURM_JOB_ID > number")
    jobs.until(job, "succeeded")
    jobs.until(jobs.text("number").strip(), "succeeded")
    assert jobs.text("next.txt") == f"next of {job}\n"


def test_variables_that_look_secret_stay_with_the_person(jobs: Jobs) -> None:
    (jobs.directory / "job.sh").write_text("#!/bin/bash\necho ${HF_TOKEN:-none} $DATA\n")
    done = jobs.run("job.sh", HF_TOKEN="hf_1", DATA="/data")
    job = done.stdout.split()[-1]
    assert "HF_TOKEN" in done.stderr
    assert "hf_1" not in done.stderr
    jobs.until(job, "succeeded")
    assert jobs.text(f"slurm-{job}.out") == "none /data\n"
    assert "HF_TOKEN" not in jobs.get(job)["env"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("missing.sh",), "missing.sh can't be read"),
        (("--bogus", "job.sh"), "--bogus"),
        (("--time=soon", "job.sh"), "--time=soon"),
        (("--gres=gpu:64", "job.sh"), "64"),
        (("--project=nowhere", "job.sh"), "nowhere"),
        (("--licenses=x", "job.sh"), "--best-effort"),
        (("--wrap=true", "job.sh"), "--wrap"),
        (("--image=trainer:1", "job.sh"), "--image is for clusters"),
    ],
)
def test_a_wrong_submission_is_refused(words: tuple[str, ...], hint: str, jobs: Jobs) -> None:
    (jobs.directory / "job.sh").write_text("#!/bin/bash\necho\n")
    done = jobs.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("url", ["https://pool.example.org", "ssh://pool.example.org"])
def test_a_pool_elsewhere_gets_no_script(url: str, jobs: Jobs) -> None:
    (jobs.directory / "job.sh").write_text("#!/bin/bash\necho\n")
    done = jobs.run("job.sh", WEIR_URL=url, WEIR_TOKEN="x")
    assert done.returncode == 2
    assert "weir import sbatch" in done.stderr
