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
    """Keep a word that isn't in a closed list as it is, if a client reads it. JSON schemas have the list."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return core_schema.with_info_wrap_validator_function(
            _known_or_shown, handler(source), serialization=core_schema.simple_ser_schema("any")
        )


def _known_or_shown(value: Any, known: Any, info: core_schema.ValidationInfo) -> Any:
    try:
        return known(value)
    except ValidationError:
        if isinstance(value, str) and info.context == FROM_SERVER:
            return value
        raise


Words = TypeVar("Words")
Shown = Annotated[Words, _ShowUnknown()]
"""A word of a closed list, in an answer. Clients show unknown words as they are."""


class Answer(BaseModel):
    """Base of the responses. A newer server may send more fields and words than an older client knows."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)  # a command uses few


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

    at_s: float
    rule: str
    sentence: str
    by: str | None = None  # the workload it was stopped for
    by_user: str | None = None
    by_project: str | None = None
    choice: str = ""  # its cost, and that of the next choice of victims
    lost_gpu_s: float | None = None  # GPU time that it lost, where that is known; on a cluster


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

    state: Shown[ActivityState] | None = None  # None: not certain yet
    since_s: float | None = None
    signals: list[str] = []
    quiet: list[str] = []
    warning: str | None = None  # what the idle rules do next, in a sentence
    unprotected: bool = False  # idle: any request may take its GPUs
    extended_until_s: float | None = None  # the idle rules leave it alone until then


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
    devices: float  # requested, all pods together
    pods: int
    pods_running: int
    submitted_s: float
    first_started_s: float | None = None
    started_s: float | None = None  # of the current run, or the last one if it is over
    ended_s: float | None = None
    ran_s: float = 0.0  # wall time of all its runs, the current one up to this answer
    ran_before_s: float = 0.0  # the part of ran_s that is of runs that are over
    kept_s: float = 0.0  # of its run, the part that a stop now wouldn't lose: up to its last checkpoint
    exit_code: int | None = None  # once it is over: 0 on success, 128 and more for a signal
    restarts: int = 0
    reason: Explanation | None = None  # why it waits, or how it ended
    evicted: EvictionRow | None = None  # the last time, since the server was started
    nodes: list[str] = []
    progress: float | None = None  # the part of its work that is done, as the job reported
    sweep: str | None = None  # the sweep that it is a trial of
    array: ArrayCounts | None = None  # of an array, which one row stands for
    array_uid: int | None = None  # of an index, its array
    index: int | None = None
    activity: ActivityRow | None = None  # None: it doesn't run, or has no GPUs


class ArrayIndexRow(Answer):
    """An index of an array. `uid` is None until it is queued, and may be used as a name from then on."""

    index: int
    name: str
    status: Shown[Status]
    uid: int | None = None
    first_started_s: float | None = None
    ended_s: float | None = None
    ran_s: float = 0.0
    exit_code: int | None = None
    restarts: int = 0
    reason: Explanation | None = None


class ArrayIndexPage(Page):
    """A page of the indices of an array, in ascending order."""

    array: WorkloadRow
    items: list[ArrayIndexRow]


class WorkloadPage(Page):
    """A page of workloads. `trouble`: the impairment of the pool now, in a sentence.

    `gpus`: those of the pool, whatever the filter; `gpus_in_use`: those that pods hold.
    """

    items: list[WorkloadRow]
    trouble: str | None = None
    note: str | None = None  # what is missing in it, in a sentence
    gpus: int | None = None
    gpus_in_use: float | None = None
