"""What is said to a pool and what it answers: the bodies of the REST interface, for server and client alike.

Submissions use the words of scenario files; answers hold plain numbers: seconds since the epoch,
devices as floats, memory in bytes.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from weir.model.files.words import Name, Priority, Span
from weir.model.files.written import Count, Shape, WrittenPods, WrittenTopologyRequest

Status = Literal["pending", "starting", "running", "stopping", "succeeded", "failed", "stopped"]
Type = Literal["train", "build", "inference"]
Word = Annotated[str, Field(max_length=131_072)]


class Submission(Shape):
    """A workload to be queued. Every pod of it runs `command`."""

    project: Name
    command: Annotated[list[Word], Field(min_length=1, max_length=4096)]
    name: Name | None = None
    type: Type = "train"
    priority: Priority | None = None
    preemptible: bool | None = None
    min_pods: Count | None = None
    max_runtime: Span | None = None
    idle_limit: Span | None = None
    grace: Span | None = None
    retries: Annotated[int, Field(ge=0, le=100)] | None = None
    topology: WrittenTopologyRequest | None = None
    env: dict[str, Word] = Field(default={})
    directory: str | None = None
    pods: list[WrittenPods] = Field(default=[WrittenPods()], min_length=1, max_length=64)


class Answer(BaseModel):
    """Base of what a pool answers. A newer server may say more than an older client knows."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Why(Answer):
    """Why a workload waits: `why` is one of `weir.model.reasons.Why`."""

    why: str
    sentence: str
    numbers: dict[str, object] = {}


class WorkloadRow(Answer):
    """One line of a list of workloads. Times are None until they have come."""

    uid: int
    name: str
    project: str
    user: str
    type: Type
    status: Status
    priority: int
    preemptible: bool
    devices: float  # asked for, all pods together
    pods: int
    pods_running: int
    submitted_s: float
    started_s: float | None = None  # of the current run
    ended_s: float | None = None
    ran_s: float = 0.0  # run it keeps, without the current one
    restarts: int = 0
    reason: Why | None = None  # why it waits, or how it ended
    nodes: list[str] = []


class PodRow(Answer):
    """One pod of a workload."""

    name: str  # workload/group/index
    status: Status
    node: str | None = None
    devices: list[int] = []
    start: int | None = None
    since_s: float | None = None
    exit: str | None = None


class EventRow(Answer):
    """One thing that happened."""

    id: int
    at_s: float
    kind: str
    workload: str | None = None
    project: str | None = None
    pod: str | None = None
    sentence: str
    numbers: dict[str, object] = {}


class WorkloadDetail(WorkloadRow):
    """All that is known of a workload. `command` and `env` only for people of its project."""

    pod_rows: list[PodRow] = []
    command: list[str] | None = None
    env: dict[str, str] | None = None
    directory: str | None = None
    max_runtime_s: float | None = None
    checkpointed_s: float | None = None
    step: int | None = None  # the last one it reported
    reported: dict[str, float] = {}
    events: list[EventRow] = []


class Suggestion(Answer):
    """Something that would let a waiting workload start now; each was tried on a copy of the pool."""

    sentence: str
    change: dict[str, object] = {}  # what would be submitted instead, as far as it differs
    at_s: float | None = None  # when, if it is only a matter of time


class WhyAnswer(Answer):
    """Why a workload waits, its queue's numbers, and what would let it start now."""

    name: str
    status: Status
    reason: Why | None
    position: int | None = None  # among the waiting of its project, from 1
    waiting: int = 0
    queues: list["QueueRow"] = []  # its project, then what is above it
    suggestions: list[Suggestion] = []


class QueueRow(Answer):
    """A department or project. Amounts by resource: devices as floats, cpu in cores, memory in bytes."""

    name: str
    kind: Literal["department", "project"]
    parent: str | None = None
    quota: dict[str, float] = {}  # unlimited where missing, but for gpu
    follows: bool = False  # its gpu quota is the sum of those below it: none was stated
    limit: dict[str, float] = {}
    weight: dict[str, float] = {}
    priority: int = 100
    times: dict[str, float] = {}  # time rules of a project, by their words, in seconds; 0 is none
    allocated: dict[str, float] = {}
    share: dict[str, float] = {}
    running: int = 0
    pending: int = 0


class DeviceRow(Answer):
    """One device of a node. `use` is None where it can't be known."""

    index: int
    model: str | None
    memory: int
    allocated: float
    use: float | None = None
    memory_used: int | None = None
    workloads: list[str] = []


class NodeRow(Answer):
    """One machine."""

    name: str
    devices: list[DeviceRow]
    capacity: dict[str, float]
    allocated: dict[str, float]
    labels: dict[str, str] = {}
    pods: int = 0
    virtual: bool = False


class PoolStatus(Answer):
    """The pool in one glance."""

    version: str
    nodes: int
    devices: int
    allocated: float
    running: int
    pending: int
    policy: str
    started_s: float
    virtual: bool = False


class Page(Answer):
    """Base of a page of a list. `next` is what to ask with as `after`; None on the last page."""

    total: int
    next: str | None = None


class WorkloadPage(Page):
    """A page of workloads."""

    items: list[WorkloadRow]


class EventPage(Page):
    """A page of events, newest first."""

    items: list[EventRow]


class QueuePage(Page):
    """A page of departments or projects."""

    items: list[QueueRow]


class NodePage(Page):
    """A page of nodes."""

    items: list[NodeRow]


class UsageRow(Answer):
    """Use over a span of time, of one project, department, user, workload type or node."""

    key: str
    allocated_gpu_s: float
    used_gpu_s: float | None
    idle_gpu_s: float | None  # allocated, and seen idle
    over_quota_gpu_s: float
    waiting_s: float  # of workloads, all together
    workloads: int
    ended: int
    preempted: int


class UsageReport(Answer):
    """What was used since a time, by one kind of key."""

    since_s: float
    until_s: float
    by: Literal["project", "department", "user", "type", "node"]
    rows: list[UsageRow]


class Problem(Answer):
    """A refusal (RFC 9457); `errors` name the fields, each with what to write instead."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] = []


class TokenMade(Answer):
    """A new token; its text is shown this once."""

    id: int
    token: str
    user: str
    role: Literal["admin", "member"]
    projects: list[str] = []


class TokenRow(Answer):
    """A token in a list, without its secret."""

    id: int
    user: str
    role: Literal["admin", "member"]
    projects: list[str] = []
    created_s: float | None = None


class TokenPage(Page):
    """A page of tokens."""

    items: list[TokenRow]


class TokenAsked(Shape):
    """A token for a person: an administrator's, or of one who may act in some projects."""

    user: Name
    role: Literal["admin", "member"] = "member"
    projects: list[Name] = Field(default=[])


WhyAnswer.model_rebuild()
