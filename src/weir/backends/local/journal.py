"""What the local backend has written down for it, so that a crash of the server forgets nothing.

The protocol alone: `weir.store` implements it, and the backend doesn't know a database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from weir.cluster.events import Promised
from weir.control.port import EndWorkload, KeepRoom, LeaveRoom, SetStatus, Status
from weir.model.queues import Queue
from weir.model.workloads import Workload


@dataclass(frozen=True, slots=True)
class Launch:
    """What the processes of a workload are started with; every pod alike."""

    uid: int  # of the workload: never reused
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    directory: str
    grace_s: float


@dataclass(frozen=True, slots=True)
class Kept:
    """A workload that isn't over, as it was last written down."""

    workload: Workload
    launch: Launch
    submitted_at_s: float
    status: Status = Status()
    promised: Promised | None = None
    saved_s: float | None = None
    held: str | None = None  # why a person suspended it
    withdrawn_s: float | None = None


class Journal(Protocol):
    """Where it is written down."""

    def queues(self) -> tuple[Queue, ...]:
        """The quota tree, parents before children."""
        ...

    def workloads(self) -> Sequence[Kept]:
        """Those that aren't over."""
        ...

    def keep(
        self,
        effects: Sequence[KeepRoom | LeaveRoom | SetStatus | EndWorkload],
        saved: Mapping[str, float],
    ) -> None:
        """Write down effects, and when workloads saved their state. Durable when it returns; idempotent.

        Raises:
            OSError: it can't be written; then nothing of it is kept.
        """
        ...
