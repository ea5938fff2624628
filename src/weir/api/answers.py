"""Answers of the REST interface, shared by server and client.

Answers hold plain numbers: seconds since the epoch, devices as floats, memory in bytes. Requests are in
`weir.api.submissions`, because a list doesn't need that expensive import.
"""

from typing import Literal

from weir.api.access import MemberPage, MemberRow, Role, ScopeRole, TokenMade, TokenPage, TokenRow
from weir.api.pod_entry import EnteredProcess
from weir.api.project_rules import PersonLimitsRow, WorkloadDefaultsRow
from weir.api.sessions import SessionKind, SessionLink
from weir.api.workload_list import (
    ActivityRow,
    Answer,
    ArrayCounts,
    EvictionRow,
    Explanation,
    Isolation,
    Page,
    Shown,
    Status,
    Type,
    WorkloadPage,
    WorkloadRow,
)

__all__ = [
    "Answer",
    "AuditPage",
    "AuditRow",
    "CheckpointPage",
    "CheckpointRow",
    "DashboardLink",
    "DeviceRow",
    "EnteredProcess",
    "EventPage",
    "EventRow",
    "EvictionRow",
    "Explanation",
    "Isolation",
    "MemberPage",
    "MemberRow",
    "NodePage",
    "NodeRow",
    "Page",
    "PersonLimitsRow",
    "PodRow",
    "PoolStatus",
    "Problem",
    "QueueDeleted",
    "QueuePage",
    "QueueRow",
    "QuotaEffect",
    "QuotaPreview",
    "Role",
    "ScopeRole",
    "SecretPage",
    "SecretRow",
    "SessionLink",
    "Status",
    "SubmissionPreview",
    "Suggestion",
    "TokenMade",
    "TokenPage",
    "TokenRow",
    "Type",
    "UsageReport",
    "UsageRow",
    "WhyAnswer",
    "WorkloadDefaultsRow",
    "WorkloadDetail",
    "WorkloadPage",
    "WorkloadRow",
]


class PodRow(Answer):
    """A pod of a workload."""

    name: str  # workload/group/index
    status: Shown[Status]
    node: str | None = None
    devices: list[int] = []
    start: int | None = None
    since_s: float | None = None
    exit: str | None = None


class EventRow(Answer):
    """An event."""

    id: int
    at_s: float
    kind: str
    workload: str | None = None
    project: str | None = None
    pod: str | None = None
    sentence: str
    numbers: dict[str, object] = {}


class DependencyRow(Answer):
    """Workload that another one waits for, and the outcome that is required of it."""

    name: str
    uid: int
    condition: Shown[Literal["started", "succeeded", "failed", "ended"]]


class WorkloadDetail(WorkloadRow):
    """Details of a workload. `command` and `env` only for people of its project."""

    pod_rows: list[PodRow] = []
    command: list[str] | None = None
    env: dict[str, str] | None = None  # the values only for its user and administrators
    secrets: dict[str, str] | None = None  # names of the project's secrets, by variable
    directory: str | None = None
    session: Shown[SessionKind] | None = None  # opened in a browser
    image: str | None = None  # of the container its command runs in; None: it runs as a process
    pull: str | None = None
    pod_cpu: float | None = None  # cores that each pod of the first group asks for; None: none stated
    pod_memory: int | None = None  # bytes
    max_runtime_s: float | None = None
    begin_s: float | None = None  # it doesn't start before
    dependencies: list[DependencyRow] = []
    gpu_access: Shown[Isolation] | None = None  # whether other jobs are kept off its GPUs; None: it has none
    gpu_access_by: str | None = None  # means of the kernel that keeps them off; None: there is none
    gpu_memory: Shown[Isolation] | None = None  # whether they are kept off its part of their memory
    gpu_memory_by: str | None = None  # what limits a share's memory; None: nothing does, or needs to
    gpu_memory_why: str | None = None  # why nothing limits a share's memory
    checkpoints: str | None = None  # the directory it saves its state in, on the machine of the pool
    checkpointed_s: float | None = None
    step: int | None = None  # the last one it reported
    reported: dict[str, float] = {}
    events: list[EventRow] = []


class Suggestion(Answer):
    """A change that would let a pending workload start now; each was tried on a copy of the pool."""

    sentence: str
    change: dict[str, object] = {}  # fields of the submission that would change
    at_s: float | None = None  # when, if it is only a matter of time
    how: str | None = None  # instructions; None: `change` says it


class QueueRow(Answer):
    """A department or project. Amounts by resource: devices as floats, cpu in cores, memory in bytes."""

    name: str
    kind: Shown[Literal["department", "project"]]
    parent: str | None = None
    quota: dict[str, float] = {}  # unlimited where missing, but for gpu
    follows: bool = False  # its gpu quota is the sum of its children's: none was stated
    limit: dict[str, float] = {}
    weight: dict[str, float] = {}
    priority: int = 100
    max_priority: int | None = None  # of its members' workloads
    max_priority_of: dict[str, int] = {}  # by user, in place of `max_priority`
    person_limits: PersonLimitsRow = PersonLimitsRow()  # of each person
    person_limits_of: dict[str, PersonLimitsRow] = {}  # by user, before the others
    defaults: WorkloadDefaultsRow = WorkloadDefaultsRow()
    times: dict[str, float] = {}  # time rules of a project, by their words, in seconds; 0 is none
    allocated: dict[str, float] = {}
    share: dict[str, float] = {}
    running: int = 0
    pending: int = 0
    warnings: list[str] = []  # quotas that can't all be kept


SUGGESTIONS_WAIT_S_MAX = 10.0
"""Time that a request for a reason may wait for suggestions."""


class WhyAnswer(Answer):
    """Reason of a pending workload, its queue's numbers, and changes that would let it start now."""

    name: str
    status: Shown[Status]
    reason: Explanation | None
    evicted: EvictionRow | None = None
    position: int | None = None  # among the pending workloads of its project, from 1
    waiting: int = 0
    activity: ActivityRow | None = None  # None: it doesn't run, or has no GPUs
    queues: list[QueueRow] = []  # its project, then its ancestors
    suggestions: list[Suggestion] = []
    array: ArrayCounts | None = None  # its indices, if it is an array
    untried: list[str] = []  # kinds of changes that weren't tried to the end for lack of time
    unfinished: bool = False  # suggestions are still being tried: a later answer has them
    withheld: bool = False  # there are no suggestions, because they may name work that the person may not see


class QuotaEffect(Answer):
    """A workload that a change of quotas would stop or start."""

    workload: str
    uid: int
    project: str
    user: str
    gpus: float
    sentence: str


class QuotaPreview(Answer):
    """Effect of a change of quotas on the next decision, tried on a copy of the pool."""

    stops: list[QuotaEffect] = []
    starts: list[QuotaEffect] = []
    warnings: list[str] = []  # quotas that couldn't all be kept


class SubmissionPreview(Answer):
    """Outcome of a submission in the next decision: it starts, once `stops` have stopped, or waits."""

    starts: bool
    nodes: list[str] = []
    stops: list[str] = []
    reason: Explanation | None = None


class DeviceRow(Answer):
    """A device of a node. `use` is None if unknown."""

    index: int
    model: str | None
    memory: int
    allocated: float
    use: float | None = None
    memory_used: int | None = None
    workloads: list[str] = []
    temperature_c: int | None = None
    power_w: float | None = None
    errors: int | None = None  # of memory, uncorrected, since the driver was loaded
    foreign: str | None = None  # the process outside the pool that uses it
    foreign_command: str | None = None  # its command line, for administrators alone
    drained: str | None = None  # by whom and why: nothing is started on it
    activity: str | None = None  # of the workloads on it; quiet: its workload computes on other devices


class NodeRow(Answer):
    """A node."""

    name: str
    devices: list[DeviceRow]
    capacity: dict[str, float]
    allocated: dict[str, float]
    labels: dict[str, str] = {}
    pods: int = 0
    virtual: bool = False
    others: float = 0.0  # GPUs in use by pods of other schedulers; they count as allocated
    state: list[str] = []  # states such as "cordoned"


class PoolStatus(Answer):
    """Summary of the pool."""

    version: str
    nodes: int
    devices: int
    allocated: float
    running: int
    pending: int
    policy: str
    started_s: float
    virtual: bool = False
    others: float = 0.0  # GPUs in use by pods of other schedulers; they count as allocated
    trouble: str | None = None  # its impairment now, in a sentence
    certificate_ends_s: float | None = None  # of the listener for other machines; None without one
    session_headroom: int | None = None  # GPUs that stay free for sessions, as learned; None: not learned
    session_headroom_why: str = ""


class EventPage(Page):
    """A page of events, newest first."""

    items: list[EventRow]
    note: str | None = None  # what is missing in it, in a sentence


class QueuePage(Page):
    """A page of departments or projects."""

    items: list[QueueRow]


class NodePage(Page):
    """A page of nodes."""

    items: list[NodeRow]


class CheckpointRow(Answer):
    """Checkpoint directory of a workload. Names are None if the workload is deleted."""

    uid: int
    name: str | None = None
    project: str | None = None
    user: str | None = None
    status: Shown[Status] | None = None
    path: str
    bytes: int
    files: int
    saved_s: float  # the newest change of a file
    whole: bool = True  # False if there are too many files to count


class CheckpointPage(Page):
    """A page of checkpoint directories."""

    items: list[CheckpointRow]


class UsageRow(Answer):
    """Use over a span of time, of one project, department, user, workload type, node or GPU model."""

    key: str
    allocated_gpu_s: float
    used_gpu_s: float | None
    idle_gpu_s: float | None  # allocated, and seen idle
    over_quota_gpu_s: float
    waiting_s: float  # of workloads, all together
    workloads: int
    ended: int
    preempted: int
    working_gpu_s: float | None = None  # by the state of the workloads, as far as it is known
    starved_gpu_s: float | None = None
    parked_gpu_s: float | None = None
    left_gpu_s: float | None = None


class UsageReport(Answer):
    """Usage since a time, by one kind of key."""

    since_s: float
    until_s: float
    by: Shown[Literal["project", "department", "user", "type", "node", "gpu_model"]]
    rows: list[UsageRow]
    note: str | None = None  # what is missing in it, in a sentence


class Problem(Answer):
    """A refusal (RFC 9457); `errors` name the fields, each with a correction."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] = []


class AuditRow(Answer):
    """Request in the audit log. `token`: the number of its token."""

    at: str
    request: str = ""
    user: str | None = None
    token: int | None = None
    label: str = ""
    source: str = ""
    method: str = ""
    path: str = ""
    status: int | None = None
    outcome: str = ""
    details: dict[str, object] = {}


class AuditPage(Page):
    """Lines of the audit log, newest first."""

    items: list[AuditRow]


class DashboardLink(Answer):
    """A link that signs in to the dashboard, once. `path` is on the address of the pool."""

    path: str
    expires_s: float


class SecretRow(Answer):
    """A secret in a list, without its value. `user` set it."""

    name: str
    set_s: float | None = None
    user: str | None = None


class SecretPage(Page):
    """Secrets of a project, by name."""

    items: list[SecretRow]


class QueueDeleted(Answer):
    """Result of a deletion: `tokens` lost the project, `secrets` were deleted with it."""

    name: str
    tokens: list[TokenRow] = []
    secrets: list[str] = []
