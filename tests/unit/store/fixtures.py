"""A store with a project in it, and things to put there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.unit.store.migrated import place_database

from weir.control.journal import LaunchSpec, WorkloadRecord
from weir.control.port import EndWorkload
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload, WorkloadType
from weir.state.events import WorkloadOutcome
from weir.store.records import Retention
from weir.store.store import Store

NOW_S = 1_800_000_000.0


@contextmanager
def opened(home: Path, retention: Retention | None = None, *, migrated: bool = True) -> Iterator[Store]:
    """A store with two projects; unless `migrated` it makes its database itself."""
    if migrated:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        place_database(home)
    store = Store(None, home, retention=retention)
    try:
        if not store.queues():
            store.set_queue(Queue("lab", None, False, {"gpu": 8000}))
            store.set_queue(Queue("vision", "lab", quota={"gpu": 4000}))
            store.set_queue(Queue("speech", None, created_s=1.0))
        yield store
    finally:
        store.close()


def submitted(name: str, project: str = "vision", at_s: float = NOW_S, **words: Any) -> WorkloadRecord:
    """A workload of one pod with one device."""
    group = PodGroup("0", Request(devices=1))
    type_ = words.pop("type", WorkloadType.TRAIN)
    workload = Workload(name, project, (group,), 1, at_s, user=words.pop("user", "ann"), type=type_)
    launch = LaunchSpec(0, ("python", "train.py"), (("SECRET", "x"),), "/home")
    return WorkloadRecord(workload, launch, at_s, devices=1.0, **words)


def end(
    name: str, at_s: float = NOW_S + 60, how: WorkloadOutcome = WorkloadOutcome.SUCCEEDED, **words: Any
) -> EndWorkload:
    """The end of a workload."""
    return EndWorkload(name, how, at_s, **words)
