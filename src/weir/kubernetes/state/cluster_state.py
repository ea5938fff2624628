"""State of the cluster, and the part of it that control hasn't been told yet.

A state machine without a clock, a thread or a connection: changes of objects go in (`see`), facts come out
(`facts`). Nothing depends on the order of changes of different objects: a pod is resolved from everything
known at that moment, and the facts are the difference to the facts before.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

from weir.control.port import Fact, PodExit, WorkloadFinished
from weir.kubernetes.api.changes import Change
from weir.kubernetes.api.objects import KubeNode, KubePod, Metadata, Namespace
from weir.kubernetes.crd.objects import WRITTEN_KEY, QuotaObject, WorkloadObject
from weir.kubernetes.crd.without_project import IGNORE, WithoutProject
from weir.kubernetes.state.allocations import annotated
from weir.kubernetes.state.budgets import Budgets
from weir.kubernetes.state.gang_facts import forget_facts, new_facts
from weir.kubernetes.state.gangs import Gang
from weir.kubernetes.state.intake import Intake
from weir.kubernetes.state.node_states import NodeStates
from weir.kubernetes.state.node_usage import PodUsage, foreign_usage
from weir.kubernetes.state.overcommit import OvercommittedNodes
from weir.kubernetes.state.owner_fate import owner_fate
from weir.kubernetes.state.pod_info import PodInfo, seconds_of
from weir.kubernetes.state.pod_resolver import PodResolver
from weir.kubernetes.state.quota_objects import QuotaObjects
from weir.kubernetes.state.tracked_pod import AllocationOrigin, TrackedPod, is_ready, placed_s, scheduled_s
from weir.kubernetes.state.unreadable import QUARANTINED, UnreadableObjects, held_roughly, rough
from weir.kubernetes.state.workload_registry import WorkloadRegistry
from weir.kubernetes.translate.kinds import WorkloadKinds
from weir.kubernetes.translate.requests import DeviceResources, unstated_in_use
from weir.state.events import Placement, PodKey, StopRefused, WorkloadOutcome

EMPTY_S = 60.0
"""A workload without a pod is over after this time if its owner doesn't say whether more will come."""
_NEVER_WAS_S = -1.0
"""In place of that time: its pods turned out to be those of another workload."""
DOUBT_S = 30.0
MOVES_S = 30.0
"""A pod that starts or stops for longer hangs: nothing waits for it any more."""
BACK_FIRST_S, BACK_MOST_S = 0.2, 30.0
SHAPES_MOST = 50_000
_NAMELESS = Metadata("")
_OVER = ("Succeeded", "Failed")
SKEW_S_MOST = 60.0
"""A time of the API that is further from our own of the same moment isn't believed: a clock was set."""


class ClusterState:
    """State of one cluster."""

    def __init__(
        self,
        kinds: WorkloadKinds,
        devices: DeviceResources,
        scheduler: str = "weir",
        without_project: WithoutProject = IGNORE,
    ) -> None:
        self.scheduler = scheduler
        self.node_states = NodeStates(devices)
        self.quota_objects = QuotaObjects(without_project)
        self.resolver = PodResolver(kinds, devices)
        self.budgets = Budgets(self.resolver.labels)
        self.registry = WorkloadRegistry(self.quota_objects, self.node_states)
        self.overcommitted = OvercommittedNodes(self.node_states)
        self.unreadable = UnreadableObjects()
        self._seen: dict[str, TrackedPod] = {}
        self._shapes: dict[Any, Any] = {}
        self._due: list[tuple[float, int, str]] = []
        self._moving: dict[str, float] = {}  # pods that start or stop since we said so, by time
        self._now_s = 0.0
        self._later: list[Fact] = []  # to be told with the next facts
        self._unstated: frozenset[str] = frozenset()  # what was ever asked for of which nodes say nothing
        self._no_shares = ""  # why shares are refused, as the pods were read
        self._adopts = True  # objects may tell of workloads whose pods were gone before control began
        self._unplaced: set[Gang] = set()  # with pods on nodes that aren't known
        sees: dict[str, Callable[[str, Any], None]] = {
            "pods": self._pod,
            "nodes": self._node,
            "namespaces": self._namespace,
            "priorityclasses": self.resolver.see_priority,
            "persistentvolumeclaims": self._claim,
            "persistentvolumes": self.resolver.see_volume,
            "storageclasses": self.resolver.see_storage_class,
            "csinodes": lambda name, node: self.node_states.limit(
                name, self.resolver.see_drivers(name, node)
            ),
            "departments": lambda name, thing: self._queue("Department", name, thing),
            "projects": lambda name, thing: self._queue("Project", name, thing),
            "topologies": lambda name, thing: self._queue("Topology", name, thing),
            "workloads": self._workload,
            "poddisruptionbudgets": self.budgets.see,
        }
        self._intake = Intake(sees, self.node_states, self.resolver, self.unreadable, self._drop)

    # What is seen

    def see(self, resource: str, changes: Iterable[Change[Any]], now_s: float) -> None:
        """Objects of one resource are there, changed or gone. One that can't be taken in costs no other."""
        self._now_s = max(self._now_s, now_s)
        self._intake.take(resource, changes)

    def see_owners(self, changes: Iterable[Change[Any]], now_s: float) -> None:
        """Objects that make pods, as `Kinds.narrow` leaves them."""
        self._now_s = max(self._now_s, now_s)
        self._intake.take_owners(changes)
        owners = self.resolver.owners
        empty = (gang for gang in self.registry.owned_by(owners.news) if not gang.count)
        self.registry.dirty.update(dict.fromkeys(empty))
        owners.news.clear()

    def _drop(self, key: str) -> None:
        """Drop everything known of a pod that can't be taken in."""
        tracked = self._seen.pop(key, None)
        try:
            if tracked is not None and tracked.gang is not None:
                self._leaves(tracked, PodExit.LOST)
        finally:
            self.resolver.drop(key)

    def _node(self, name: str, node: KubeNode | None) -> None:
        if node is None:
            self.node_states.gone(name)
            self.unreadable.clear("nodes", name)
            for key in self.node_states.ours_on(name):
                gang = self._seen[key].gang
                if gang is not None:
                    self.registry.dirty[gang] = None
        else:
            before = self.node_states.node(name)
            mistakes = self.node_states.set(node)
            if mistakes:
                self.unreadable.note("nodes", name, node.metadata.uid, "; ".join(mistakes))
            else:
                self.unreadable.clear("nodes", name)
            now = self.node_states.node(name)
            self.resolver.see_resources(() if now is None else now.capacity)
            if before is not None and now is not None and before.gpus != now.gpus:
                self._devices_came(name)
            for gang in self._unplaced:
                self.registry.dirty[gang] = None
            self._unplaced.clear()

    def _devices_came(self, node: str) -> None:
        """Pods that hold fewer devices than they request may have more of them now."""
        for key in self.node_states.ours_on(node):
            tracked = self._seen[key]
            if not tracked.bound or tracked.gang is None or tracked.info is None:
                continue
            if len(tracked.devices) < tracked.info.request.devices:
                tracked.gang.exits(tracked, self._now_s, PodExit.LOST, "Its node has other devices now.")
                tracked.settled, tracked.origin, tracked.start = False, None, 0
                self.registry.dirty[tracked.gang] = None

    def _namespace(self, name: str, namespace: Namespace | None) -> None:
        self.resolver.see_namespace(name, namespace)
        self.quota_objects.see_namespace(name, None if namespace is None else namespace.metadata.labels)

    def _claim(self, key: str, claim: Any) -> None:
        namespace, _, name = key.partition("/")
        self.resolver.see_claim(namespace, name, claim)

    def _queue(self, kind: str, name: str, thing: QuotaObject | None) -> None:
        created = 0.0 if thing is None else seconds_of(thing.metadata.creation_timestamp)
        self.quota_objects.see(kind, name, thing, created)

    def _workload(self, key: str, thing: WorkloadObject | None) -> None:
        if thing is not None:
            thing.written = thing.metadata.annotations.get(WRITTEN_KEY, "")
            thing.uid = thing.metadata.uid
            thing.metadata = _NAMELESS  # its key says it all
        self.registry.see(key, thing)
        gang = self.registry.named.get(key)
        if gang is not None:
            self.registry.changed[gang] = None
            if gang.project is None and any(tracked.holds for tracked in gang.pods()):
                self.registry.dirty[gang] = None  # its object says which project it was started for

    def _pod(self, key: str, pod: KubePod | None) -> None:
        if pod is not None and pod.spec.scheduler_name != self.scheduler:
            self._pod_of_others(key, pod)
            return
        tracked = self._seen.get(key)
        if tracked is not None and (pod is None or pod.metadata.uid != tracked.uid):
            self._pod_gone(tracked)
            tracked = None
        if pod is None:
            self.node_states.foreign(key, None)
            self.resolver.forget_marks(key)
            self.resolver.forget_other(key)
            return
        meta = pod.metadata
        if tracked is None:
            tracked = self._seen[key] = TrackedPod(
                key, meta.uid, meta.name, seconds_of(meta.creation_timestamp)
            )
        tracked.phase, tracked.ready = pod.status.phase, is_ready(pod)
        tracked.deleting = meta.deletion_timestamp is not None
        if tracked.phase != "Pending" and not tracked.evicted:
            self._moving.pop(key, None)
        if pod.spec.node_name and not tracked.over:
            self._bound(tracked, pod)
        if tracked.phase in _OVER and not tracked.over:
            tracked.over = tracked.phase
            self._leaves(tracked, PodExit.STOPPED if tracked.evicted else PodExit.LOST)
            self.node_states.foreign(key, None)
        if self.resolver.see(key, pod, over=bool(tracked.over)):
            if tracked.info is None or tracked.info.wait or tracked.gang is None:
                self.resolver.stale.add(key)
            else:
                self.registry.dirty[tracked.gang] = None

    def _pod_of_others(self, key: str, pod: KubePod) -> None:
        self.resolver.see_other(key, pod)
        if not pod.spec.node_name or pod.status.phase in _OVER:
            self.node_states.foreign(key, None)
            self.resolver.forget_marks(key)
            return
        marks, attached = self.resolver.see_foreign(key, pod)
        held = foreign_usage(pod, self.resolver.devices, marks, attached, self._once)
        self.node_states.foreign(key, held)

    def _once(self, value: Any) -> Any:
        """Return one shared object for equal values."""
        if len(self._shapes) > SHAPES_MOST:
            self._shapes.clear()
        return self._shapes.setdefault(value, value)

    def _bound(self, tracked: TrackedPod, pod: KubePod) -> None:
        """Take in the node of a bound pod."""
        if tracked.bound:
            return
        node = self._once(pod.spec.node_name)
        claimed = annotated(pod)
        if tracked.assumed and (
            tracked.node != node or (claimed is not None and claimed.start != tracked.written_start)
        ):
            assert tracked.gang is not None
            tracked.gang.exits(tracked, self._now_s, PodExit.LOST, f"Another scheduler bound it to {node}.")
            tracked.assumed = False
        if not tracked.assumed:
            tracked.claimed, tracked.origin, tracked.settled = claimed, None, False
            tracked.start, tracked.devices = 0, ()
            tracked.at_s = self._now_s if tracked.gang is not None else scheduled_s(pod)
        elif abs((at_s := placed_s(pod)) - tracked.at_s) < SKEW_S_MOST:
            tracked.at_s = at_s  # a control that begins later says the same of it
        tracked.bound, tracked.assumed, tracked.node = True, False, node
        tracked.back_at_s = tracked.back_s = 0.0

    def _pod_gone(self, tracked: TrackedPod) -> None:
        del self._seen[tracked.key]
        self.budgets.withdrawn(tracked)
        if tracked.unreadable:
            self.unreadable.clear("pods", tracked.key)
        gang = tracked.gang or self._gang_of_over(tracked)
        self._leaves(tracked, PodExit.STOPPED if tracked.evicted else PodExit.LOST)
        if gang is not None and tracked.over:
            gang.succeeded.discard(tracked.key)
            self.registry.dirty[gang] = None
        self.node_states.foreign(tracked.key, None)
        self.resolver.forget(tracked.key)

    def _gang_of_over(self, tracked: TrackedPod) -> Gang | None:
        return None if tracked.info is None else self.registry.gangs.get(tracked.info.gang)

    def _leaves(self, tracked: TrackedPod, how: PodExit) -> None:
        """Release a pod's resources and take it out of its workload."""
        gang = tracked.gang
        if gang is None:
            return
        self._moving.pop(tracked.key, None)
        gang.leave(tracked, self._now_s, how)
        stopped = tracked.over == "Failed" and tracked.stopping
        gang.last_over = "" if stopped else tracked.over
        gang.backoff.lose(self._now_s, over=tracked.over, bound=tracked.bound, stopping=tracked.stopping)
        tracked.assumed = False
        self.node_states.ours(tracked.key, None)
        self._emptied(gang)
        self.registry.dirty[gang] = None

    def _emptied(self, gang: Gang) -> None:
        if not gang.count and gang.empty_since_s is None:
            gang.empty_since_s = self._now_s
            self._look_again(self._now_s + EMPTY_S, gang.name)

    # What follows

    def facts(self, now_s: float) -> list[Fact]:
        """Return the facts that control hasn't been told yet."""
        self._now_s = max(self._now_s, now_s)
        self._come_due()
        self._settle_devices()
        if self.quota_objects.changed:
            self.quota_objects.settle()
            self.registry.dirty.update(dict.fromkeys(self.registry.gangs.values()))
        self._read_stale()
        self._adopt()
        for key in self.resolver.remarked:
            self.node_states.remark(key, *map(self._once, self.resolver.of_others(key)))
        self.resolver.remarked.clear()
        touched = self.resolver.take_touched(self.registry.namespaces)
        self.registry.dirty.update(dict.fromkeys(self.registry.owned_by(touched)))
        self.registry.dirty.update(
            dict.fromkeys(self.budgets.stale(self.registry.gangs.values(), self._now_s))
        )
        facts, self._later = self._later, []
        for gang in list(self.registry.dirty):
            self.registry.give_name(gang)
        dirty = sorted(self.registry.dirty, key=lambda gang: (not gang.newer, gang.name))
        self.registry.dirty.clear()
        facts += self._each(dirty, self._find_members)
        facts += self._each(dirty, self.registry.choose_project)
        try:
            self.registry.settle(dirty)
        except Exception:  # noqa: BLE001 - the one it is because of is found, and left out
            facts += self._each(dirty, lambda gang: self.registry.settle([gang]))
        self._unstated |= unstated_in_use(group.request for gang in dirty for group in gang.groups)
        self.node_states.use_unstated(self._unstated)
        facts += self.node_states.facts()
        for node in self.overcommitted.update(self._now_s):
            gangs = (self._seen[key].gang for key in self.node_states.ours_on(node))
            self.registry.changed.update(dict.fromkeys(gang for gang in gangs if gang is not None))
        self._judge(dirty)
        used = set(self.registry.projects)
        told = self._each(dirty, self._tell)
        facts += self.quota_objects.facts(used | set(self.registry.projects))
        self.registry.changed.update(dict.fromkeys(dirty))
        return facts + told + self.budgets.facts(dirty)

    def _adopt(self) -> None:
        """Take on the workloads without pods that their objects tell of, once when control begins."""
        if self._adopts:
            self._adopts = False
            for gang in self.registry.adopt():
                self._emptied(gang)
                self.registry.dirty[gang] = None

    def _judge(self, gangs: Iterable[Gang]) -> None:
        """Find out which workloads their disruption budgets make non-preemptible."""
        protected = []
        for gang in gangs:
            ends_s = self.budgets.judge(gang, self._now_s)
            if ends_s is not None:
                self._look_again(ends_s, gang.name)
            gang.lapsed = False
            if gang.protected and self.budgets.protection_lapses:
                protected.append(gang)
        self.registry.judge_protected(protected)

    def _find_members(self, gang: Gang) -> None:
        gang.members = self.resolver.members(gang.key)

    def _each(self, gangs: Iterable[Gang], act: Callable[[Gang], Sequence[Fact] | None]) -> list[Fact]:
        """Do this with each workload; one with which it can't be done is left out from now on."""
        facts: list[Fact] = []
        for gang in gangs:
            try:
                facts += act(gang) or ()
            except Exception as error:  # noqa: BLE001 - the others have to be told of
                facts += self.quarantine(gang, error)
        return facts

    def quarantine(self, gang: Gang, why: str | Exception) -> list[Fact]:
        """Leave out a workload until it is gone: control can't be told of it.

        What it holds counts as another's.
        """
        told = gang.told is not None
        gang.quarantined = self.unreadable.note(QUARANTINED, gang.name, "", why)
        gang.project, gang.refusal = None, gang.quarantined
        forget_facts(gang)
        self.registry.count_project(gang)
        self.registry.dirty[gang] = None
        return [WorkloadFinished(gang.name, WorkloadOutcome.STOPPED, self._now_s)] if told else []

    def leave_out(self, gang: Gang, why: Exception) -> None:
        """Tell control that a workload is over whose orders can't be carried out."""
        self._later += self.quarantine(gang, why)

    def retell(self) -> None:
        """Forget what control was told: it starts again."""
        self.node_states.retell()
        self.quota_objects.retell()
        self.budgets.retell()
        self._later.clear()
        self._adopts = True
        for gang in self.registry.gangs.values():
            forget_facts(gang)
            gang.nomination = None  # its object says so, if it still is
            self.registry.recollect(gang)
            self.registry.unsettle(gang)
            self.registry.dirty[gang] = None

    @property
    def due_s(self) -> float | None:
        """Time of the next call of `facts` without a change; None if there is none."""
        if self.registry.dirty or self.resolver.stale or self.node_states.no_shares != self._no_shares:
            return self._now_s
        return self._due[0][0] if self._due else None

    def _come_due(self) -> None:
        while self._due and self._due[0][0] <= self._now_s:
            _, _, key = heappop(self._due)
            tracked = self._seen.get(key)
            if tracked is not None and tracked.back_at_s and tracked.back_at_s <= self._now_s:
                tracked.back_at_s = 0.0
                if tracked.gang is not None:
                    self.registry.dirty[tracked.gang] = None
            if tracked is not None and tracked.assumed and 0 < tracked.doubted_s <= self._now_s:
                self.refused(
                    tracked, tracked.written_start, "It is unknown if the pod was bound.", self._now_s
                )
            gang = self.registry.named.get(key)
            if gang is not None and gang.empty_since_s is not None:
                self.registry.dirty[gang] = None

    def _look_again(self, at_s: float, key: str) -> None:
        heappush(self._due, (at_s, len(self._due), key))

    def _settle_devices(self) -> None:
        before, present = self.resolver.devices, self.node_states.present
        if len(present) <= 1 and len(before.present) <= 1:
            present = before.present
        self._no_shares = self.node_states.no_shares
        self.resolver.set_devices(replace(before, present=present, no_shares=self._no_shares))

    def _read_stale(self) -> None:
        """Resolve pods again, and move them to their workloads."""
        stale, self.resolver.stale = self.resolver.stale, set()
        moving: list[tuple[TrackedPod, Gang]] = []
        for tracked in sorted([self._seen[key] for key in stale], key=attrgetter("created_s", "key")):
            try:
                self._read(tracked, moving)
            except Exception as error:  # noqa: BLE001 - the others have to be read
                self._set_aside(tracked, error)
        for left in dict.fromkeys(tracked.gang for tracked, _ in moving if tracked.gang is not None):
            left.regroup()
        moving = [(tracked, gang) for tracked, gang in moving if self._moves_out(tracked)]
        for tracked, gang in moving:  # after all have left, so that they find the groups free that they left
            self._move_in(tracked, gang)

    def _read(self, tracked: TrackedPod, moving: list[tuple[TrackedPod, Gang]]) -> None:
        key = tracked.key
        before, info = tracked.info, self.resolver.read(key, bound=tracked.bound, over=bool(tracked.over))
        info = tracked.info = self.registry.as_bound(tracked, info)
        gang = self._gang_of(info)
        if tracked.unreadable:
            tracked.unreadable = ""
            self.unreadable.clear("pods", key)
            self.node_states.foreign(key, None)
        if tracked.over:
            if tracked.over == "Succeeded":
                gang.succeeded.add(key)
                self.registry.dirty[gang] = None
            gang.last_over = gang.last_over or tracked.over
            gang.head = info
            return
        if (
            tracked.gang is not gang
            or before is None
            or before.request != info.request
            or (before.derived.role != info.derived.role)
        ):
            moving.append((tracked, gang))
        gang.head = info  # the one read last: all are read by the same owners
        self.registry.dirty[gang] = None

    def _set_aside(self, tracked: TrackedPod, error: Exception) -> None:
        """Set a pod aside that can't be read: it isn't placed, and its devices count as foreign usage."""
        tracked.unreadable = self.unreadable.note("pods", tracked.key, tracked.uid, error)
        if tracked.gang is not None:
            self._leaves(tracked, PodExit.LOST)
        tracked.info, tracked.settled = None, False
        if tracked.bound and not tracked.over:
            body = rough(self.resolver.pod(tracked.key).spec, tracked.node, tracked.phase)
            self.node_states.foreign(tracked.key, held_roughly(body, tracked.node, self.resolver.devices))

    def _moves_out(self, tracked: TrackedPod) -> bool:
        """Take a pod out of where it doesn't belong any more; return False if it stays."""
        info, gang = tracked.info, tracked.gang
        assert info is not None
        if gang is None:
            return True
        group = gang.groups[tracked.group]
        if gang.key == info.gang and group.role == info.derived.role and group.request == info.request:
            return False
        self.registry.dirty[gang] = None
        if tracked.told:
            gang.leave(tracked, self._now_s, PodExit.LOST, "It is something else now.")
            tracked.start = 0
        else:
            gang.leave(tracked, self._now_s, PodExit.LOST)
        if tracked.bound:
            tracked.settled = False  # its devices have to fit what it requests now
        self._emptied(gang)
        if not gang.count and gang.key != info.gang and not gang.starts:
            gang.empty_since_s = _NEVER_WAS_S  # its owners weren't all known
        return True

    def _move_in(self, tracked: TrackedPod, to: Gang) -> None:
        assert tracked.info is not None
        to.join(tracked, tracked.info)
        to.empty_since_s, to.left, to.adopted = None, False, False

    def _gang_of(self, info: PodInfo) -> Gang:
        gang = self.registry.of(info)
        if not gang.count:
            self._emptied(gang)
        return gang

    def _tell(self, gang: Gang) -> Sequence[Fact]:
        if gang.count:
            gang.empty_since_s = None
        elif gang.empty_since_s is not None:
            self._see_owner_of(gang, self._now_s >= gang.empty_since_s + EMPTY_S)
        if not gang.nomination_told:  # what was nominated before may have gone to others since
            gang.nomination = self.registry.stored_nomination(gang, self._now_s, self._is_stopping)
        facts = new_facts(gang, self._now_s, self.node_states)
        self.registry.count_project(gang)
        if gang.told is not None and any(tracked.holds and not tracked.told for tracked in gang.pods()):
            self._unplaced.add(gang)
        if not gang.count and not gang.succeeded and gang.told is None and (gang.left or gang.is_over()):
            self.registry.forget(gang)
            self.budgets.forget(gang)
            if gang.quarantined:
                self.unreadable.clear(QUARANTINED, gang.name)
        return facts

    def _see_owner_of(self, gang: Gang, is_late: bool) -> None:
        """Find out whether a workload without pods is over."""
        if gang.empty_since_s == _NEVER_WAS_S:
            gang.left = True
            return
        key, owners = gang.key, self.resolver.owners
        fate = None
        if owners.is_watched(key.api_version, key.kind) and key.kind != "Pod":
            fate = owner_fate(key, owners.body(key.uid), owners.kinds, owners.below)
        if fate is None:
            suspended = gang.head is not None and gang.head.derived.suspended
            gang.left = gang.newer or key.kind == "Pod" or (is_late and not suspended)
            return
        if gang.head is not None and fate.exists:
            derived = replace(gang.head.derived, over=fate.over, suspended=fate.suspended)
            gang.head = replace(gang.head, derived=derived)
        waits = fate.exists and (fate.expects_pods or fate.suspended)
        gang.left = gang.newer or not fate.exists or (is_late and not waits)
        gang.awaits = gang.backoff.sentence(owners.body(key.uid), gang.needed) if fate.expects_pods else ""

    def _is_stopping(self, key: str) -> bool:
        tracked = self._seen.get(key)
        return tracked is not None and tracked.stopping

    # What becomes of what control orders

    def moving(self, now_s: float) -> int:
        """Return the number of pods that were just told to start or stop and haven't yet."""
        moving = self._moving
        while moving:
            key = next(iter(moving))
            if moving[key] > now_s - MOVES_S:
                break
            del moving[key]
        return len(moving)

    def _moves(self, tracked: TrackedPod, now_s: float) -> None:
        self._moving.pop(tracked.key, None)  # it goes to the end: they stand in order of time
        self._moving[tracked.key] = now_s

    def stops(self, tracked: TrackedPod, now_s: float, *, by_plan: bool = True) -> None:
        """Take in the order to evict a pod, by a plan or for its own sake."""
        self.budgets.ordered(tracked, by_plan=by_plan)
        tracked.evicted = tracked.told_stopping = True
        self._moves(tracked, now_s)

    def assume(self, tracked: TrackedPod, place: Placement, start: int, now_s: float) -> PodUsage:
        """Assume a pod's placement, because it is about to be bound."""
        assert tracked.gang is not None
        assert tracked.info is not None
        tracked.assumed, tracked.node, tracked.devices = True, place.node, place.devices
        tracked.written_start = tracked.start = tracked.told = start
        tracked.settled, tracked.origin = True, AllocationOrigin.WEIR
        tracked.doubted_s = 0.0
        tracked.told_stopping, tracked.at_s = False, now_s
        tracked.gang.starts = max(tracked.gang.starts, start)
        if tracked.gang.told is not None and not (tracked.gang.told.preemptible or tracked.gang.protected):
            tracked.gang.granted = True
        ours = PodUsage(place.node, tracked.info.request, place.devices)
        self.node_states.ours(tracked.key, ours)
        self._moves(tracked, now_s)
        self.registry.changed[tracked.gang] = None
        return ours

    def refused(
        self, tracked: TrackedPod, start: int, sentence: str, now_s: float, *, again: bool = False
    ) -> None:
        """Take in a refused binding. The pod is tried again after a while; `again`: at once."""
        if not tracked.assumed or tracked.written_start != start or tracked.gang is None:
            return
        self._now_s = max(self._now_s, now_s)
        tracked.gang.exits(tracked, now_s, PodExit.LOST, sentence)
        tracked.assumed, tracked.node, tracked.devices = False, "", ()
        tracked.settled, tracked.origin = False, None
        self._moving.pop(tracked.key, None)
        self.node_states.ours(tracked.key, None)
        tracked.back_s = 0.0 if again else min(BACK_MOST_S, max(BACK_FIRST_S, 2 * tracked.back_s))
        if tracked.back_s:
            tracked.back_at_s = now_s + tracked.back_s
            self._look_again(tracked.back_at_s, tracked.key)
        self.registry.dirty[tracked.gang] = None

    def doubt(self, tracked: TrackedPod, start: int, now_s: float) -> None:
        """Mark a pod whose binding has an unknown outcome: the pod shows it, or the binding is repeated."""
        if tracked.assumed and tracked.written_start == start:
            tracked.doubted_s = now_s + DOUBT_S
            self._look_again(tracked.doubted_s, tracked.key)

    def stop_refused(self, tracked: TrackedPod, by: str | None, sentence: str, now_s: float) -> None:
        """Take in the refusal of an eviction that a plan made: the pod runs on, and control chooses again."""
        gang = tracked.gang
        if not tracked.evicted or tracked.deleting or gang is None:
            return
        self._look_again(self.budgets.refused(tracked, now_s), gang.name)
        tracked.evicted = tracked.told_stopping = False
        self._moving.pop(tracked.key, None)
        self._later.append(StopRefused(PodKey(gang.name, tracked.group, tracked.index), now_s, sentence, by))
        self.registry.dirty[gang] = None

    def not_stopped(self, tracked: TrackedPod, now_s: float) -> None:
        """Take in that a pod could not be stopped: it runs on, as if it had just been started."""
        if tracked.evicted and tracked.gang is not None:
            tracked.evicted = False
            self.budgets.withdrawn(tracked)
            self._moving.pop(tracked.key, None)
            tracked.gang.exits(tracked, now_s, PodExit.LOST, "It could not be told to stop.")
            tracked.start = tracked.gang.next_start()
            self.registry.dirty[tracked.gang] = None
