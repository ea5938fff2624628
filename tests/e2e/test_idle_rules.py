"""Idle rules in a pool of `weir up`, with real processes and a driver of fake GPUs that the test controls."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import weir

HERE = Path(__file__).parent
POLICY = """
life:
  idle_window: 20s
  idle_notice: {train: 21s, build: 21s}
  idle_unprotect: {train: 30s}
  idle_suspend: {train: 60s}
  idle_limit: {build: 80s}
  idle_warning: {train: 10s, build: 10s}
"""
WITHIN_S = 300.0
SPINS = """
import time
while True:
    begun_s, until_s = time.monotonic(), time.process_time() + 0.1
    while time.process_time() < until_s: pass
    time.sleep(max(0.0, begun_s + 0.4 - time.monotonic()))
"""
"""A quarter of a core, or as much as a busy machine gives: far more than an idle editor takes."""
WRITES = "import sys, time\nwhile True: open(sys.argv[1], 'wb').write(bytes(4 << 20)); time.sleep(0.5)"
BUSY = "import time, weir; weir.busy('indexing'); time.sleep(3600)"


class Machine:
    """A pool of `weir up` on eight fake GPUs."""

    def __init__(self, directory: Path) -> None:
        self.home, self._uses = directory / "home", directory / "gpus.json"
        self._policy = directory / "policy.yaml"
        self._policy.write_text(POLICY)
        self.uses: dict[int, int | None] = {}
        self.use({})
        self._environment = {
            key: value for key, value in os.environ.items() if not key.startswith("WEIR_")
        } | {
            "WEIR_HOME": str(self.home),
            "FAKE_GPUS": str(self._uses),
            "FAKE_GPUS_ID": str(os.getpid()),
            "PYTHONPATH": f"{HERE / 'fake_gpus'}:{HERE.parents[1] / 'src'}",
        }
        self.begin()

    def use(self, uses: dict[int, int | None]) -> None:
        """Set the use of GPUs in percent; None: it can't be measured."""
        self.uses |= uses
        beside = self._uses.with_suffix(".new")
        beside.write_text(json.dumps(self.uses))
        beside.rename(self._uses)

    def begin(self) -> None:
        """Start the server, and connect to it."""
        command = [sys.executable, "-m", "weir", "up", "--port", "0", "--policy", str(self._policy)]
        self.process = subprocess.Popen(command, env=self._environment, stdout=subprocess.DEVNULL)
        place, until = self.home / "server.json", time.monotonic() + 120
        while not (place.exists() and json.loads(place.read_text())["pid"] == self.process.pid):
            assert self.process.poll() is None, "it didn't begin"
            assert time.monotonic() < until
            time.sleep(0.05)
        self.pool = weir.Pool(
            json.loads(place.read_text())["url"],
            token=(self.home / "token").read_text().strip(),
            timeout_s=120.0,
        )

    def kill(self) -> None:
        """End the server as a crash does."""
        self.pool.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(120)

    def starts(self, name: str, *command: str, gpus: int = 1, type: str = "train") -> list[int]:  # noqa: A002
        """Start a workload; its GPUs."""
        self.pool.submit(
            project="default",
            name=name,
            command=list(command),
            gpus=gpus,
            cpu="100m",
            memory="64Mi",
            type=type,
        )
        self.until(lambda: self.pool.get(name).status == "running")
        return list(self.pool.get(name).pod_rows[0].devices)

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait for an outcome."""
        end_s = time.monotonic() + WITHIN_S
        while not holds():
            assert time.monotonic() < end_s, [row.model_dump() for row in self.pool.list()]
            time.sleep(0.3)

    def kinds(self, name: str) -> list[str]:
        """Return the kinds of a workload's events about idleness, oldest first."""
        kinds = [event.kind for event in self.pool.events(workload=name)][::-1]
        return [kind for kind in kinds if kind.startswith(("idle", "protection"))]

    def state(self, name: str) -> str | None:
        """Return the activity of a workload."""
        found = self.pool.get(name).activity
        return None if found is None else found.state

    def quiet(self, name: str) -> list[str]:
        """Return the GPUs of a workload that are quiet beside working ones."""
        found = self.pool.get(name).activity
        return [] if found is None else list(found.quiet)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            for row in found.pool.list():
                found.pool.stop(row.name)
            found.until(lambda: not list(found.pool.list()))
            found.pool.close()
            found.process.terminate()
            found.process.wait(120)


def test_idle_work_goes_in_steps_and_all_other_work_stays(machine: Machine, tmp_path: Path) -> None:
    machine.use(dict.fromkeys(range(8), 90))  # nothing is idle before all of it runs
    machine.starts("parked", "sleep", "3600")
    machine.starts("left", "sleep", "3600", type="build")
    machine.starts("spins", sys.executable, "-c", SPINS)
    machine.starts("writes", sys.executable, "-c", WRITES, str(tmp_path / "data"))
    (mig,) = machine.starts("mig", "sleep", "3600")
    busy, quiet = machine.starts("ranks", "sleep", "3600", gpus=2)
    machine.starts("says", sys.executable, "-c", BUSY)
    machine.until(lambda: machine.kinds("says") == ["idle_extended"])
    machine.use(dict.fromkeys(range(8), 0) | {mig: None, busy: 90})
    expected = {"spins": "starved", "writes": "starved", "mig": "unknown", "ranks": "working", "left": "left"}
    machine.until(lambda: {name: machine.state(name) for name in expected} == expected)
    machine.until(lambda: machine.kinds("parked")[:2] == ["idle_warning", "protection_lost"])
    machine.until(lambda: machine.quiet("ranks") == [f"GPU {quiet}"])
    machine.kill()
    machine.begin()
    machine.until(lambda: machine.pool.get("parked").status == "pending")
    told = ["idle_warning", "protection_lost", "idle_warning", "idle_suspended"]
    assert machine.kinds("parked") == told
    reason = machine.pool.get("parked").reason
    assert reason is not None
    assert "it was idle for" in reason.sentence
    machine.until(lambda: machine.pool.get("left").status == "stopped")
    assert machine.kinds("left") == ["idle_warning", "idle_warning", "idle"]
    for name in ("spins", "writes", "mig", "ranks"):
        assert machine.pool.get(name).status == "running"
        assert machine.kinds(name) == []
    assert machine.pool.get("says").status == "running"
    assert machine.kinds("says") == ["idle_extended"]
