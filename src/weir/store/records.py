"""Input and output of the store as plain values. Times are seconds since the epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from weir.api.workload_list import WorkloadRow
from weir.control.journal import TrialPlan, WorkloadRecord
from weir.model.array_indices import ArrayIndices

CORRECTED_S = 3600.0
"""Largest step back of a clock that invalidates no token made just before."""
Item = TypeVar("Item")
TokenRole = Literal["admin", "lead", "member", "viewer"]
ScopeRole = Literal["lead", "member", "viewer"]
SubjectKind = Literal["user", "group", "everyone"]


@dataclass(frozen=True, slots=True)
class StoredWorkload:
    """A workload as the store knows it, over or not. `asked` is its submission as received, for reruns."""

    row: WorkloadRow
    record: WorkloadRecord
    asked: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ArrayRecord:
    """An array that isn't over: its plan, and the indices that run."""

    record: WorkloadRecord
    whole: ArrayIndices
    indices: Sequence[int]  # indices to run: all, or the rerun ones of an earlier array
    begun: bool  # True: an index has been queued
    skipped: int = 0  # number of indices that were stopped before they were queued

    @property
    def uid(self) -> int:
        """Return the number of the array."""
        return self.record.launch.uid


@dataclass(frozen=True, slots=True)
class WorkloadFilter:
    """Filter of workloads; None selects all. `live` and `ended`: those that aren't over, and those that are.

    `statuses` are values of `weir.api.answers.Status`.
    `q` is part of a name, a user or a project, in any case. `since_s` is the earliest time of submission.
    """

    projects: Sequence[str] | None = None
    statuses: Sequence[str] | None = None
    types: Sequence[str] | None = None
    users: Sequence[str] | None = None
    q: str = ""
    live: bool = True
    ended: bool = False
    since_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RecordPage(Generic[Item]):
    """A page, newest first. `after` requests the next one; None on the last page."""

    items: Sequence[Item]
    total: int
    after: int | None


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """An event of the history. `id` is 0 until it is stored; later events have higher ids."""

    at_s: float
    kind: str
    sentence: str
    uid: int | None = None
    workload: str | None = None
    project: str | None = None
    pod: str | None = None
    numbers: Mapping[str, object] = field(default_factory=dict)
    id: int = 0


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token's person and rights; the text of the token is stored nowhere."""

    id: int
    user: str
    role: TokenRole
    projects: tuple[str, ...]
    created_s: float
    label: str = ""
    expires_s: float | None = None
    used_s: float | None = None

    def holds(self, now_s: float) -> bool:
        """Return True if the token hasn't expired, and its expiry wasn't set by a clock that was ahead."""
        return self.expires_s is None or (now_s < self.expires_s and not self.is_of_later(now_s))

    def is_of_later(self, now_s: float) -> bool:
        """Return True if the token was made later than now, when the wall clock was ahead."""
        return self.created_s > now_s + CORRECTED_S


@dataclass(frozen=True, slots=True)
class MembershipRecord:
    """Role of a user, of a group, or of everyone (with an empty name) in a department or project."""

    scope: str
    kind: SubjectKind
    name: str
    role: ScopeRole


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """A sweep. `spec` is its request as JSON, `owner` the identity to act as its person."""

    id: int
    name: str
    project: str
    user: str
    state: str  # one of `weir.api.sweeps.SweepState`
    spec: Mapping[str, object]
    owner: Mapping[str, object]
    created_s: float
    ended_s: float | None = None
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """A trial, and its workload as far as it is still stored.

    `state` is that of the workload, `live` or an end; None if the workload was deleted since.
    """

    plan: TrialPlan
    uid: int
    name: str
    parked: bool = False
    state: str | None = "live"
    wall_s: float = 0.0
    devices: float = 0.0


@dataclass(frozen=True, slots=True)
class RungResult:
    """A trial reached a rung. `value` None: its metric was no finite number there.

    `promoted_among`: how many trials had reached the rung when it was promoted from it; None if it wasn't.
    """

    sweep: int
    number: int
    rung: int
    step: int
    value: float | None
    at_s: float
    promoted_among: int | None = None


@dataclass(frozen=True, slots=True)
class UsageSample:
    """Usage of one project, user, type and node; on a cluster, of one namespace.

    Waiting has no node (""). `seen_gpu_s` is the part of `allocated_gpu_s` of which the use is known. The
    last four are parts of it by the state of the workload, where that is known.
    """

    project: str
    department: str
    user: str
    type: str
    node: str
    allocated_gpu_s: float = 0.0
    seen_gpu_s: float = 0.0
    used_gpu_s: float = 0.0
    over_quota_gpu_s: float = 0.0
    waiting_s: float = 0.0
    preempted: int = 0
    working_gpu_s: float = 0.0
    starved_gpu_s: float = 0.0
    parked_gpu_s: float = 0.0
    left_gpu_s: float = 0.0
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadUsageSample:
    """Usage of one workload on one node."""

    uid: int
    node: str
    allocated_gpu_s: float = 0.0
    seen_gpu_s: float = 0.0
    used_gpu_s: float = 0.0
    over_quota_gpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DeviceUsageSample:
    """Usage of one device; `memory_max` is its highest memory usage."""

    node: str
    device: int
    allocated_gpu_s: float = 0.0
    seen_gpu_s: float = 0.0
    used_gpu_s: float = 0.0
    memory_max: int = 0


@dataclass(frozen=True, slots=True)
class UsageSamples:
    """Usage between two moments: about a minute, or longer if no sample was taken."""

    since_s: float
    until_s: float
    uses: Sequence[UsageSample] = ()
    workloads: Sequence[WorkloadUsageSample] = ()
    devices: Sequence[DeviceUsageSample] = ()


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention periods of the history, in seconds. Sums by minute, hour and day are written at once."""

    minutes_s: float = 2 * 86400.0
    hours_s: float = 60 * 86400.0
    days_s: float = 5 * 366 * 86400.0
    events_s: float = 90 * 86400.0
    workloads_s: float = 366 * 86400.0  # retention of ended workloads

    def __post_init__(self) -> None:
        if not 0 < self.minutes_s <= self.hours_s <= self.days_s:
            raise ValueError("Minutes are kept no longer than hours, and hours no longer than days.")
