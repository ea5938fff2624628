"""Answers of the REST interface, shared by server and client.

Answers hold plain numbers: seconds since the epoch, devices as floats, memory in bytes. Requests are in
`weir.api.submissions`, because a list doesn't need that expensive import.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
    IdleRulesRow,
    Isolation,
    Page,
    PointInTime,
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
    "EventFilter",
    "EventPage",
    "EventRow",
    "EvictionRow",
    "Explanation",
    "IdleRulesRow",
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
    "Role",
    "ScopeRole",
    "SecretPage",
    "SecretRow",
    "SessionLink",
    "Status",
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
    since_s: PointInTime | None = None
    exit: str | None = None


class EventRow(Answer):
    """An event."""

    id: int
    at_s: PointInTime
    kind: str
    workload: str | None = None
    project: str | None = None
    pod: str | None = None
    sentence: str
    numbers: dict[str, object] = {}


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Filter of a cluster's events since a time; empty values select all. `workload`: namespace and name."""

    namespace: str = ""
    workload: str = ""
    projects: Sequence[str] = ()
    kinds: Sequence[str] = ()
    since_s: float = 0.0


class DependencyRow(Answer):
    """Workload that another one waits for, and the outcome that is required of it."""

    name: str
    uid: int
    condition: Shown[Literal["started", "succeeded", "failed", "ended"]]


class WorkloadDetail(WorkloadRow):
    """Details of a workload. `command` and `env` only for people of its project."""

    pod_rows: list[PodRow] = []
    command: list[str] | None = None
    env: dict[str, str] | None = None  # values are visible to its user and administrators only
    secrets: dict[str, str] | None = None  # names of secrets by environment variable
    directory: str | None = None
    session: Shown[SessionKind] | None = None  # kind of a session in the browser
    image: str | None = None  # image of its container; None: it runs as a process
    pull: str | None = None
    pod_cpu: float | None = None  # cores of each pod of the first group; None: not stated
    pod_memory: int | None = None  # bytes
    max_runtime_s: float | None = None
    idle_rules: IdleRulesRow | None = None  # None: no rule acts on it, it is over, or nothing measures it
    begin_s: PointInTime | None = None  # earliest start
    dependencies: list[DependencyRow] = []
    gpu_access: Shown[Isolation] | None = None  # isolation of its GPUs from other jobs; None: it has no GPUs
    gpu_access_by: str | None = None  # means of the isolation in the kernel; None: none
    gpu_memory: Shown[Isolation] | None = None  # isolation of its part of the GPUs' memory
    gpu_memory_by: str | None = None  # means of that isolation; None: none, or not needed
    gpu_memory_why: str | None = None  # cause of a missing memory limit
    checkpoints: str | None = None  # checkpoint directory on the machine of the pool
    checkpointed_s: PointInTime | None = None
    step: int | None = None  # last reported step
    reported: dict[str, float] = {}
    events: list[EventRow] = []


class Suggestion(Answer):
    """A change that would let a pending workload start now; each was tried on a copy of the pool."""

    sentence: str
    change: dict[str, object] = {}  # changed fields of the submission
    at_s: PointInTime | None = None  # time of the start, if nothing has to change
    how: str | None = None  # instructions; None: `change` is enough


class QueueRow(Answer):
    """A department or project. Amounts by resource: devices as floats, cpu in cores, memory in bytes."""

    name: str
    kind: Shown[Literal["department", "project"]]
    parent: str | None = None
    quota: dict[str, float] = {}  # a missing resource is unlimited, a missing gpu quota is 0
    follows: bool = False  # True: no gpu quota is stated, so it is the sum of its children's
    limit: dict[str, float] = {}
    weight: dict[str, float] = {}
    priority: int = 100
    max_priority: int | None = None  # limit for workloads of its members
    max_priority_of: dict[str, int] = {}  # by user, in place of `max_priority`
    person_limits: PersonLimitsRow = PersonLimitsRow()  # limits of each person
    person_limits_of: dict[str, PersonLimitsRow] = {}  # by user, in place of `person_limits`
    defaults: WorkloadDefaultsRow = WorkloadDefaultsRow()
    times: dict[str, float] = {}  # time rules of a project in seconds, by key; 0: no limit
    allocated: dict[str, float] = {}
    share: dict[str, float] = {}
    running: int = 0
    pending: int = 0
    warnings: list[str] = []  # quotas that exceed the capacity


NEW_QUEUE = "new"
"""Version in a request for a department or project that must not exist yet."""


class QueueDetail(QueueRow):
    """A department or project by itself, with the version of its settings; empty if the server has none."""

    version: str = ""


SUGGESTIONS_WAIT_S_MAX = 10.0
"""Time that a request for a reason may wait for suggestions."""


class WhyAnswer(Answer):
    """Reason of a pending workload, its queue's numbers, and changes that would let it start now."""

    name: str
    status: Shown[Status]
    reason: Explanation | None
    evicted: EvictionRow | None = None
    position: int | None = None  # position among the pending workloads of its project, from 1
    waiting: int = 0
    activity: ActivityRow | None = None  # None: it isn't running, or has no GPUs
    queues: list[QueueRow] = []  # its project, then its ancestors
    suggestions: list[Suggestion] = []
    array: ArrayCounts | None = None  # its indices, if it is an array
    untried: list[str] = []  # kinds of changes that weren't all tried for lack of time
    unfinished: bool = False  # True: later answers will have more suggestions
    withheld: bool = False  # True: no suggestions, as they may name workloads hidden from the person


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
    errors: int | None = None  # uncorrected memory errors since the driver was loaded
    foreign: str | None = None  # foreign process on the device
    foreign_command: str | None = None  # its command line, for administrators only
    drained: str | None = None  # user and reason of the drain
    activity: str | None = None  # activity of its workloads; quiet: the workload uses its other devices


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
    started_s: PointInTime
    virtual: bool = False
    others: float = 0.0  # GPUs in use by pods of other schedulers; they count as allocated
    trouble: str | None = None  # sentence about a current problem
    certificate_ends_s: float | None = None  # None: no listener for other machines
    session_headroom: int | None = None  # learned number of GPUs kept free for sessions; None: not learned
    session_headroom_why: str = ""


class EventPage(Page):
    """A page of events, newest first."""

    items: list[EventRow]
    note: str | None = None  # sentence about missing data


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
    saved_s: float  # latest change of a file
    whole: bool = True  # False: too many files to count


class CheckpointPage(Page):
    """A page of checkpoint directories."""

    items: list[CheckpointRow]


class UsageRow(Answer):
    """Use over a span of time, of one project, department, user, workload type, node or GPU model."""

    key: str
    allocated_gpu_s: float
    used_gpu_s: float | None
    idle_gpu_s: float | None  # allocated, and measured as idle
    over_quota_gpu_s: float
    waiting_s: float  # sum of the waits of workloads
    workloads: int
    ended: int
    preempted: int
    working_gpu_s: float | None = None  # by state of the workloads, as far as measured
    starved_gpu_s: float | None = None
    parked_gpu_s: float | None = None
    left_gpu_s: float | None = None


class UsageReport(Answer):
    """Usage since a time, by one kind of key."""

    since_s: PointInTime
    until_s: PointInTime
    by: Shown[Literal["project", "department", "user", "type", "node", "gpu_model"]]
    rows: list[UsageRow]
    note: str | None = None  # sentence about missing data


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
    expires_s: PointInTime


class SecretRow(Answer):
    """A secret in a list, without its value. `user` set it."""

    name: str
    set_s: PointInTime | None = None
    user: str | None = None


class SecretPage(Page):
    """Secrets of a project, by name."""

    items: list[SecretRow]


class QueueDeleted(Answer):
    """Result of a deletion: `tokens` lost the project, `secrets` were deleted with it."""

    name: str
    tokens: list[TokenRow] = []
    secrets: list[str] = []
