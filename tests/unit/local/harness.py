"""A pool's backend over a home in a temporary directory, and a journal in memory that can fail."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from weir.control.journal import Keepable, LaunchSpec, WorkloadRecord
from weir.control.port import (
    EndWorkload,
    Fact,
    LifecycleCause,
    LifecycleRule,
    PodExited,
    ReleaseNomination,
    ReserveNomination,
    SaveProgress,
    StartPod,
    StopPod,
)
from weir.local.backend import LocalBackend
from weir.local.machine.machine import Machine, this_machine
from weir.local.records import pod_files
from weir.local.records.pod_records import JobMessage
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.events import Placement, PodKey

LIMIT_S = 120.0
"""Limit of waits in tests; on an idle machine, events come in milliseconds."""
STOPPED = LifecycleCause(LifecycleRule.SUSPENDED, "A test stops it.")


class Memory:
    """A journal in memory. `fails` makes the next keeps fail, as a full disk would."""

    def __init__(self) -> None:
        self.kept: dict[str, WorkloadRecord] = {}
        self.ends: list[EndWorkload] = []
        self.fails: OSError | None = None
        self.lock = threading.Lock()

    def queues(self) -> tuple[Queue, ...]:
        return (Queue("team", quota={"gpu": 2000}), Queue("other", quota={"gpu": 2000}))

    def workloads(self) -> Sequence[WorkloadRecord]:
        with self.lock:
            return list(self.kept.values())

    def add(self, kept: WorkloadRecord) -> None:
        with self.lock:
            self.kept[kept.workload.name] = kept

    def keep(self, effects: Sequence[Keepable], saved: Mapping[str, float]) -> None:
        if self.fails is not None:
            raise self.fails
        with self.lock:
            for name, at_s in saved.items():
                if name in self.kept:
                    self.kept[name] = replace(self.kept[name], saved_s=at_s)
            for effect in effects:
                self._keep(effect)

    def _keep(self, effect: Keepable) -> None:
        match effect:
            case ReserveNomination(nomination):
                self.kept[nomination.workload] = replace(
                    self.kept[nomination.workload], nomination=nomination
                )
            case ReleaseNomination(name) if name in self.kept:
                self.kept[name] = replace(self.kept[name], nomination=None)
            case SaveProgress(name, status) if name in self.kept:
                self.kept[name] = replace(self.kept[name], status=status)
            case EndWorkload(name) if name in self.kept:
                del self.kept[name]
                self.ends.append(effect)


class Rig:
    """Backends, one after the other, over the same home and journal."""

    def __init__(self, home: Path, *, devices: int = 4, control_groups: bool = False) -> None:
        self.home = home
        self.journal = Memory()
        self.machine: Machine = this_machine(
            home, name="here", virtual_devices=devices, control_groups=control_groups
        )
        self.noted: list[tuple[PodKey, JobMessage]] = []
        self.refused: list[tuple[PodKey, str]] = []
        self.news = threading.Event()
        self.facts: list[Fact] = []
        self.uids = 0
        self.backend = self._backend()
        self.relisted = list(self.backend.events())

    def _backend(self) -> LocalBackend:
        return LocalBackend(
            self.journal,
            self.home,
            self.machine,
            wake=self.news.set,
            noted=lambda pod, uid, note: self.noted.append((pod, note)),
            refused=lambda pod, uid, sentence: self.refused.append((pod, sentence)),
        )

    def crash(self) -> list[Fact]:
        """As kill -9 of the server, a node process that may have been killed with it; then a new server."""
        kill(self.backend._node.pid)
        self.backend.close()
        self.backend = self._backend()
        self.facts = []
        self.relisted = list(self.backend.events())
        return self.relisted

    def close(self) -> None:
        """End everything that still runs here."""
        end_all(self.backend)

    def submit(self, *command: str, name: str = "job", pods: int = 1, **how: object) -> WorkloadRecord:
        """A workload with a number of pods, one device each unless `request` says otherwise."""
        self.uids += 1
        request = how.pop("request", Request(devices=1, memory=0))
        group = PodGroup("worker", request, pods, pods)
        workload = Workload(name, "team", (group,), pods, time.time())
        launch = LaunchSpec(self.uids, command, **{"directory": str(self.home), "grace_s": 5.0, **how})
        kept = WorkloadRecord(workload, launch, workload.submitted_s)
        self.journal.add(kept)
        self.backend.submitted(kept)
        return kept

    def start(self, *pods: PodKey, start: int = 1) -> None:
        """Start pods at once."""
        places = [Placement(pod, "here", (pod.index,)) for pod in pods]
        self.backend.apply([StartPod(place, start + at) for at, place in enumerate(places)])

    def run(self, *command: str, name: str = "job", start: int = 1, **how: object) -> PodKey:
        """Submit a workload of one pod and start it."""
        self.submit(*command, name=name, **how)
        pod = PodKey(name, 0, 0)
        self.start(pod, start=start)
        return pod

    def stop(self, pod: PodKey, start: int = 1, grace_s: float = 30.0) -> None:
        self.backend.apply([StopPod(pod, start, grace_s, STOPPED)])

    def directory(self, pod: PodKey, start: int = 1) -> Path:
        uid = self.backend._workloads[pod.workload].launch.uid
        return Path(self.backend.home.directory(uid, start, pod.group, pod.index))

    def own(self, pod: PodKey, start: int = 1) -> Path:
        """The job's own directory."""
        return Path(pod_files.own_directory(str(self.directory(pod, start))))

    def exit(self, pod: PodKey, start: int = 1) -> PodExited:
        """Wait until a start is over, and how it ended."""
        until(lambda: self._exits(pod, start))
        return self._exits(pod, start)[0]

    def _exits(self, pod: PodKey, start: int) -> list[PodExited]:
        self.facts += self.backend.events()
        found = [*self.relisted, *self.facts]
        return [
            fact for fact in found if isinstance(fact, PodExited) and (fact.pod, fact.start) == (pod, start)
        ]

    def log(self, pod: PodKey, start: int = 1) -> str:
        path = self.own(pod, start) / pod_files.LOG
        return path.read_text() if path.exists() else ""

    def says(self, pod: PodKey, text: str, start: int = 1) -> str:
        """Wait until a pod's log has a text; the whole log."""
        until(lambda: text in self.log(pod, start), lambda: self.log(pod, start))
        return self.log(pod, start)


def end_all(backend: LocalBackend) -> None:
    """End all pods of a backend, then the backend."""
    try:
        for pod in backend.pods():
            backend.apply([StopPod(pod.place.pod, pod.start, 0.0, STOPPED)])
        until(lambda: not backend.pods())
    finally:
        backend.close()


def until(
    true: Callable[[], object], tell: Callable[[], object] = lambda: "", limit_s: float = LIMIT_S
) -> None:
    """Wait until something is so."""
    begun = time.monotonic()
    while not true():
        waited_s = time.monotonic() - begun
        assert waited_s < limit_s, f"it never came: {tell()}"
        time.sleep(min(0.02, 0.002 + waited_s / 50))


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def gone(pid: int) -> bool:
    """Return True if a process is gone, or is a zombie."""
    fields = pod_files.stat_of(pid)
    return fields is None or fields[0] in {b"Z", b"X"}


def python(*lines: str) -> tuple[str, ...]:
    """A command that runs these lines."""
    return (sys.executable, "-S", "-u", "-c", "\n".join(lines))
