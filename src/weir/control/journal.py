"""Journal: the state that the local backend needs after a crash.

The store implements it; the backend knows no database. Directories of pods hold the history of processes,
the journal submissions and the state of control.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from weir.control.port import (
    EndWorkload,
    KeepSuspension,
    ReleaseNomination,
    ReserveNomination,
    SaveProgress,
    WorkloadProgress,
)
from weir.model.queues import Queue
from weir.model.workloads import Workload
from weir.state.events import Nominated

Keepable = ReserveNomination | ReleaseNomination | SaveProgress | KeepSuspension | EndWorkload
"""The effects that are stored; other effects start and stop processes."""


_NO_STATUS = WorkloadProgress()


class JournalFailed(OSError):
    """The journal couldn't be written; nothing was stored."""


@dataclass(frozen=True, slots=True)
class ContainerLaunch:
    """Container that a workload's commands run in."""

    image: str
    pull: str = "missing"  # missing, always or never
    runtime: str = "podman"


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Command, environment and limits of a workload's processes, the same for every pod."""

    uid: int  # uid of the workload, never reused; 0 until it is stored
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    directory: str = ""  # working directory; empty: the home of the pool
    grace_s: float = 30.0
    secrets: tuple[tuple[str, str], ...] = ()  # environment variables, each with the name of its secret
    container: ContainerLaunch | None = None  # None: commands run as processes of the machine


class DependencyCondition(StrEnum):
    """State that a workload has to reach before its dependents may start."""

    STARTED = "started"  # or ended, with any outcome
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # or was stopped
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A workload, by its number at the submission, and the outcome that is required of it."""

    name: str
    uid: int
    condition: DependencyCondition


@dataclass(frozen=True, slots=True)
class StartConditions:
    """Conditions for the first start of a workload: a time of the wall clock, and other workloads."""

    begin_wall_s: float | None = None
    dependencies: tuple[Dependency, ...] = ()


NO_CONDITIONS = StartConditions()


@dataclass(frozen=True, slots=True)
class ArrayPlan:
    """Indices of an array as written, such as `1-500%20`; `only`: the ones that run, if not all."""

    written: str
    only: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ArrayMember:
    """Place of a workload in an array: the number of the array, and the index."""

    uid: int
    index: int


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """A new trial of a sweep.

    `rungs` are training steps; the trial first runs up to `target`, which is one of them.
    """

    sweep: int
    sweep_name: str
    number: int
    params: Mapping[str, object]
    state_of_sampler: Mapping[str, object]
    rungs: tuple[int, ...]
    metric: str
    target: int = 0


@dataclass(frozen=True, slots=True)
class WorkloadRecord:
    """A workload that isn't over: as submitted, and later in its last stored state."""

    workload: Workload
    launch: LaunchSpec
    submitted_at_s: float
    status: WorkloadProgress = _NO_STATUS
    nomination: Nominated | None = None
    saved_s: float | None = None  # time of its last checkpoint
    suspended: str | None = None  # reason of the person who suspended it
    withdrawn_s: float | None = None
    devices: float = 0.0  # devices of all its pods
    conditions: StartConditions = NO_CONDITIONS
    array: ArrayPlan | None = None  # set on an array; its indices become workloads of their own
    member: ArrayMember | None = None  # set on an index of an array
    sweep: str | None = None  # name of the sweep of a trial
    trial: TrialPlan | None = None  # set on a new trial


class Journal(Protocol):
    """Keeps queues and workloads over crashes."""

    def queues(self) -> tuple[Queue, ...]:
        """Return the quota tree, parents before children."""
        ...

    def workloads(self) -> Sequence[WorkloadRecord]:
        """Return the workloads that aren't over."""
        ...

    def keep(self, effects: Sequence[Keepable], saved: Mapping[str, float]) -> None:
        """Remember these; durable when it returns, and harmless when repeated.

        `saved`: times of the workloads' last checkpoints.

        Raises:
            OSError: it couldn't be written; nothing of it is stored.
        """
        ...
