"""The workloads there are: which one has a name, whose project it counts for, what its object remembers.

Two owners of one name follow one another, and the pods of the first may outlive it. Names go to one of them
at a time; what the other's pods still hold counts as what others hold.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from weir.control.port import EndWorkload, LifeCause, LifeRule
from weir.kubernetes.own.own_objects import WorkloadThing
from weir.kubernetes.picture.allocations import Records, is_sound, life_of, settle
from weir.kubernetes.picture.estate import Estate
from weir.kubernetes.picture.gangs import Gang, object_name
from weir.kubernetes.picture.gathering import GangKey, Reading, seconds_of, with_devices
from weir.kubernetes.picture.nodes import Ground, Held, Ours, amounts_of
from weir.kubernetes.picture.seen import Origin, Seen
from weir.kubernetes.picture.self_bound import NonPreemptibleUsage
from weir.kubernetes.reading.requests import has_unstated
from weir.model.workloads import Request
from weir.state.events import End, Place, PodKey, Promised

_PHASES = {"Succeeded": End.SUCCEEDED, "Failed": End.FAILED, "Stopped": End.STOPPED}
_VERDICTS = frozenset(rule.value for rule in LifeRule)


class Roll:
    """All workloads. `dirty` are those of which control may have to be told, `changed` people."""

    def __init__(self, estate: Estate, ground: Ground) -> None:
        self._estate = estate
        self._ground = ground
        self.gangs: dict[GangKey, Gang] = {}
        self.named: dict[str, Gang] = {}  # those that have their name
        self.dirty: dict[Gang, None] = {}
        self.changed: dict[Gang, None] = {}
        self.objects: dict[str, WorkloadThing] = {}  # the `Workload` objects there are
        self.projects: Counter[str] = Counter()  # of the workloads that control knows
        self.users: dict[str, dict[Gang, None]] = {}  # by project: workloads that aren't over
        self.uses_version = 0
        self._records: dict[str, Records] = {}  # the allocations in them
        self._namesakes: dict[str, list[Gang]] = {}
        self._by_owner: dict[str, list[Gang]] = {}
        self.namespaces: Counter[str] = Counter()  # of all workloads
        self._fixed = NonPreemptibleUsage()

    def see(self, name: str, thing: WorkloadThing | None) -> None:
        """A `Workload` object is there, new or changed; None: it is gone."""
        if thing is None:
            self.objects.pop(name, None)
            self._records.pop(name, None)
        else:
            self.objects[name] = thing
            self._records[name] = Records(
                thing.spec.owner.uid, {each.uid: each for each in thing.status.allocations}
            )

    def of(self, reading: Reading) -> Gang:
        """The workload of a pod that is read like this, made if it is new."""
        gang = self.gangs.get(reading.gang)
        if gang is None:
            gang = self.gangs[reading.gang] = Gang(reading.gang)
            gang.head = reading
            self._namesakes.setdefault(gang.name, []).append(gang)
            self._by_owner.setdefault(gang.key.uid, []).append(gang)
            self.namespaces[gang.key.namespace] += 1
            if gang.name not in self.named:
                self.named[gang.name] = gang
                self.recollect(gang)
        return gang

    def owned_by(self, uids: Iterable[str]) -> Iterator[Gang]:
        """Return the workloads of these owners."""
        for uid in uids:
            yield from self._by_owner.get(uid, ())

    def recollect(self, gang: Gang) -> None:
        """What its object remembers of it."""
        thing = self.objects.get(gang.name)
        if thing is None or thing.spec.owner.uid != gang.key.uid:
            return
        kept, why = thing.status.life, thing.status.reason
        gang.short_since_s = seconds_of(thing.status.short_since) if thing.status.short_since else 0.0
        gang.granted = gang.granted or any(not each.preemptible for each in thing.status.allocations)
        life = None if kept is None else life_of(kept)
        if life is not None and life.starts >= gang.life.starts:
            gang.remember(life)
        if why is not None and why.why in _VERDICTS:
            gang.verdict = _PHASES.get(thing.status.phase)
            if gang.verdict is not None and gang.ending is None:
                cause = LifeCause(LifeRule(why.why), why.sentence)
                at_s, ran_s = seconds_of(thing.status.ended_at), gang.life.ran_s
                gang.ending = EndWorkload(gang.name, gang.verdict, at_s, why.sentence, ran_s, cause=cause)

    def choose_project(self, gang: Gang) -> None:
        """Find out which project it counts for, or why for none."""
        wanted = self._choose_project(gang)
        uses = gang.uses if gang.quarantined else gang.project or wanted
        goes_on = gang.is_over() is None or any(seen.holds for seen in gang.pods())
        self._use(gang, uses if goes_on else None)

    def _use(self, gang: Gang, project: str | None) -> None:
        if project == gang.uses:
            return
        if gang.uses is not None:
            users = self.users[gang.uses]
            del users[gang]
            if not users:
                del self.users[gang.uses]
        if project is not None:
            self.users.setdefault(project, {})[gang] = None
        gang.uses = project
        self.uses_version += 1

    def _choose_project(self, gang: Gang) -> str | None:
        """Choose, and return the project that it names, or that its namespace has."""
        head = gang.head
        if head is None:
            return None
        if gang.quarantined:
            gang.project, gang.refusal, gang.topology = None, gang.quarantined, None
            return None
        project, refusal = self._estate.project_of(gang.key.namespace, head.said)
        wanted = project
        missing = self._estate.topology_missing(head.said)
        gang.topology = None if missing else head.said.topology
        if missing:
            project, refusal = None, missing
        holds = any(seen.holds for seen in gang.pods())
        held = gang.told is not None and holds
        if project is not None and not holds and (closing := self._estate.closing(project)):
            project, refusal = None, closing
        gang.refusal = refusal
        if project is None and gang.project is None and holds:
            project = self._started_for(gang)
        if not held or gang.project is None:
            if gang.told is None or project is None:
                gang.project = project
            elif project != gang.project:
                gang.project = None  # it leaves control under the one, and comes back under the other
                self.dirty[gang] = None
        return wanted

    def _started_for(self, gang: Gang) -> str | None:
        """The project that what runs counts for, as its object says, though nothing would start there now."""
        thing = self.objects.get(gang.name)
        if thing is None or thing.spec.owner.uid != gang.key.uid:
            return None
        return self._estate.project_left(thing.spec.project)

    def give_name(self, gang: Gang) -> None:
        """Of those with one name, the one whose owner is there has it, then the newest; others are over."""
        alike = self._namesakes.get(gang.name, ())
        if self.named.get(gang.name) is gang and len(alike) == 1:
            return
        best = max(alike, key=_claim_to_name, default=None)
        for each in alike:
            if each.newer != (each is not best):
                each.newer = each is not best
                self.dirty[each] = None
        if best is not None and self.named.get(gang.name) is not best:
            self.named[gang.name] = best
            self.recollect(best)

    def settle(self, gangs: Sequence[Gang]) -> None:
        """Find out which devices the bound pods of these workloads hold, and charge them."""
        known = [gang for gang in gangs if _is_known(gang)]
        settle(known, self._ground, self._records)
        for gang in gangs:
            self._charge(gang)
        queues = {queue.name: queue for queue in self._estate.tree.queues}
        self._fixed.judge(gangs, queues, self._ground)

    def as_bound(self, seen: Seen, reading: Reading) -> Reading:
        """Return a pod's reading with the devices it was bound with: annotations may say otherwise since."""
        if not seen.bound or seen.origin is Origin.POD:
            return reading
        before = seen.reading
        if seen.settled and before is not None:
            was = before.request
            reading = _without_new_resources(reading, was)
            return with_devices(reading, was.devices, was.share_milli, was.gpu_memory)
        records = self._records.get(f"{reading.gang.namespace}/{object_name(reading.gang)}")
        kept = None if records is None else records.of(reading.gang.uid).get(seen.uid)
        if kept is None or kept.self_bound or kept.node != seen.node or not is_sound(kept):
            return reading
        return with_devices(reading, len(kept.devices), kept.share, kept.memory)

    def unsettle(self, gang: Gang) -> None:
        """Another Weir may have decided meanwhile: all records count anew."""
        for seen in gang.pods():
            if seen.bound:
                seen.settled = False

    def _charge(self, gang: Gang) -> None:
        """Charge the pods' devices to the workload if control hears of it, else to the node as another's."""
        known = _is_known(gang)
        for seen in gang.pods():
            assert seen.reading is not None
            request = seen.reading.request
            if not seen.holds:
                self._ground.ours(seen.key, None)
            elif known:
                self._ground.ours(seen.key, Ours(seen.node, request, seen.devices))
            else:
                amounts = tuple(sorted(amounts_of(request)))
                self._ground.foreign(seen.key, Held(seen.node, amounts, request.devices, request.marks))

    def forget(self, gang: Gang) -> None:
        """There is nothing left of it."""
        if self.gangs.pop(gang.key, None) is None:
            return
        self._fixed.forget(gang)
        owned, namespace = self._by_owner[gang.key.uid], gang.key.namespace
        owned.remove(gang)
        if not owned:
            del self._by_owner[gang.key.uid]
        self.namespaces[namespace] -= 1
        if not self.namespaces[namespace]:
            del self.namespaces[namespace]
        self._use(gang, None)
        alike = self._namesakes[gang.name]
        alike.remove(gang)
        if self.named[gang.name] is gang:
            del self.named[gang.name]
        if alike:
            self.dirty[alike[0]] = None
        else:
            del self._namesakes[gang.name]

    def count_project(self, gang: Gang) -> None:
        """Which projects control knows workloads of."""
        project = None if gang.told is None else gang.told.project
        if project != gang.counted:
            if gang.counted is not None:
                self.projects[gang.counted] -= 1
                if not self.projects[gang.counted]:
                    del self.projects[gang.counted]
            if project is not None:
                self.projects[project] += 1
            gang.counted = project

    def room_kept(self, gang: Gang, now_s: float, stopping: Callable[[str], bool]) -> Promised | None:
        """The room that its object says is kept for it, if its pods still wait and it is free or gets so.

        The promise may have been written, and those who were to make room for it not yet told to.
        """
        thing = self.objects.get(gang.name)
        kept = None if thing is None or thing.spec.owner.uid != gang.key.uid else thing.status.promised
        if kept is None or not kept.places:
            return None
        waiting = {seen.name: seen for seen in gang.pods() if not seen.holds}
        places = []
        by_node: dict[str, list[Ours]] = {}
        for each in kept.places:
            seen = waiting.get(each.pod)
            if seen is None or seen.reading is None:
                return None
            devices = tuple(each.devices)
            places.append(Place(PodKey(gang.name, seen.group, seen.index), each.node, devices))
            by_node.setdefault(each.node, []).append(Ours(each.node, seen.reading.request, devices))
        if not all(self._ground.is_being_freed(those, stopping) for those in by_node.values()):
            return None
        return Promised(gang.name, tuple(places), now_s, tuple(kept.freed_by))

    def keeps_room(self, gang: Gang) -> bool:
        """Whether its object says that room is kept for it."""
        thing = self.objects.get(gang.name)
        return gang.promised is not None or (thing is not None and thing.status.promised is not None)

    def forget_room(self, gang: Gang) -> None:
        """Take its object as it will be once it says that no room is kept: each of its starts asks."""
        thing = self.objects.get(gang.name)
        if thing is not None:
            thing.status.promised = None


def _without_new_resources(reading: Reading, was: Request) -> Reading:
    """Return a reading of a bound pod without the resources that nodes state only since it was bound."""
    request, had = reading.request, dict(was.further)
    further = tuple(
        (name, amount) for name, amount in request.further if name in had or has_unstated(name) is not None
    )
    if further == request.further:
        return reading
    return replace(reading, asked=replace(reading.asked, request=replace(request, further=further)))


def _is_known(gang: Gang) -> bool:
    """Return True if control hears of a workload, or will."""
    return gang.project is not None and not gang.newer


def _claim_to_name(gang: Gang) -> tuple[bool, float, str]:
    head = gang.head
    return head is not None and not head.orphan, head.submitted_s if head else 0.0, gang.key.uid
