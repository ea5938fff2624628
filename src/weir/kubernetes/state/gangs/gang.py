"""Workload as its pods form it: groups and slots.

A pod takes the lowest slot of its group that has none, and keeps it. A slot without a pod that could be
placed is absent: control neither waits for it nor counts it. `facts` reports the workload to control.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from weir.control.journal import Dependency
from weir.control.port import (
    EndWorkload,
    Fact,
    Gate,
    GateChanged,
    PodExit,
    PodExited,
    WorkloadProgress,
)
from weir.kubernetes.state.gangs.idle_state import IdleState
from weir.kubernetes.state.gangs.job_backoff import JobBackoff
from weir.kubernetes.state.gangs.job_report import NO_REPORT, ReportedTimes
from weir.kubernetes.state.gangs.owner_restart import OwnerRestart
from weir.kubernetes.state.owners.foreign_pods import NO_MEMBERS, ForeignMembers
from weir.kubernetes.state.owners.pod_info import PodInfo, object_name
from weir.kubernetes.translate.kinds import GangKey
from weir.model.workloads import (
    DEFAULT_PRIORITY,
    PREEMPTIBLE_BELOW,
    Request,
    TopologyRequest,
    Workload,
)
from weir.state.events import Nominated, PodKey, WorkloadOutcome

_ENDS = {"Succeeded": WorkloadOutcome.SUCCEEDED, "Failed": WorkloadOutcome.FAILED}


class AllocationOrigin(Enum):
    """Source of an allocation: Weir's own decision or record, the annotation of a binding, the pod itself."""

    WEIR = "weir"
    ANNOTATION = "annotation"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class PodAllocation:
    """Node, devices and start number of a bound pod; start 0 if it isn't known."""

    node: str
    devices: tuple[int, ...]
    start: int


@dataclass(slots=True, eq=False)
class TrackedPod:
    """A pod that Weir schedules. Its node is final once it is bound or assumed."""

    key: str
    uid: str
    name: str
    created_s: float
    phase: str = "Pending"
    ready: bool = False
    over: str = ""  # outcome, after its end
    deleting: bool = False
    bound: bool = False  # True: bound at the API server
    assumed: bool = False  # True: bound by Weir, not yet confirmed
    evicted: bool = False  # True: Weir has requested the eviction
    suspends: bool = False  # True: its owner is suspended to stop it; if that fails, it is evicted
    node: str = ""
    devices: tuple[int, ...] = ()
    claimed: PodAllocation | None = None  # from its annotations, when first seen bound
    settled: bool = False  # True: devices and start are final
    guessed: bool = False  # True: its claimed devices were unknown when it was settled; not recorded
    origin: AllocationOrigin | None = None  # source of its devices
    unreadable: str = ""  # reason why it can't be read
    start: int = 0
    written_start: int = 0  # start number written at the binding; control may use another one since
    at_s: float = 0.0
    reported_start: int = 0  # start number that control regards as running
    reported_stopping: bool = False
    doubted_s: float = 0.0  # time at which an unconfirmed binding counts as failed
    back_s: float = 0.0  # length of the last pause before a retry
    back_at_s: float = 0.0  # end of that pause; 0 without one
    info: PodInfo | None = None
    gang: "Gang | None" = None
    group: int = -1
    index: int = -1

    @property
    def holds(self) -> bool:
        """True if the pod has a node: it is bound, or its binding is assumed."""
        return self.bound or self.assumed

    @property
    def stopping(self) -> bool:
        """True if the pod is leaving its node."""
        return self.deleting or self.evicted

    @property
    def wait(self) -> str:
        """Sentence why the pod isn't ready to be placed; empty if it is."""
        if self.deleting:
            return "It is being deleted."
        if self.back_at_s:
            return "Its last binding was refused, and it is tried again in a moment."
        return "" if self.info is None else self.info.wait


@dataclass(slots=True)
class PodGroupSlots:
    """Slots of equal pods; None for a slot without a pod."""

    role: str
    request: Request
    slots: list[TrackedPod | None] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True if the group has no pod."""
        return not any(self.slots)


@dataclass(slots=True, eq=False)
class Gang:
    """A workload formed by the pods that belong together: groups, slots, priority, start and end."""

    key: GangKey
    object_name: str = field(init=False)
    name: str = field(init=False)  # of its namespace and its object
    groups: list[PodGroupSlots] = field(default_factory=list)
    head: PodInfo | None = None  # info of one of its pods, for annotations of the workload
    succeeded: dict[str, str] = field(default_factory=dict)  # roles of succeeded pods that still exist
    project: str | None = None
    priority_max: int | None = None  # limit of its project
    gpu_quota_milli: int | None = None  # quota of its project; None without one
    uses: str | None = None  # project that can't be deleted before it ends
    refusal: str = ""  # reason why it can't be scheduled
    granted: bool = False  # True: its pods were admitted as non-preemptible
    overrun: bool = False  # True: not admitted, and above the quota of its project
    self_bound: bool = False  # True: some pods set their own node
    quarantined: str = ""  # fault of Weir because of which it is left out until it is deleted
    topology: TopologyRequest | None = None  # requested topology
    newer: bool = False  # True: a newer gang has its name
    counted: str | None = None  # project for which it is counted among the workloads in control
    members: ForeignMembers = NO_MEMBERS  # pods that other schedulers place
    whole: int = 1  # minimum of pods over all schedulers
    needed: int = 1  # the part of it that Weir places
    count: int = 0  # number of existing pods
    adopted: bool = False  # True: known from its object only, no pod was seen
    foreseen: int = 0  # number of pods of a suspended Job without pods, by its template
    empty_since_s: float | None = None
    backoff: JobBackoff = field(default_factory=JobBackoff)
    restart: OwnerRestart = field(default_factory=OwnerRestart)
    awaits: str = ""  # sentence: when its controller will create pods, while it has none
    left: bool = False  # True: its pods are gone, and no more will come
    last_over: str = ""  # outcome of its last pod
    starts: int = 0
    exited: int = 0  # last start whose end was reported to control
    life: WorkloadProgress = field(default_factory=WorkloadProgress)
    status_reported: bool = False
    nomination: Nominated | None = None
    nomination_reported: bool = False
    protected: bool = False  # its disruption budgets can't allow its eviction: it counts as non-preemptible
    protected_since_s: float = 0.0
    lapsed: bool = False  # True: its budgets no longer protect its devices over quota
    job_report: ReportedTimes = NO_REPORT  # report of its pods, from its object
    checkpointed_s: float = 0.0
    idle: IdleState = field(default_factory=IdleState)
    # Time since which fewer pods than its minimum have a node, from its object
    short_since_s: float = 0.0
    restart_s: float | None = None  # stated cost of a stop in device seconds, for trials of a sweep
    time_to_gpu_s: float | None = None  # for the last replica of a service
    verdict: WorkloadOutcome | None = None  # set when control has ended it
    ending: EndWorkload | None = None  # effect that ended it
    reported: Workload | None = None
    reported_absent: frozenset[PodKey] = frozenset()
    reported_gate: str | None = None
    reported_start_gates: dict[Gate, GateChanged] = field(default_factory=dict)
    met_conditions: set[Dependency] = field(default_factory=set)  # met conditions of its first start
    exit_facts: list[Fact] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.object_name = object_name(self.key)
        self.name = f"{self.key.namespace}/{self.object_name}"

    # Its pods

    def pods(self) -> Iterator[TrackedPod]:
        """Yield the pods that haven't ended, by group and slot."""
        return (tracked for group in self.groups for tracked in group.slots if tracked is not None)

    def choose_head(self) -> None:
        """Take the fields of the workload from its youngest pod, in whatever order pods were reported."""
        youngest = max(self.pods(), key=lambda pod: (pod.created_s, pod.key), default=None)
        if youngest is not None and youngest.info is not None:
            self.head = youngest.info
            if self.head.gang == self.key:
                self.key = self.head.gang  # in the version of the API that is read now

    def pod_at(self, pod: PodKey) -> TrackedPod | None:
        """Return the pod in a slot; None if the slot is empty or unknown."""
        if not 0 <= pod.group < len(self.groups):
            return None
        slots = self.groups[pod.group].slots
        return slots[pod.index] if 0 <= pod.index < len(slots) else None

    def join(self, tracked: TrackedPod, info: PodInfo) -> None:
        """Add a pod."""
        for group_index, group in enumerate(self.groups):  # noqa: B007 - the place it was found at counts
            if group.role == info.derived.role and group.request == info.request:
                break
        else:
            group_index = self._new_group(info)
        slots = self.groups[group_index].slots
        index = next((index for index, slot in enumerate(slots) if slot is None), len(slots))
        if index == len(slots):
            slots.append(None)
        slots[index] = tracked
        tracked.gang, tracked.group, tracked.index = self, group_index, index
        self.count += 1

    def _new_group(self, info: PodInfo) -> int:
        role, request = info.derived.role, info.request
        empty = [group_index for group_index, group in enumerate(self.groups) if group.is_empty]
        if empty:
            group_index = next(
                (group_index for group_index in empty if self.groups[group_index].role == role), empty[0]
            )
            self.groups[group_index].role, self.groups[group_index].request = role, request
            return group_index
        self.groups.append(PodGroupSlots(role, request))
        return len(self.groups) - 1

    def leave(self, tracked: TrackedPod, now_s: float, how: PodExit, annotations: str = "") -> None:
        """Remove a pod and release its resources."""
        self.exits(tracked, now_s, how, annotations)
        self.groups[tracked.group].slots[tracked.index] = None
        tracked.gang, tracked.group, tracked.index = None, -1, -1
        self.count -= 1

    def exits(self, tracked: TrackedPod, now_s: float, how: PodExit, annotations: str = "") -> None:
        """Report the end of a start to control, if control counts it as running."""
        if tracked.reported_start:
            self.exited = max(self.exited, tracked.reported_start)
            pod = PodKey(self.name, tracked.group, tracked.index)
            self.exit_facts.append(PodExited(pod, tracked.reported_start, how, now_s, annotations))
            tracked.reported_start, tracked.reported_stopping = 0, False

    def never_started(self, pod: PodKey, start: int, now_s: float) -> None:
        """Report to control that the pod of an ordered start no longer exists."""
        self.starts = max(self.starts, start)
        self.exit_facts.append(
            PodExited(pod, start, PodExit.LOST, now_s, "The pod was gone before it was bound.")
        )

    def regroup(self) -> None:
        """Keep the pods of a group whose requests all changed together in their slots."""
        for group in self.groups:
            pod_request = {
                (pod.info.derived.role, pod.info.request)
                for pod in group.slots
                if pod is not None and pod.info is not None
            }
            if len(pod_request) == 1:
                ((role, request),) = pod_request
                others = (other for other in self.groups if other is not group)
                if not any(other.role == role and other.request == request for other in others):
                    group.role, group.request = role, request

    # State of the whole gang

    def is_over(self) -> WorkloadOutcome | None:
        """Return the outcome of the workload, by its owner or by control; None if it hasn't ended."""
        if self.verdict is not None:
            return self.verdict
        over = None if self.head is None else self.head.derived.over
        return _ENDS.get(self.last_over, WorkloadOutcome.STOPPED) if over is None and self.left else over

    @property
    def submitted_s(self) -> float:
        """Return the creation time of the workload; 0 if it is unknown."""
        return 0.0 if self.head is None else self.head.submitted_s

    @property
    def priority(self) -> int:
        """Return the priority of the class, or else of the type; at most the maximum of the project."""
        requested = self.priority_asked
        return requested if self.priority_max is None else min(requested, self.priority_max)

    @property
    def priority_asked(self) -> int:
        """Return the priority of the class, or else of the type, without the maximum of the project."""
        assert self.head is not None
        type_ = self.head.annotations.type or self.head.derived.type
        return DEFAULT_PRIORITY[type_] if self.head.priority is None else self.head.priority

    @property
    def is_preemptible(self) -> bool:
        """Return the annotation; without one, True if the priority is below PREEMPTIBLE_BELOW."""
        assert self.head is not None
        stated = self.head.annotations.preemptible
        return self.priority < PREEMPTIBLE_BELOW if stated is None else stated

    @property
    def is_short(self) -> bool:
        """Return True if some pods have a node, but fewer than the gang needs."""
        return 0 < sum(tracked.holds and not tracked.stopping for tracked in self.pods()) < self.needed

    def note_shortness(self, now_s: float) -> None:
        """Record since when the gang has too few pods; 0 if it has enough."""
        self.short_since_s = (self.short_since_s or now_s) if self.is_short else 0.0

    @property
    def is_schedulable(self) -> bool:
        """Return True if control has to know this gang; a suspended one counts without pods, too."""
        if self.head is None or self.project is None or self.newer:
            return False
        if (self.foreseen or self.head.derived.suspended) and self.is_over() is None:
            return True
        return self.count > 0 and (self.is_over() is None or any(pod.holds for pod in self.pods()))

    def next_start(self) -> int:
        """Return an unused start number."""
        self.starts = max(self.starts, self.life.starts, self.life.settled) + 1
        return self.starts

    def set_nomination(self, nomination: Nominated | None) -> None:
        """Set or clear the nomination. Control ordered it, so no fact is reported."""
        self.nomination, self.nomination_reported = nomination, True

    def remember(self, status: WorkloadProgress) -> None:
        """Store the progress that control wants to persist."""
        self.life = replace(status)
        self.starts = max(self.starts, status.starts)
