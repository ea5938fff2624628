"""Workload as its pods form it: groups and slots.

A pod takes the lowest slot of its group that has none, and keeps it. A slot without a pod that could be
placed is absent: control neither waits for it nor counts it. `gang_facts` tells control of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

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
from weir.kubernetes.state.foreign_pods import NO_MEMBERS, ForeignMembers
from weir.kubernetes.state.idle_state import IdleState
from weir.kubernetes.state.job_backoff import JobBackoff
from weir.kubernetes.state.job_report import NO_REPORT
from weir.kubernetes.state.object_names import object_name
from weir.kubernetes.state.owner_restart import OwnerRestart
from weir.kubernetes.state.pod_allocation import AllocationOrigin, PodAllocation
from weir.kubernetes.state.pod_info import GangKey, PodInfo
from weir.model.workloads import (
    DEFAULT_PRIORITY,
    PREEMPTIBLE_BELOW,
    Request,
    TopologyRequest,
    Workload,
)
from weir.state.events import Nominated, PodKey, WorkloadOutcome

_ENDS = {"Succeeded": WorkloadOutcome.SUCCEEDED, "Failed": WorkloadOutcome.FAILED}


class TrackedPod:
    """A pod that is to be placed by us. Where it is holds once it is bound, or assumed to be."""

    __slots__ = (
        "assumed",
        "at_s",
        "back_at_s",
        "back_s",
        "bound",
        "claimed",
        "created_s",
        "deleting",
        "devices",
        "doubted_s",
        "evicted",
        "gang",
        "group",
        "guessed",
        "index",
        "info",
        "key",
        "name",
        "node",
        "origin",
        "over",
        "phase",
        "ready",
        "reported_start",
        "reported_stopping",
        "settled",
        "start",
        "suspends",
        "uid",
        "unreadable",
        "written_start",
    )

    def __init__(self, key: str, uid: str, name: str, created_s: float) -> None:
        self.key = key
        self.uid = uid
        self.name = name
        self.created_s = created_s
        self.phase = "Pending"
        self.ready = False
        self.over = ""  # outcome, after its end
        self.deleting = False
        self.bound = False  # True: bound at the API server
        self.assumed = False  # True: bound by Weir, not yet confirmed
        self.evicted = False  # True: Weir has requested the eviction
        self.suspends = False  # True: its owner is suspended to stop it; if that fails, it is evicted
        self.node = ""
        self.devices: tuple[int, ...] = ()
        self.claimed: PodAllocation | None = None  # from its annotations, when first seen bound
        self.settled = False  # True: devices and start are final
        self.guessed = False  # True: its claimed devices were unknown when it was settled; not recorded
        self.origin: AllocationOrigin | None = None  # source of its devices
        self.unreadable = ""  # reason why it can't be read
        self.start = 0
        self.written_start = 0  # start number written at the binding; control may use another one since
        self.at_s = 0.0
        self.reported_start = 0  # start number that control regards as running
        self.reported_stopping = False
        self.doubted_s = 0.0  # time at which an unconfirmed binding counts as failed
        self.back_s = 0.0  # length of the last retry pause; next, its end
        self.back_at_s = 0.0
        self.info: PodInfo | None = None
        self.gang: Gang | None = None
        self.group = self.index = -1

    @property
    def holds(self) -> bool:
        """True if it has a node."""
        return self.bound or self.assumed

    @property
    def stopping(self) -> bool:
        """True if it is leaving its node."""
        return self.deleting or self.evicted

    @property
    def wait(self) -> str:
        """Sentence why it isn't ready to be placed; empty if it is."""
        if self.deleting:
            return "It is being deleted."
        if self.back_at_s:
            return "Its last binding was refused, and it is tried again in a moment."
        return "" if self.info is None else self.info.wait


@dataclass(slots=True)
class PodGroupSlots:
    """Pods that are alike. Slots without a pod are None."""

    role: str
    request: Request
    slots: list[TrackedPod | None] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True if it has no pod."""
        return not any(self.slots)


class Gang:
    """Forms a workload of the pods that belong together: groups, slots, priority, start and end."""

    __slots__ = (
        "adopted",
        "awaits",
        "backoff",
        "checkpointed_s",
        "count",
        "counted",
        "empty_since_s",
        "ending",
        "exit_facts",
        "exited",
        "gpu_quota_milli",
        "granted",
        "groups",
        "head",
        "idle",
        "job_report",
        "key",
        "lapsed",
        "last_over",
        "left",
        "life",
        "members",
        "met_conditions",
        "name",
        "needed",
        "newer",
        "nomination",
        "nomination_reported",
        "object_name",
        "overrun",
        "pods_most",
        "priority_most",
        "project",
        "protected",
        "protected_since_s",
        "quarantined",
        "refusal",
        "reported",
        "reported_absent",
        "reported_gate",
        "reported_start_gates",
        "restart",
        "restart_s",
        "self_bound",
        "short_since_s",
        "starts",
        "status_reported",
        "succeeded",
        "time_to_gpu_s",
        "topology",
        "uses",
        "verdict",
        "whole",
    )

    def __init__(self, key: GangKey) -> None:
        self.key = key
        self.object_name = object_name(key)
        self.name = f"{key.namespace}/{self.object_name}"
        self.groups: list[PodGroupSlots] = []
        self.head: PodInfo | None = None  # info of one of its pods, for annotations of the workload
        self.succeeded: dict[str, str] = {}  # roles of succeeded pods that still exist
        self.project: str | None = None
        self.priority_most: int | None = None  # limit of its project
        self.gpu_quota_milli: int | None = None  # quota of its project; None without one
        self.uses: str | None = None  # project that can't be deleted before it ends
        self.refusal = ""  # reason why it can't be scheduled
        self.granted = False  # True: its pods were admitted as non-preemptible
        self.overrun = False  # True: not admitted, and above the quota of its project
        self.self_bound = False  # True: some pods set their own node
        self.quarantined = ""  # fault of Weir because of which it is left out until it is deleted
        self.topology: TopologyRequest | None = None  # requested topology
        self.newer = False  # True: a newer gang has its name
        self.counted: str | None = None  # project in whose usage it is counted
        self.members: ForeignMembers = NO_MEMBERS  # pods that other schedulers place
        self.whole = 1  # minimum of pods over all schedulers
        self.needed = 1  # the part of it that Weir places
        self.count = 0  # number of existing pods
        self.adopted = False  # True: known from its object only, no pod was seen
        self.empty_since_s: float | None = None
        self.backoff, self.restart = JobBackoff(), OwnerRestart()
        self.awaits = ""  # sentence: when its controller will create pods, while it has none
        self.left = False  # True: its pods are gone, and no more will come
        self.last_over = ""  # outcome of its last pod
        self.starts = 0
        self.exited = 0  # last start whose end was reported to control
        self.life = WorkloadProgress()
        self.status_reported = self.nomination_reported = False
        self.nomination: Nominated | None = None
        self.protected = (
            False  # its disruption budgets can't allow its eviction: it counts as non-preemptible
        )
        self.protected_since_s = 0.0
        self.lapsed = False  # True: its budgets no longer protect its devices over quota
        self.job_report = NO_REPORT  # report of its pods, from its object
        self.checkpointed_s = 0.0
        self.idle = IdleState()
        self.short_since_s = 0.0  # time since which fewer pods than its minimum have a node, from its object
        self.restart_s: float | None = None  # stated cost of a stop in device seconds, for trials of a sweep
        self.time_to_gpu_s: float | None = None  # for the last replica of a service
        self.verdict: WorkloadOutcome | None = None  # set when control has ended it
        self.ending: EndWorkload | None = None  # effect that ended it
        self.reported: Workload | None = None
        self.reported_absent: frozenset[PodKey] = frozenset()
        self.reported_gate: str | None = None
        self.reported_start_gates: dict[Gate, GateChanged] = {}
        self.met_conditions: set[Dependency] = set()  # met conditions of its first start
        self.exit_facts: list[Fact] = []

    # Its pods

    def pods(self) -> Iterator[TrackedPod]:
        """Yield its pods that aren't over, by group and slot."""
        return (tracked for group in self.groups for tracked in group.slots if tracked is not None)

    def choose_head(self) -> None:
        """Take the fields of the workload from its youngest pod, whichever was heard of last."""
        youngest = max(self.pods(), key=lambda each: (each.created_s, each.key), default=None)
        if youngest is not None and youngest.info is not None:
            self.head = youngest.info
            if self.head.gang == self.key:
                self.key = self.head.gang  # in the version of the API that is read now

    def at(self, pod: PodKey) -> TrackedPod | None:
        """Return the pod in a slot."""
        if not 0 <= pod.group < len(self.groups):
            return None
        slots = self.groups[pod.group].slots
        return slots[pod.index] if 0 <= pod.index < len(slots) else None

    def join(self, tracked: TrackedPod, info: PodInfo) -> None:
        """Add a pod."""
        for at, group in enumerate(self.groups):  # noqa: B007 - the place it was found at counts
            if group.role == info.derived.role and group.request == info.request:
                break
        else:
            at = self._new_group(info)
        slots = self.groups[at].slots
        index = next((index for index, each in enumerate(slots) if each is None), len(slots))
        if index == len(slots):
            slots.append(None)
        slots[index] = tracked
        tracked.gang, tracked.group, tracked.index = self, at, index
        self.count += 1

    def _new_group(self, info: PodInfo) -> int:
        role, request = info.derived.role, info.request
        empty = [at for at, group in enumerate(self.groups) if group.is_empty]
        if empty:
            at = next((at for at in empty if self.groups[at].role == role), empty[0])
            self.groups[at].role, self.groups[at].request = role, request
            return at
        self.groups.append(PodGroupSlots(role, request))
        return len(self.groups) - 1

    def leave(self, tracked: TrackedPod, now_s: float, how: PodExit, annotations: str = "") -> None:
        """Remove a pod and release its resources."""
        self.exits(tracked, now_s, how, annotations)
        self.groups[tracked.group].slots[tracked.index] = None
        tracked.gang, tracked.group, tracked.index = None, -1, -1
        self.count -= 1

    def exits(self, tracked: TrackedPod, now_s: float, how: PodExit, annotations: str = "") -> None:
        """Report the end of a start to control, if it takes the start to be alive."""
        if tracked.reported_start:
            self.exited = max(self.exited, tracked.reported_start)
            pod = PodKey(self.name, tracked.group, tracked.index)
            self.exit_facts.append(PodExited(pod, tracked.reported_start, how, now_s, annotations))
            tracked.reported_start, tracked.reported_stopping = 0, False

    def never_started(self, pod: PodKey, start: int, now_s: float) -> None:
        """Tell control that an ordered start has no pod any more."""
        self.starts = max(self.starts, start)
        self.exit_facts.append(
            PodExited(pod, start, PodExit.LOST, now_s, "The pod was gone before it was bound.")
        )

    def regroup(self) -> None:
        """Keep the pods of a group whose requests all changed together in their slots."""
        for group in self.groups:
            pod_request = {
                (each.info.derived.role, each.info.request)
                for each in group.slots
                if each is not None and each.info is not None
            }
            if len(pod_request) == 1:
                ((role, request),) = pod_request
                others = (each for each in self.groups if each is not group)
                if not any(each.role == role and each.request == request for each in others):
                    group.role, group.request = role, request

    # State of the whole gang

    def is_over(self) -> WorkloadOutcome | None:
        """Return how it ended, by its owner's status or by control; None if it hasn't."""
        if self.verdict is not None:
            return self.verdict
        over = None if self.head is None else self.head.derived.over
        return _ENDS.get(self.last_over, WorkloadOutcome.STOPPED) if over is None and self.left else over

    @property
    def submitted_s(self) -> float:
        """Return the time of its creation; 0 if that isn't known."""
        return 0.0 if self.head is None else self.head.submitted_s

    @property
    def priority(self) -> int:
        """Its priority by its class, or else by its type; no higher than its project allows."""
        requested = self.priority_asked
        return requested if self.priority_most is None else min(requested, self.priority_most)

    @property
    def priority_asked(self) -> int:
        """The priority of its class, or else of its type."""
        assert self.head is not None
        type_ = self.head.annotations.type or self.head.derived.type
        return DEFAULT_PRIORITY[type_] if self.head.priority is None else self.head.priority

    @property
    def is_preemptible(self) -> bool:
        """Return True if it says so, or else its priority does."""
        assert self.head is not None
        stated = self.head.annotations.preemptible
        return self.priority < PREEMPTIBLE_BELOW if stated is None else stated

    @property
    def is_short(self) -> bool:
        """Return True if some of its pods have a place, and fewer than it needs."""
        return 0 < sum(tracked.holds and not tracked.stopping for tracked in self.pods()) < self.needed

    def note_shortness(self, now_s: float) -> None:
        """Remember since when it is short of pods, or that it isn't."""
        self.short_since_s = (self.short_since_s or now_s) if self.is_short else 0.0

    @property
    def is_schedulable(self) -> bool:
        """True if control is to be told of it."""
        if self.head is None or self.project is None or self.newer:
            return False
        return self.count > 0 and (self.is_over() is None or any(each.holds for each in self.pods()))

    def next_start(self) -> int:
        """Return a number that no start of it has had."""
        self.starts = max(self.starts, self.life.starts, self.life.settled) + 1
        return self.starts

    def set_nomination(self, nomination: Nominated | None) -> None:
        """Set or clear the nomination. Control ordered it and needs no fact of it."""
        self.nomination, self.nomination_reported = nomination, True

    def remember(self, status: WorkloadProgress) -> None:
        """Keep the status that control wants kept."""
        self.life = replace(status)
        self.starts = max(self.starts, status.starts)
