"""The control loop over the local backend, stepped by a test."""

import pickle
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.unit.local.harness import LIMIT_S, Memory, end_all, kill

from weir.control.journal import Keepable, LaunchSpec, WorkloadRecord
from weir.control.loop import Control
from weir.local.backend import LocalBackend
from weir.local.machine.machine import this_machine
from weir.model.policy import LifecyclePolicy, Policy
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.events import WorkloadOutcome

RULES = LifecyclePolicy(max_failures=50, pause_first=0.01, max_pause=0.05)


class Pool:
    """Backend, journal and control; `crash` loses all of it but the journal and the home."""

    def __init__(self, home: Path, journal: Memory | None = None, *, devices: int = 4) -> None:
        self.home = home
        self.journal = journal if journal is not None else Memory()
        self.machine = this_machine(home, name="here", virtual_devices=devices, control_groups=False)
        self.uids = 0
        self._begin()

    def _begin(self) -> None:
        self.woken = False
        self.backend = LocalBackend(self.journal, self.home, self.machine, wake=self._wake)
        self.control = Control(self.backend, Policy(life=RULES), time.time)

    def _wake(self) -> None:
        self.woken = True

    def crash(self) -> None:
        """As when the server is killed: what it held is lost, wherever it was."""
        kill(self.backend._node.pid)
        self.backend.close()
        self._begin()

    def step_until(self, true: Callable[[], object], tell: Callable[[], object] = lambda: "") -> None:
        """Let control do its work until something is so."""
        ends = time.monotonic() + LIMIT_S
        while not true():
            assert time.monotonic() < ends, f"it never came: {tell()}"
            self.woken = False
            self.control.step()
            pause = time.monotonic() + 0.01
            while not self.woken and time.monotonic() < pause:
                time.sleep(0.001)

    def submit(
        self, name: str, *command: str, project: str = "team", pods: int = 1, devices: int = 1, **how: object
    ) -> str:
        """A workload; its directory of checkpoints is `saved(name)`."""
        self.uids += 1
        group = PodGroup("worker", Request(devices=devices, cpu_milli=10, memory=0), pods, pods)
        workload = Workload(name, project, (group,), pods, time.time())
        kept = WorkloadRecord(
            workload, LaunchSpec(self.uids, command, (("NAME", name),), str(self.home), **how), time.time()
        )
        self.journal.add(kept)
        self.backend.submitted(kept)
        return f"{self.home}/checkpoints/{self.uids}"

    def ended(self, name: str) -> WorkloadOutcome | None:
        """Return the outcome of a workload that has ended."""
        found = [end.how for end in self.journal.ends if end.workload == name]
        assert len(found) <= 1, f"{name} ended {len(found)} times"
        return found[0] if found else None

    def close(self) -> None:
        """End what runs, and the pool."""
        end_all(self.backend)


class Written(Memory):
    """A journal in a file, for a pool that is a process of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        if path.exists():
            self.kept, self.ends = pickle.loads(path.read_bytes())

    def save(self) -> None:
        beside = self.path.with_suffix(".new")
        beside.write_bytes(pickle.dumps((self.kept, self.ends)))
        beside.rename(self.path)

    def keep(self, effects: Sequence[Keepable], saved: Mapping[str, float]) -> None:
        super().keep(effects, saved)
        self.save()


def main(home: Path) -> None:
    """A pool that works off what its journal has, then ends."""
    journal = Written(home / "journal")
    pool = Pool(home, journal)
    pool.step_until(lambda: not journal.kept)
    pool.close()


def slow_or_fast(seed: int) -> float:
    """Return the run time of a short job."""
    return random.Random(seed).choice([0.0, 0.0, 0.02, 0.1])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
