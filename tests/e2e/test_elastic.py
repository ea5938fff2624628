"""Elastic training goes on while GPUs come and go, and ends with the result of an undisturbed run."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.unit.local.server.server_process import Serving, serving

ROOT = Path(__file__).parents[2]
EXAMPLES = ("elastic_plain.py", "elastic_jax.py")
STEPS = "600"
SLOW = """
import os, time
sleep = time.sleep
time.sleep = lambda seconds: sleep(min(seconds, 0.01) if os.path.exists(os.environ["FAST"]) else seconds)
"""
"""Module that the interpreter of a job imports first: its training isn't over before the test says so."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_training_goes_on_while_gpus_come_and_go(tmp_path: Path, name: str) -> None:
    example = ROOT / "examples" / name
    alone = _alone(example, tmp_path / "alone")
    first, fast = tmp_path / "first", tmp_path / "fast"
    first.mkdir()
    (first / "sitecustomize.py").write_text(SLOW)
    env = {"PYTHONPATH": os.pathsep.join(map(str, (first, ROOT / "src"))), "FAST": str(fast)}
    with serving(tmp_path / "home", gpus=4) as server:
        for name, quota in (("owners", 3), ("guests", 1)):
            server.ask("PUT", f"/api/v1/projects/{name}", {"name": name, "quota": {"gpu": quota}})
        job = server.submit(
            sys.executable, str(example), "--steps", STEPS, "--pause", "0.5",
            name="job", project="guests", elastic="1:4", pods=[{"gpus": 1, "cpu": "400m", "memory": "1Gi"}], env=env,
        )  # fmt: skip
        logs = tmp_path / "home" / "jobs" / str(job["uid"])
        _until_size(server, logs, 4)
        owner = server.submit("sleep", "600", name="owner", project="owners", gpus=2)
        server.until("owner", "running")
        _until_size(server, logs, 2)
        server.ask("POST", f"/api/v1/workloads/{owner['name']}/stop")
        _until_size(server, logs, 4)
        fast.touch()
        row = server.until("job", "succeeded", "failed", within_s=240)
        text = _text(logs)
        assert (row["status"], row["restarts"]) == ("succeeded", 0), text
        assert "leaves at step" in text
        stays = (logs / "1-0-0" / "log").read_text()
        assert "is stopped for owner" in text
        assert "is stopped for owner" not in stays, "its pod runs on"
        assert alone in text, "the same to the last bit"


def _alone(example: Path, place: Path) -> str:
    place.mkdir()
    env = {**os.environ, "WEIR_CHECKPOINT_DIR": str(place), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(example), "--steps", STEPS, "--pause", "0"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout.splitlines()[-1]


def _until_size(server: Serving, logs: Path, size: int) -> None:
    """Wait until the process of rank 0 says last that this number takes part."""
    until = time.monotonic() + 120
    while True:
        log = logs / "1-0-0" / "log"
        sizes = re.findall(r"(\d) take part", log.read_text() if log.exists() else "")
        if sizes and int(sizes[-1]) == size:
            return
        assert time.monotonic() < until, _text(logs)
        assert server.get("/api/v1/workloads/job")["status"] in ("pending", "starting", "running"), _text(
            logs
        )
        time.sleep(0.1)


def _text(logs: Path) -> str:
    return "\n".join(f"{file.parent.name}: {file.read_text()}" for file in sorted(logs.glob("*/log")))
