"""What is known of the cluster, and what of it control hasn't been told yet.

A state machine without a clock, a thread or a connection: changes of objects go in (`see`), facts come out
(`facts`). Nothing depends on the order in which different objects are heard of: what a pod comes to is read
from all that is known at the moment of telling, and what is told is the difference to what was told before.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

from weir.control.port import Exit, Fact, Finished
from weir.kubernetes.api.objects import KubeNode, Metadata, Namespace, Pod
from weir.kubernetes.api.reflector import Change
from weir.kubernetes.own.own_objects import WRITTEN_KEY, QueueThing, WorkloadThing
from weir.kubernetes.own.without_project import IGNORE, WithoutProject
from weir.kubernetes.picture.allocations import annotated
from weir.kubernetes.picture.budgets import Budgets
from weir.kubernetes.picture.estate import Estate
from weir.kubernetes.picture.gangs import Gang
from weir.kubernetes.picture.gathering import Gathering, Reading, seconds_of
from weir.kubernetes.picture.intake import Intake
from weir.kubernetes.picture.nodes import Ground, Ours, held_of
from weir.kubernetes.picture.overcommit import OvercommittedNodes
from weir.kubernetes.picture.owner_fate import owner_fate
from weir.kubernetes.picture.roll import Roll
from weir.kubernetes.picture.seen import Origin, Seen, is_ready, placed_s, scheduled_s
from weir.kubernetes.picture.unreadable import QUARANTINED, UnreadableObjects, held_roughly, rough
from weir.kubernetes.reading.kinds import Kinds
from weir.kubernetes.reading.requests import Devices, unstated_in_use
from weir.state.events import End, Place, PodKey, StopRefused

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


class Picture:
    """All that is known."""

    def __init__(
        self,
        kinds: Kinds,
        devices: Devices,
        scheduler: str = "weir",
        without_project: WithoutProject = IGNORE,
    ) -> None:
        self.scheduler = scheduler
        self.ground = Ground(devices)
        self.estate = Estate(without_project)
        self.gathering = Gathering(kinds, devices)
        self.budgets = Budgets(self.gathering.labels)
        self.roll = Roll(self.estate, self.ground)
        self.overcommitted = OvercommittedNodes(self.ground)
        self.unreadable = UnreadableObjects()
        self._seen: dict[str, Seen] = {}
        self._shapes: dict[Any, Any] = {}
        self._due: list[tuple[float, int, str]] = []
        self._moving: dict[str, float] = {}  # pods that start or stop since we said so, by time
        self._now_s = 0.0
        self._later: list[Fact] = []  # to be told with the next facts
        self._unstated: frozenset[str] = frozenset()  # what was ever asked for of which nodes say nothing
        self._no_shares = ""  # why shares are refused, as the pods were read
        self._unplaced: set[Gang] = set()  # with pods on nodes that aren't known
        sees: dict[str, Callable[[str, Any], None]] = {
            "pods": self._pod,
            "nodes": self._node,
            "namespaces": self._namespace,
            "priorityclasses": self.gathering.see_priority,
            "persistentvolumeclaims": self._claim,
            "persistentvolumes": self.gathering.see_volume,
            "storageclasses": self.gathering.see_storage_class,
            "csinodes": lambda name, node: self.ground.limit(name, self.gathering.see_drivers(name, node)),
            "departments": lambda name, thing: self._queue("Department", name, thing),
            "projects": lambda name, thing: self._queue("Project", name, thing),
            "topologies": lambda name, thing: self._queue("Topology", name, thing),
            "workloads": self._workload,
            "poddisruptionbudgets": self.budgets.see,
        }
        self._intake = Intake(sees, self.ground, self.gathering, self.unreadable, self._drop)

    # What is seen

    def see(self, resource: str, changes: Iterable[Change[Any]], now_s: float) -> None:
        """Objects of one resource are there, changed or gone. One that can't be taken in costs no other."""
        self._now_s = max(self._now_s, now_s)
        self._intake.take(resource, changes)

    def see_owners(self, changes: Iterable[Change[Any]], now_s: float) -> None:
        """Objects that make pods, as `Kinds.narrow` leaves them."""
        self._now_s = max(self._now_s, now_s)
        self._intake.take_owners(changes)
        owners = self.gathering.owners
        empty = (gang for gang in self.roll.owned_by(owners.news) if not gang.count)
        self.roll.dirty.update(dict.fromkeys(empty))
        owners.news.clear()

    def _drop(self, key: str) -> None:
        """A pod can't be taken in: nothing is left of what was known of it."""
        seen = self._seen.pop(key, None)
        try:
            if seen is not None and seen.gang is not None:
                self._leaves(seen, Exit.LOST)
        finally:
            self.gathering.drop(key)

    def _node(self, name: str, node: KubeNode | None) -> None:
        if node is None:
            self.ground.gone(name)
            self.unreadable.clear("nodes", name)
            for key in self.ground.ours_on(name):
                gang = self._seen[key].gang
                if gang is not None:
                    self.roll.dirty[gang] = None
        else:
            before = self.ground.node(name)
            mistakes = self.ground.set(node)
            if mistakes:
                self.unreadable.note("nodes", name, node.metadata.uid, "; ".join(mistakes))
            else:
                self.unreadable.clear("nodes", name)
            now = self.ground.node(name)
            self.gathering.see_resources(() if now is None else now.capacity)
            if before is not None and now is not None and before.gpus != now.gpus:
                self._devices_came(name)
            for gang in self._unplaced:
                self.roll.dirty[gang] = None
            self._unplaced.clear()

    def _devices_came(self, node: str) -> None:
        """Pods that hold fewer devices than they request may have more of them now."""
        for key in self.ground.ours_on(node):
            seen = self._seen[key]
            if not seen.bound or seen.gang is None or seen.reading is None:
                continue
            if len(seen.devices) < seen.reading.request.devices:
                seen.gang.exits(seen, self._now_s, Exit.LOST, "Its node has other devices now.")
                seen.settled, seen.origin, seen.start = False, None, 0
                self.roll.dirty[seen.gang] = None

    def _namespace(self, name: str, namespace: Namespace | None) -> None:
        self.gathering.see_namespace(name, namespace)
        self.estate.see_namespace(name, None if namespace is None else namespace.metadata.labels)

    def _claim(self, key: str, claim: Any) -> None:
        namespace, _, name = key.partition("/")
        self.gathering.see_claim(namespace, name, claim)

    def _queue(self, kind: str, name: str, thing: QueueThing | None) -> None:
        created = 0.0 if thing is None else seconds_of(thing.metadata.creation_timestamp)
        self.estate.see(kind, name, thing, created)

    def _workload(self, key: str, thing: WorkloadThing | None) -> None:
        if thing is not None:
            thing.written = thing.metadata.annotations.get(WRITTEN_KEY, "")
            thing.uid = thing.metadata.uid
            thing.metadata = _NAMELESS  # its key says it all
        self.roll.see(key, thing)
        gang = self.roll.named.get(key)
        if gang is not None:
            self.roll.changed[gang] = None
            if gang.project is None and any(seen.holds for seen in gang.pods()):
                self.roll.dirty[gang] = None  # its object says which project it was started for

    def _pod(self, key: str, pod: Pod | None) -> None:
        if pod is not None and pod.spec.scheduler_name != self.scheduler:
            self._pod_of_others(key, pod)
            return
        seen = self._seen.get(key)
        if seen is not None and (pod is None or pod.metadata.uid != seen.uid):
            self._pod_gone(seen)
            seen = None
        if pod is None:
            self.ground.foreign(key, None)
            self.gathering.forget_marks(key)
            self.gathering.forget_other(key)
            return
        meta = pod.metadata
        if seen is None:
            seen = self._seen[key] = Seen(key, meta.uid, meta.name, seconds_of(meta.creation_timestamp))
        seen.phase, seen.ready = pod.status.phase, is_ready(pod)
        seen.deleting = meta.deletion_timestamp is not None
        if seen.phase != "Pending" and not seen.evicted:
            self._moving.pop(key, None)
        if pod.spec.node_name and not seen.over:
            self._bound(seen, pod)
        if seen.phase in _OVER and not seen.over:
            seen.over = seen.phase
            self._leaves(seen, Exit.STOPPED if seen.evicted else Exit.LOST)
            self.ground.foreign(key, None)
        if self.gathering.see(key, pod, over=bool(seen.over)):
            if seen.reading is None or seen.reading.wait or seen.gang is None:
                self.gathering.stale.add(key)
            else:
                self.roll.dirty[seen.gang] = None

    def _pod_of_others(self, key: str, pod: Pod) -> None:
        self.gathering.see_other(key, pod)
        if not pod.spec.node_name or pod.status.phase in _OVER:
            self.ground.foreign(key, None)
            self.gathering.forget_marks(key)
            return
        marks, attached = self.gathering.see_foreign(key, pod)
        held = held_of(pod, self.gathering.devices, marks, attached, self._once)
        self.ground.foreign(key, held)

    def _once(self, value: Any) -> Any:
        """The same value, but one object of it."""
        if len(self._shapes) > SHAPES_MOST:
            self._shapes.clear()
        return self._shapes.setdefault(value, value)

    def _bound(self, seen: Seen, pod: Pod) -> None:
        """The API says where it is."""
        if seen.bound:
            return
        node = self._once(pod.spec.node_name)
        claimed = annotated(pod)
        if seen.assumed and (seen.node != node or (claimed is not None and claimed.start != seen.asked)):
            assert seen.gang is not None
            seen.gang.exits(seen, self._now_s, Exit.LOST, f"Somebody else bound it to {node}.")
            seen.assumed = False
        if not seen.assumed:
            seen.claimed, seen.origin, seen.settled = claimed, None, False
            seen.start, seen.devices = 0, ()
            seen.at_s = self._now_s if seen.gang is not None else scheduled_s(pod)
        elif abs((at_s := placed_s(pod)) - seen.at_s) < SKEW_S_MOST:
            seen.at_s = at_s  # a control that begins later says the same of it
        seen.bound, seen.assumed, seen.node = True, False, node
        seen.back_at_s = seen.back_s = 0.0

    def _pod_gone(self, seen: Seen) -> None:
        del self._seen[seen.key]
        self.budgets.withdrawn(seen)
        if seen.unreadable:
            self.unreadable.clear("pods", seen.key)
        gang = seen.gang or self._gang_of_over(seen)
        self._leaves(seen, Exit.STOPPED if seen.evicted else Exit.LOST)
        if gang is not None and seen.over:
            gang.succeeded.discard(seen.key)
            self.roll.dirty[gang] = None
        self.ground.foreign(seen.key, None)
        self.gathering.forget(seen.key)

    def _gang_of_over(self, seen: Seen) -> Gang | None:
        return None if seen.reading is None else self.roll.gangs.get(seen.reading.gang)

    def _leaves(self, seen: Seen, how: Exit) -> None:
        """A pod holds nothing any more, and is no part of what is to be placed."""
        gang = seen.gang
        if gang is None:
            return
        self._moving.pop(seen.key, None)
        gang.leave(seen, self._now_s, how)
        stopped = seen.over == "Failed" and seen.stopping
        gang.last_over = "" if stopped else seen.over
        gang.backoff.lose(seen, self._now_s)
        seen.assumed = False
        self.ground.ours(seen.key, None)
        self._emptied(gang)
        self.roll.dirty[gang] = None

    def _emptied(self, gang: Gang) -> None:
        if not gang.count and gang.empty_since_s is None:
            gang.empty_since_s = self._now_s
            self._look_again(self._now_s + EMPTY_S, gang.name)

    # What follows

    def facts(self, now_s: float) -> list[Fact]:
        """What control doesn't know yet."""
        self._now_s = max(self._now_s, now_s)
        self._come_due()
        self._settle_devices()
        if self.estate.changed:
            self.estate.settle()
            self.roll.dirty.update(dict.fromkeys(self.roll.gangs.values()))
        self._read_stale()
        for key in self.gathering.remarked:
            self.ground.remark(key, *map(self._once, self.gathering.of_others(key)))
        self.gathering.remarked.clear()
        touched = self.gathering.take_touched(self.roll.namespaces)
        self.roll.dirty.update(dict.fromkeys(self.roll.owned_by(touched)))
        self.roll.dirty.update(dict.fromkeys(self.budgets.stale(self.roll.gangs.values(), self._now_s)))
        facts, self._later = self._later, []
        for gang in list(self.roll.dirty):
            self.roll.give_name(gang)
        dirty = sorted(self.roll.dirty, key=lambda gang: (not gang.newer, gang.name))
        self.roll.dirty.clear()
        facts += self._each(dirty, self._find_members)
        facts += self._each(dirty, self.roll.choose_project)
        try:
            self.roll.settle(dirty)
        except Exception:  # noqa: BLE001 - the one it is because of is found, and left out
            facts += self._each(dirty, lambda gang: self.roll.settle([gang]))
        self._unstated |= unstated_in_use(group.request for gang in dirty for group in gang.groups)
        self.ground.use_unstated(self._unstated)
        facts += self.ground.facts()
        for node in self.overcommitted.update(self._now_s):
            gangs = (self._seen[key].gang for key in self.ground.ours_on(node))
            self.roll.changed.update(dict.fromkeys(gang for gang in gangs if gang is not None))
        self._judge(dirty)
        used = set(self.roll.projects)
        told = self._each(dirty, self._tell)
        facts += self.estate.facts(used | set(self.roll.projects))
        self.roll.changed.update(dict.fromkeys(dirty))
        return facts + told + self.budgets.facts(dirty)

    def _judge(self, gangs: Iterable[Gang]) -> None:
        """Find out which workloads their disruption budgets make non-preemptible."""
        for gang in gangs:
            ends_s = self.budgets.judge(gang, self._now_s)
            if ends_s is not None:
                self._look_again(ends_s, gang.name)

    def _find_members(self, gang: Gang) -> None:
        gang.members = self.gathering.members(gang.key)

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
        gang.untold()
        self.roll.count_project(gang)
        self.roll.dirty[gang] = None
        return [Finished(gang.name, End.STOPPED, self._now_s)] if told else []

    def leave_out(self, gang: Gang, why: Exception) -> None:
        """Tell control that a workload is over whose orders can't be carried out."""
        self._later += self.quarantine(gang, why)

    def retell(self) -> None:
        """Forget what control was told: it starts again."""
        self.ground.retell()
        self.estate.retell()
        self.budgets.retell()
        self._later.clear()
        for gang in self.roll.gangs.values():
            gang.untold()
            gang.promised = None  # its object says so, if it still is
            self.roll.recollect(gang)
            self.roll.unsettle(gang)
            self.roll.dirty[gang] = None

    @property
    def due_s(self) -> float | None:
        """When to ask for facts though nothing is seen."""
        if self.roll.dirty or self.gathering.stale or self.ground.no_shares != self._no_shares:
            return self._now_s
        return self._due[0][0] if self._due else None

    def _come_due(self) -> None:
        while self._due and self._due[0][0] <= self._now_s:
            _, _, key = heappop(self._due)
            seen = self._seen.get(key)
            if seen is not None and seen.back_at_s and seen.back_at_s <= self._now_s:
                seen.back_at_s = 0.0
                if seen.gang is not None:
                    self.roll.dirty[seen.gang] = None
            if seen is not None and seen.assumed and 0 < seen.doubted_s <= self._now_s:
                self.refused(seen, seen.asked, "Nobody knows whether it was bound.", self._now_s)
            gang = self.roll.named.get(key)
            if gang is not None and gang.empty_since_s is not None:
                self.roll.dirty[gang] = None

    def _look_again(self, at_s: float, key: str) -> None:
        heappush(self._due, (at_s, len(self._due), key))

    def _settle_devices(self) -> None:
        before, present = self.gathering.devices, self.ground.present
        if len(present) <= 1 and len(before.present) <= 1:
            present = before.present
        self._no_shares = self.ground.no_shares
        self.gathering.set_devices(replace(before, present=present, no_shares=self._no_shares))

    def _read_stale(self) -> None:
        """Read pods anew, and bring them to where they belong."""
        stale, self.gathering.stale = self.gathering.stale, set()
        moving: list[tuple[Seen, Gang]] = []
        for seen in sorted([self._seen[key] for key in stale], key=attrgetter("created_s", "key")):
            try:
                self._read(seen, moving)
            except Exception as error:  # noqa: BLE001 - the others have to be read
                self._set_aside(seen, error)
        for left in dict.fromkeys(seen.gang for seen, _ in moving if seen.gang is not None):
            left.regroup()
        moving = [(seen, gang) for seen, gang in moving if self._moves_out(seen)]
        for seen, gang in moving:  # after all have left, so that they find the groups free that they left
            self._move_in(seen, gang)

    def _read(self, seen: Seen, moving: list[tuple[Seen, Gang]]) -> None:
        key = seen.key
        before, reading = seen.reading, self.gathering.read(key, bound=seen.bound, over=bool(seen.over))
        reading = seen.reading = self.roll.as_bound(seen, reading)
        gang = self._gang_of(reading)
        if seen.unreadable:
            seen.unreadable = ""
            self.unreadable.clear("pods", key)
            self.ground.foreign(key, None)
        if seen.over:
            if seen.over == "Succeeded":
                gang.succeeded.add(key)
                self.roll.dirty[gang] = None
            gang.last_over = gang.last_over or seen.over
            gang.head = reading
            return
        if (
            seen.gang is not gang
            or before is None
            or before.request != reading.request
            or (before.derived.role != reading.derived.role)
        ):
            moving.append((seen, gang))
        gang.head = reading  # the one read last: all are read by the same owners
        self.roll.dirty[gang] = None

    def _set_aside(self, seen: Seen, error: Exception) -> None:
        """A pod can't be read: it isn't placed, and where it is bound its devices count as another's."""
        seen.unreadable = self.unreadable.note("pods", seen.key, seen.uid, error)
        if seen.gang is not None:
            self._leaves(seen, Exit.LOST)
        seen.reading, seen.settled = None, False
        if seen.bound and not seen.over:
            body = rough(self.gathering.pod(seen.key).spec, seen.node, seen.phase)
            self.ground.foreign(seen.key, held_roughly(body, seen.node, self.gathering.devices))

    def _moves_out(self, seen: Seen) -> bool:
        """Take a pod out of where it doesn't belong any more; return False if it stays."""
        reading, gang = seen.reading, seen.gang
        assert reading is not None
        if gang is None:
            return True
        group = gang.groups[seen.group]
        if (
            gang.key == reading.gang
            and group.role == reading.derived.role
            and group.request == reading.request
        ):
            return False
        self.roll.dirty[gang] = None
        if seen.told:
            gang.leave(seen, self._now_s, Exit.LOST, "It is something else now.")
            seen.start = 0
        else:
            gang.leave(seen, self._now_s, Exit.LOST)
        if seen.bound:
            seen.settled = False  # its devices have to fit what it requests now
        self._emptied(gang)
        if not gang.count and gang.key != reading.gang and not gang.starts:
            gang.empty_since_s = _NEVER_WAS_S  # its owners weren't all known
        return True

    def _move_in(self, seen: Seen, to: Gang) -> None:
        assert seen.reading is not None
        to.join(seen, seen.reading)
        to.empty_since_s, to.left = None, False

    def _gang_of(self, reading: Reading) -> Gang:
        gang = self.roll.of(reading)
        if not gang.count:
            self._emptied(gang)
        return gang

    def _tell(self, gang: Gang) -> Sequence[Fact]:
        if gang.count:
            gang.empty_since_s = None
        elif gang.empty_since_s is not None:
            self._see_owner_of(gang, self._now_s >= gang.empty_since_s + EMPTY_S)
        if gang.promised is None and not gang.room_told:
            gang.promised = self.roll.room_kept(gang, self._now_s, self._is_stopping)
        facts = gang.tell(self._now_s, self.ground)
        self.roll.count_project(gang)
        if gang.told is not None and any(seen.holds and not seen.told for seen in gang.pods()):
            self._unplaced.add(gang)
        if not gang.count and not gang.succeeded and gang.told is None and (gang.left or gang.is_over()):
            self.roll.forget(gang)
            self.budgets.forget(gang)
            if gang.quarantined:
                self.unreadable.clear(QUARANTINED, gang.name)
        return facts

    def _see_owner_of(self, gang: Gang, is_late: bool) -> None:
        """Find out whether a workload without pods is over."""
        if gang.empty_since_s == _NEVER_WAS_S:
            gang.left = True
            return
        key, owners = gang.key, self.gathering.owners
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
        seen = self._seen.get(key)
        return seen is not None and seen.stopping

    # What becomes of what control orders

    def moving(self, now_s: float) -> int:
        """How many pods have been told to start or to stop a moment ago, and don't run yet or still do."""
        moving = self._moving
        while moving:
            key = next(iter(moving))
            if moving[key] > now_s - MOVES_S:
                break
            del moving[key]
        return len(moving)

    def _moves(self, seen: Seen, now_s: float) -> None:
        self._moving.pop(seen.key, None)  # it goes to the end: they stand in order of time
        self._moving[seen.key] = now_s

    def stops(self, seen: Seen, now_s: float, *, by_plan: bool = True) -> None:
        """A pod is to be evicted, by a plan or for its own sake."""
        self.budgets.ordered(seen, by_plan=by_plan)
        seen.evicted = seen.told_stopping = True
        self._moves(seen, now_s)

    def assume(self, seen: Seen, place: Place, start: int, now_s: float) -> Ours:
        """A pod is to be bound: it holds its place from now on."""
        assert seen.gang is not None
        assert seen.reading is not None
        seen.assumed, seen.node, seen.devices = True, place.node, place.devices
        seen.asked = seen.start = seen.told = start
        seen.settled, seen.origin = True, Origin.WEIR
        seen.doubted_s = 0.0
        seen.told_stopping, seen.at_s = False, now_s
        seen.gang.starts = max(seen.gang.starts, start)
        if seen.gang.told is not None and not (seen.gang.told.preemptible or seen.gang.protected):
            seen.gang.granted = True
        ours = Ours(place.node, seen.reading.request, place.devices)
        self.ground.ours(seen.key, ours)
        self._moves(seen, now_s)
        self.roll.changed[seen.gang] = None
        return ours

    def refused(self, seen: Seen, start: int, sentence: str, now_s: float, *, again: bool = False) -> None:
        """It could not be bound. It is tried again after a while; `again`: at once."""
        if not seen.assumed or seen.asked != start or seen.gang is None:
            return
        self._now_s = max(self._now_s, now_s)
        seen.gang.exits(seen, now_s, Exit.LOST, sentence)
        seen.assumed, seen.node, seen.devices = False, "", ()
        seen.settled, seen.origin = False, None
        self._moving.pop(seen.key, None)
        self.ground.ours(seen.key, None)
        seen.back_s = 0.0 if again else min(BACK_MOST_S, max(BACK_FIRST_S, 2 * seen.back_s))
        if seen.back_s:
            seen.back_at_s = now_s + seen.back_s
            self._look_again(seen.back_at_s, seen.key)
        self.roll.dirty[seen.gang] = None

    def doubt(self, seen: Seen, start: int, now_s: float) -> None:
        """Nobody knows whether it was bound: that is seen, or after a while it is tried again."""
        if seen.assumed and seen.asked == start:
            seen.doubted_s = now_s + DOUBT_S
            self._look_again(seen.doubted_s, seen.key)

    def stop_refused(self, seen: Seen, by: str | None, sentence: str, now_s: float) -> None:
        """A plan had it evicted, and that was refused: it runs on, and control chooses again."""
        gang = seen.gang
        if not seen.evicted or seen.deleting or gang is None:
            return
        self._look_again(self.budgets.refused(seen, now_s), gang.name)
        seen.evicted = seen.told_stopping = False
        self._moving.pop(seen.key, None)
        self._later.append(StopRefused(PodKey(gang.name, seen.group, seen.index), now_s, sentence, by))
        self.roll.dirty[gang] = None

    def not_stopped(self, seen: Seen, now_s: float) -> None:
        """It could not be told to stop: it runs on, as if it had just been started."""
        if seen.evicted and seen.gang is not None:
            seen.evicted = False
            self.budgets.withdrawn(seen)
            self._moving.pop(seen.key, None)
            seen.gang.exits(seen, now_s, Exit.LOST, "It could not be told to stop.")
            seen.start = seen.gang.next_start()
            self.roll.dirty[seen.gang] = None
