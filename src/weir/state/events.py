"""The facts a cluster is made of. A backend reports them, control adds its own; `reduce` applies them."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from weir.model.budgets import DisruptionBudget
from weir.model.nodes import Node, Topology
from weir.model.queues import Queue
from weir.model.reasons import EvictionCause, ReasonCode
from weir.model.record import record
from weir.model.workloads import Workload


@record(order=True)
class PodKey:
    """Names one pod: its workload, the position of its group, its index in the group."""

    workload: str
    group: int
    index: int


@record()
class Placement:
    """Place of a pod: a node by name and the indices of its devices."""

    pod: PodKey
    node: str
    devices: tuple[int, ...]


class WorkloadOutcome(StrEnum):
    """Outcomes of a workload."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


@record()
class NodeSet:
    """A node is new or changed. A node that shrinks below the usage of its pods stays over-full."""

    node: Node


@record()
class NodeLost:
    """A node is gone; its pods are reported stopped one by one."""

    name: str


@record()
class QueuesSet:
    """The quota tree, whole: parents before children."""

    queues: tuple[Queue, ...]


@record()
class TopologiesSet:
    """The complete list of topologies."""

    topologies: tuple[Topology, ...]


@record()
class BudgetSet:
    """A disruption budget is new, or its allowance has changed."""

    budget: DisruptionBudget


@record()
class BudgetRemoved:
    """A disruption budget is gone."""

    name: str


@record()
class PodProtected:
    """These known disruption budgets count an eviction of the pod; none: it may always be evicted."""

    pod: PodKey
    budgets: tuple[str, ...]


@record()
class WorkloadSubmitted:
    """A workload is pending. `ran_s` is run time that it keeps from before.

    `absent` are pods of it that don't exist yet: they are neither asked for nor placed until a
    `WorkloadChanged` no longer names them, or one of them runs.
    """

    workload: Workload
    at_s: float
    ran_s: float = 0.0
    absent: frozenset[PodKey] = frozenset()


@record()
class WorkloadChanged:
    """A workload has another request: more or fewer pods, another priority, other label sets.

    Its pods keep their nodes, and hold there the new request. Removed pods and `absent` pods release their
    devices. A nomination of an absent pod is kept until it exists. The run time, the checkpoints and the
    start of the wait stay.
    """

    workload: Workload
    at_s: float
    absent: frozenset[PodKey] = frozenset()


@record()
class WorkloadEnded:
    """A workload is over and holds nothing any more; `ran_s` is its whole run where it succeeded."""

    workload: str
    how: WorkloadOutcome
    at_s: float
    ran_s: float = 0.0


@record()
class WorkloadSuspended:
    """A workload may (not) be started: suspended, backing off, gated."""

    workload: str
    suspended: bool
    reason: str = ""
    until_s: float | None = None  # it resumes automatically then
    code: ReasonCode = ReasonCode.SUSPENDED


@record()
class HistoryRestored:
    """History of a workload from before control knew it, as far as decisions need it.

    Since when it waits, since when its gang runs below its minimum, and the workloads it was stopped for
    with the times.
    """

    workload: str
    waits_since_s: float | None = None
    short_since_s: float | None = None
    stopped_for: tuple[tuple[str, float], ...] = ()


@record()
class PodAssigned:
    """A pod has a node from now on: it starts or runs."""

    place: Placement
    at_s: float


@record()
class PodStopping:
    """A pod is being stopped; its capacity will be free."""

    pod: PodKey
    at_s: float
    cause: EvictionCause | None = None


@record()
class StopRefused:
    """A pod keeps running, because its eviction was refused. `by` is the beneficiary."""

    pod: PodKey
    at_s: float
    sentence: str = ""
    by: str | None = None


@record()
class PodStopped:
    """A pod released its capacity, and is pending again. `kept_s` is run time that isn't lost."""

    pod: PodKey
    at_s: float
    kept_s: float | None = None


@record()
class Checkpointed:
    """A workload saved its state at this time."""

    workload: str
    at_s: float


@record()
class Nominated:
    """Capacity is nominated for pods of a workload until they run or it is released.

    `by` is the workload whose take moved these pods, if they were moved.
    """

    workload: str
    places: tuple[Placement, ...]
    at_s: float
    freed_by: tuple[str, ...] = field(default=())


@record()
class NominationReleased:
    """The nomination of a workload is released."""

    workload: str


@record()
class NominationBlocked:
    """The capacity nominated for a workload can't become free since this time; None: it can again."""

    workload: str
    since_s: float | None


@record()
class NoteAdded:
    """Note for people on a workload: an action of control, done or planned. It changes no state."""

    workload: str
    at_s: float
    kind: str
    sentence: str
    numbers: Mapping[str, object] = field(default_factory=dict)


Event = (
    NodeSet
    | NodeLost
    | QueuesSet
    | TopologiesSet
    | WorkloadSubmitted
    | WorkloadChanged
    | WorkloadEnded
    | WorkloadSuspended
    | HistoryRestored
    | PodAssigned
    | PodStopping
    | StopRefused
    | PodStopped
    | BudgetSet
    | BudgetRemoved
    | PodProtected
    | Checkpointed
    | Nominated
    | NominationReleased
    | NominationBlocked
    | NoteAdded
)
