"""Answers for lists of workloads, in their own module because `weir list` needs no others."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import core_schema

Isolation = Literal["enforced", "cooperative", "none"]
Status = Literal["pending", "starting", "running", "stopping", "succeeded", "failed", "stopped"]
Type = Literal["train", "build", "inference"]
ActivityState = Literal["working", "starved", "parked", "left", "unknown"]

FROM_SERVER = {"from_server": True}
"""Context in which a client reads an answer, which a newer server may have sent."""


class _ShowUnknown:
    """Accept unknown words of a closed list in a client, from a newer server. JSON schemas show the list."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return core_schema.with_info_wrap_validator_function(
            _known_or_shown, handler(source), serialization=core_schema.simple_ser_schema("any")
        )


def _known_or_shown(value: Any, handler: Any, info: core_schema.ValidationInfo) -> Any:
    try:
        return handler(value)
    except ValidationError:
        if isinstance(value, str) and info.context == FROM_SERVER:
            return value
        raise


Words = TypeVar("Words")
Shown = Annotated[Words, _ShowUnknown()]
"""A word of a closed list in an answer. Clients show unknown words unchanged."""


PointInTime = Annotated[float, "on the timeline of the server"]
"""A time in seconds since the epoch, which a pool shows by the wall clock; other floats are durations."""


class Answer(BaseModel):
    """Base of the responses. A newer server may send more fields and words than an older client knows."""

    # Deferred, because a command uses few models
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Page(Answer):
    """Base of a page of a list. `next` is the `after` of the next request; None on the last page."""

    total: int
    next: str | None = None


class Explanation(Answer):
    """Reason of a pending workload: `why` is one of `weir.model.reasons.Why`."""

    why: str
    sentence: str
    numbers: dict[str, object] = {}


class EvictionRow(Answer):
    """Last eviction of a workload for another one."""

    at_s: PointInTime
    rule: str
    sentence: str
    by: str | None = None  # beneficiary of the eviction
    by_user: str | None = None
    by_project: str | None = None
    choice: str = ""  # its cost, and that of the next choice of victims
    lost_gpu_s: float | None = None  # lost GPU time, if known; on a cluster only


class ArrayCounts(Answer):
    """Indices of an array by status. `written`: its indices, such as `1-500%20`."""

    written: str
    size: int
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    stopped: int = 0

    @property
    def sentence(self) -> str:
        """Return the numbers that aren't 0: `20 running, 468 pending, 12 succeeded`."""
        counts = {
            "running": self.running,
            "pending": self.pending,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "stopped": self.stopped,
        }
        return ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)


class ActivityRow(Answer):
    """Activity of a workload that runs on GPUs.

    `signals` are the signs of life of a starved one: cpu, disk, network, blocked, user. `quiet` are GPUs
    without use while others of the workload compute.
    """

    state: Shown[ActivityState] | None = None  # None: not yet certain
    since_s: PointInTime | None = None
    signals: list[str] = []
    quiet: list[str] = []
    warning: str | None = None  # next action of the idle rules, as a sentence
    unprotected: bool = False  # True: idle, so that any request may evict it
    extended_until_s: PointInTime | None = None  # end of its extension of the idle rules


class IdleRulesRow(Answer):
    """Idle times of a workload after which the idle rules act on it; None without that rule."""

    notice_s: float | None = None  # its user gets a notice
    unprotect_s: float | None = None  # any request may take its GPUs
    suspend_s: float | None = None
    stop_s: float | None = None


class WorkloadRow(Answer):
    """A line of a list of workloads. Times are None until they are known."""

    uid: int
    name: str
    project: str
    user: str
    type: Shown[Type]
    status: Shown[Status]
    priority: int
    preemptible: bool
    devices: float  # requested devices of all pods
    pods: int
    pods_running: int
    submitted_s: PointInTime
    first_started_s: PointInTime | None = None
    started_s: PointInTime | None = None  # start of the current run, or of the last one after the end
    ended_s: PointInTime | None = None
    ran_s: float = 0.0  # wall time of all its runs, with the current one until now
    ran_before_s: float = 0.0  # the part of `ran_s` of ended runs
    kept_s: float = 0.0  # run time up to its last checkpoint, which a stop wouldn't lose
    exit_code: int | None = None  # after its end: 0 on success, 128 and more for a signal
    restarts: int = 0
    reason: Explanation | None = None  # reason why it is pending, or how it ended
    evicted: EvictionRow | None = None  # its last eviction since the start of the server
    nodes: list[str] = []
    progress: float | None = None  # reported part of its work that is done
    sweep: str | None = None  # its sweep, if it is a trial
    array: ArrayCounts | None = None  # set on an array, which has one row
    array_uid: int | None = None  # number of its array, on an index
    index: int | None = None
    activity: ActivityRow | None = None  # None: it isn't running, or has no GPUs


class ArrayIndexRow(Answer):
    """An index of an array. `uid` is None until it is queued, and may be used as a name from then on."""

    index: int
    name: str
    status: Shown[Status]
    uid: int | None = None
    first_started_s: PointInTime | None = None
    ended_s: PointInTime | None = None
    ran_s: float = 0.0
    exit_code: int | None = None
    restarts: int = 0
    reason: Explanation | None = None


class ArrayIndexPage(Page):
    """A page of the indices of an array, in ascending order."""

    array: WorkloadRow
    items: list[ArrayIndexRow]


class WorkloadPage(Page):
    """A page of workloads. `trouble` is a sentence about the present impairment of the pool.

    `gpus`: all GPUs of the pool, for any filter; `gpus_in_use`: the GPUs that pods hold.
    """

    items: list[WorkloadRow]
    trouble: str | None = None
    note: str | None = None  # sentence about missing data
    gpus: int | None = None
    gpus_in_use: float | None = None
