"""A pool of `weir up` on the first real GPU of this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import weir

ROOT = Path(__file__).parents[2]
PROGRAM = str(ROOT / "tools" / "cuda_program.py")
WITHIN_S = 120.0


class GpuPool:
    """The pool, and its user."""

    def __init__(self, place: Path, policy: str) -> None:
        self.home = place / "home"
        (policy_file := place / "policy.yaml").write_text(policy)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("WEIR_")}
        environment |= {
            "WEIR_HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))),
            "CUDA_VISIBLE_DEVICES": "0",
        }
        self.environment = environment
        command = [sys.executable, "-m", "weir", "up", "--port", "0", "--policy", str(policy_file)]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        at = self.home / "server.json"
        until(lambda: at.exists() and json.loads(at.read_text())["pid"] == self.process.pid)
        self.url = str(json.loads(at.read_text())["url"])
        token = (self.home / "token").read_text().strip()
        self.pool = weir.Pool(self.url, token=token, timeout_s=120.0)

    def submit(self, name: str, *words: str, command: Sequence[str] = (), **more: Any) -> None:
        """Submit a workload that does what the words of `cuda_program` say, or another command."""
        fields = {"project": "default", "gpus": 1, "cpu": "100m", "memory": "4Gi", **more}
        self.pool.submit(name=name, command=list(command or (sys.executable, PROGRAM, *words)), **fields)

    def start(self, name: str, *words: str, **more: Any) -> None:
        """Submit a workload, and wait until it runs."""
        self.submit(name, *words, **more)
        self.until(name, "running")

    def until(self, name: str, *statuses: str) -> None:
        """Wait until a workload has one of these statuses."""
        until(lambda: self.pool.get(name).status in statuses, lambda: self.story(name))

    def says(self, name: str, text: str) -> str:
        """Wait until the output of a workload has a text; return the output."""
        until(lambda: text in self.log(name), lambda: self.story(name))
        return self.log(name)

    def log(self, name: str) -> str:
        """Return the output of a workload, of all its starts."""
        logs = (self.home / "jobs" / str(self.pool.get(name).uid)).glob("*/log")
        return "".join(path.read_text() for path in sorted(logs, key=lambda path: path.stat().st_mtime))

    def story(self, name: str) -> object:
        """Return all that is known of a workload."""
        return self.pool.get(name).model_dump(), self.log(name)

    def state(self, name: str) -> str | None:
        """Return the activity of a workload."""
        found = self.pool.get(name).activity
        return None if found is None else found.state

    def weir(self, *words: str) -> str:
        """Return what a command prints."""
        command = [sys.executable, "-m", "weir", *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def stop_all(self) -> None:
        """Stop all workloads, and wait until they are gone."""
        for row in self.pool.list():
            self.pool.stop(row.name)
        until(lambda: not list(self.pool.list()))

    def end(self) -> None:
        """Stop all workloads, and then the pool."""
        self.stop_all()
        self.pool.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)


def until(holds: Callable[[], object], tell: Callable[[], object] = lambda: "") -> None:
    """Wait for an outcome."""
    end_s = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < end_s, tell()
        time.sleep(0.1)
