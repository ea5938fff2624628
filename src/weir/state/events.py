"""The facts that change a cluster: backends report them, control adds its own, and `reduce` applies them."""

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
    """Identity of a pod: its workload, the position of its group, and its index in the group."""

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
    """A node is new or changed. A node that shrinks below the usage of its pods stays over-committed."""

    node: Node


@record()
class NodeLost:
    """A node is gone; its pods are reported stopped one by one."""

    name: str


@record()
class QueuesSet:
    """The complete quota tree, parents before children."""

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
    """A disruption budget was deleted."""

    name: str


@record()
class PodProtected:
    """An eviction of the pod counts against these known disruption budgets; none: it is always allowed."""

    pod: PodKey
    budgets: tuple[str, ...]


@record()
class WorkloadSubmitted:
    """A workload is pending. `ran_s` is run time that it keeps from before.

    `absent` are pods of it that don't exist yet. They are neither requested nor placed, until a
    `WorkloadChanged` no longer names them or they run.
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
    """A workload has ended and holds no resources; `ran_s` is its whole run if it succeeded."""

    workload: str
    how: WorkloadOutcome
    at_s: float
    ran_s: float = 0.0


@record()
class WorkloadSuspended:
    """A workload may not be started (suspended, backing off or gated), or may again."""

    workload: str
    suspended: bool
    reason: str = ""
    until_s: float | None = None  # it resumes automatically then
    code: ReasonCode = ReasonCode.SUSPENDED


@record()
class HistoryRestored:
    """History of a workload from before control knew it, as far as decisions need it.

    It has the beginning of its wait, and the time since which its gang runs below its minimum. It also has
    the workloads for which it was stopped, with the times.
    """

    workload: str
    waits_since_s: float | None = None
    short_since_s: float | None = None
    stopped_for: tuple[tuple[str, float], ...] = ()


@record()
class PodAssigned:
    """A pod has a node from now on, and starts or runs there."""

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

    `by` is the workload for which these pods are moved, if they are.
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
    """The nominated capacity of a workload can't become free since a time; None: it can again."""

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
