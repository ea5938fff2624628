"""What people are told of workloads: their `Workload` objects, the conditions of pods that wait, and Events.

Nothing of it decides anything. What is written is the difference to what was written before; an object that
changes often is written as often as there is room for it, with what holds by then.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

import msgspec

from weir.backends.kubernetes.api.connection import Patch
from weir.backends.kubernetes.api.paths import path_of
from weir.backends.kubernetes.own.own_objects import WRITTEN_KEY
from weir.backends.kubernetes.own.shapes import API_VERSION, Owner
from weir.backends.kubernetes.own.workload_spec import spec_of
from weir.backends.kubernetes.picture.gangs import Gang
from weir.backends.kubernetes.picture.picture import Picture
from weir.backends.kubernetes.picture.seen import Origin, Seen
from weir.backends.kubernetes.picture.unreadable import QUARANTINED, Unread
from weir.backends.kubernetes.writing.words import Words, digest, expected, life_of, moment, over, plain
from weir.backends.kubernetes.writing.writes import Emit, PatchStatus, Regarding, Upsert, Write
from weir.cluster.events import End, PodKey
from weir.control.port import Status, StopPod
from weir.model.pool import Why
from weir.model.resources import GPU, written
from weir.model.workloads import WHOLE_MILLI

PHASES = {End.SUCCEEDED: "Succeeded", End.FAILED: "Failed", End.STOPPED: "Stopped"}
AT_ONCE = 500
"""Workloads looked at in one turn."""
AGAIN_S = 5.0
PASSING_S = 1.0
"""What a workload is only in passing isn't told before it has lasted so long."""
OWNER_S = 10.0
"""So long for the owners of pods to be known: until then it may be part of another workload."""
FEW = 32
"""So many workloads are told of at once even in a burst: that costs nothing."""
BUSY_EVERY_S = 2.0
"""How often is looked in a burst what can't wait any longer."""
WAITS_S, UNKNOWN_S, RUNS_S = 5.0, 15.0, 60.0
"""How long it waits in a burst: why a workload waits, or that it is over; that it waits; that it runs,
starts or stops."""
CONDITION_AFTER_S, CONDITION_EVERY_S = 2.0, 60.0
NODES_NAMED_MOST = 16
ALLOCATED_BYTES_MOST = 1 << 19
"""Allocations of one workload that are recorded: an object of the API holds little more than a megabyte."""
_KINDS = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "workloads": (API_VERSION, "Workload"),
    QUARANTINED: (API_VERSION, "Workload"),
    "projects": (API_VERSION, "Project"),
    "departments": (API_VERSION, "Department"),
    "topologies": (API_VERSION, "Topology"),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim"),
    "persistentvolumes": ("v1", "PersistentVolume"),
}
_MOVING = frozenset(("Starting", "Running", "Stopping"))


def _allocations(holding: Iterable[Seen], *, granted: bool) -> list[Words]:
    """Where pods are and on which devices, as far as Weir counts them and an object can hold it."""
    found: list[Words] = []
    left = ALLOCATED_BYTES_MOST
    for seen in sorted(holding, key=lambda each: each.name):
        if not seen.settled:
            continue
        words: Words = {
            "pod": seen.name,
            "uid": seen.uid,
            "node": seen.node,
            "devices": list(seen.devices),
            "start": seen.start,
        }
        if seen.devices and seen.reading is not None:
            request = seen.reading.request
            words |= {"memory": request.gpu_memory} if request.gpu_memory else {"share": request.share_milli}
        if seen.origin is not Origin.WEIR:
            words["selfBound"] = True
        if granted:
            words["preemptible"] = False
        left -= len(msgspec.json.encode(words))
        if left < 0:
            break
        found.append(words)
    return found


def nominations(gang: Gang, nodes: Mapping[PodKey, str | None]) -> Iterator[PatchStatus]:
    """Where pods will be, for others who look at them: other schedulers, and what makes nodes."""
    for pod, node in nodes.items():
        seen = gang.at(pod)
        if seen is not None and not seen.holds:
            path = path_of("v1", "pods", gang.key.namespace, seen.name)
            body = {"metadata": {"uid": seen.uid}, "status": {"nominatedNodeName": node}}
            yield PatchStatus(path, body, kind=Patch.MERGE)


def status_path(gang: Gang) -> str:
    """Where its object is, whose status is patched."""
    return path_of(API_VERSION, "workloads", gang.key.namespace, gang.object_name)


def regarding(gang: Gang) -> Regarding:
    """Its object, as an Event names it."""
    return Regarding(API_VERSION, "Workload", gang.object_name, gang.key.namespace)


def regarding_pod(gang: Gang, seen: Seen) -> Regarding:
    """A pod, as an Event names it."""
    return Regarding("v1", "Pod", seen.name, gang.key.namespace, seen.uid)


def preempted(gang: Gang, seen: Seen, stop: StopPod) -> Emit:
    """Why a pod is stopped."""
    return Emit(
        regarding_pod(gang, seen), "Preempted", stop.cause.sentence, action="Evicting", type="Warning"
    )


def unreadable_event(unread: Unread) -> Emit | None:
    """Tell people that an object can't be read; None where an event can't name it."""
    kind = _KINDS.get(unread.resource)
    if kind is None:
        return None
    namespace, _, name = unread.key.rpartition("/")
    about = Regarding(kind[0], kind[1], name, namespace, unread.uid)
    return Emit(about, "Unreadable", unread.sentence, type="Warning")


NO_LIFE = Status()


class _Written:
    """What was written of one workload."""

    __slots__ = ("conditions", "found", "life", "phase", "since_s", "spec", "status", "why")

    def __init__(self) -> None:
        self.spec = ""  # what was written, as a digest
        self.found = ""  # what somebody else has, as a digest
        self.status = b""
        self.life = NO_LIFE
        self.phase = ""
        self.since_s = 0.0
        self.why = ""
        self.conditions: dict[str, tuple[str, float]] = {}  # by pod: what its condition says, and since when


class Statuses:
    """All that is written for people about workloads. All calls come from the control thread."""

    def __init__(self, picture: Picture, reasons: Mapping[str, Why]) -> None:
        self._picture = picture
        self._reasons = reasons
        self._written: dict[Gang, _Written] = {}
        self._stops: dict[Gang, Why] = {}
        self._later: dict[Gang, float] = {}
        self._busy_next_s = 0.0
        self._held: dict[Gang, float] = {}  # not told in a burst, and since when

    def stops(self, gang: Gang, stop: StopPod) -> None:
        """A pod of it is being stopped, and this is why."""
        cause = stop.cause
        self._stops[gang] = Why(why=cause.rule.value, sentence=cause.sentence, numbers=dict(cause.numbers))

    def reasons_changed(self, names: Iterable[str]) -> None:
        """These wait for another reason now."""
        named = self._picture.roll.named
        self._picture.roll.changed.update({named[name]: None for name in names if name in named})

    @property
    def has_work(self) -> bool:
        """Whether anything may have to be written."""
        return bool(self._picture.roll.changed)

    @property
    def due_s(self) -> float | None:
        """When pods have waited for long enough to be told why."""
        return min(self._later.values(), default=None)

    def take(self, now_s: float, *, busy: bool = False) -> list[Write | Emit]:
        """What is to be written now; `busy`: while many pods start or stop what can wait does.

        To the API server a word about a workload costs as much as a binding, and most of what changes in
        a burst is about to change again.
        """
        for gang in [gang for gang, at_s in self._later.items() if at_s <= now_s]:
            del self._later[gang]
            self._picture.roll.changed[gang] = None
        changed = self._picture.roll.changed
        writes: list[Write | Emit] = []
        busy = busy and len(changed) > FEW
        if busy and now_s < self._busy_next_s:
            return []
        self._busy_next_s = now_s + BUSY_EVERY_S
        left = AT_ONCE
        for gang in list(changed):
            if busy and self._can_wait(gang, now_s):
                continue
            del changed[gang]
            try:
                writes += self._of(gang, now_s, self._held.pop(gang, now_s))
            except Exception as error:  # noqa: BLE001 - the others have to be told
                self._picture.unreadable.note(QUARANTINED, gang.name, "", error)
            left -= 1
            if not left:
                break
        return writes

    def _can_wait(self, gang: Gang, now_s: float) -> bool:
        waited_s = now_s - self._held.setdefault(gang, now_s)
        if waited_s < WAITS_S or waited_s >= RUNS_S:
            return waited_s < WAITS_S
        done = self._written.get(gang)
        if gang.life != (NO_LIFE if done is None else done.life):
            return False
        phase = self._phase(gang)
        if phase in _MOVING:
            return True
        return phase == "Pending" and waited_s < UNKNOWN_S and self._why(gang, phase) is None

    def keep(self, gang: Gang, words: Words, now_s: float, *, urgent: bool = False) -> list[Write | Emit]:
        """Have this kept in the status of its object, which is made first if there is none yet."""
        done = self._written.get(gang)
        first = [] if done is not None and done.spec else self._of(gang, now_s, now_s, at_once=True)
        status = {"phase": self._phase(gang), "written": "", **words}
        patch = PatchStatus(
            status_path(gang), {"status": status}, kind=Patch.MERGE, urgent=urgent, about=gang
        )
        return [*first, patch]

    def not_written(self, gang: Gang, now_s: float) -> None:
        """Something of it was refused: all of it is written anew after a while, if it is still there."""
        done = self._written.get(gang)
        if not gang.count:
            self._drop(gang)  # its object may have gone with its owner
        elif done is not None:
            done.spec, done.status, done.found = "", b"", ""
            self._later[gang] = now_s + AGAIN_S

    def _of(self, gang: Gang, now_s: float, since_s: float, *, at_once: bool = False) -> list[Write | Emit]:
        """What is to be written of one, that has changed at `since_s`."""
        if gang.newer or gang.head is None:
            self._drop(gang)
            return []
        phase = self._phase(gang)
        done = self._written.get(gang)
        if done is None:
            if not gang.count and gang.ending is None:
                return []
            done = self._written[gang] = _Written()
            self._begin(gang, done, now_s)
        if phase != done.phase:
            done.phase, done.since_s = phase, since_s
        why = self._why(gang, phase)
        passing = phase == "Starting" or (phase == "Pending" and why is None)
        passing_s = OWNER_S if phase == "Pending" and gang.head.orphan else PASSING_S if passing else 0.0
        if passing_s and not at_once and now_s < done.since_s + passing_s:
            self._later[gang] = done.since_s + passing_s
            return []  # it is something else in a moment, and one write says it all
        writes: list[Write | Emit] = []
        spec = self._spec(gang)
        if (text := digest(spec)) != done.spec and (gang.count or not done.spec):
            done.spec = text
            writes.append(self._upsert(gang, spec, text))
        writes += self._said(gang, self._status(gang, phase, why, done), done)
        if phase in {"Pending", "Refused"}:
            writes += self._waits(gang, why, done, now_s)
        if gang.key not in self._picture.roll.gangs:
            self._drop(gang)
        return writes

    def _said(self, gang: Gang, status: Words, done: _Written) -> Iterator[PatchStatus]:
        """What of its status has changed; all of it, if nobody knows what is there."""
        text = msgspec.json.encode(status)
        if text == done.status:
            return
        now_there = digest(status)
        if now_there != done.found:
            before = msgspec.json.decode(done.status) if done.status else {}
            patch = {**over(status, before), "phase": status["phase"], "written": now_there}
            yield PatchStatus(status_path(gang), {"status": patch}, kind=Patch.MERGE, about=gang)
        done.status, done.life, done.found = text, gang.life, ""

    def _drop(self, gang: Gang) -> None:
        self._written.pop(gang, None)
        self._stops.pop(gang, None)
        self._later.pop(gang, None)
        self._held.pop(gang, None)

    def _begin(self, gang: Gang, done: _Written, now_s: float) -> None:
        """What its object says already needn't be written again; times go on from there."""
        thing = self._picture.roll.objects.get(gang.name)
        if thing is None or thing.spec.owner.uid != gang.key.uid:
            return
        done.spec, done.found = thing.written, thing.status.written
        if thing.status.since:
            done.phase = thing.status.phase
            since_s = datetime.fromisoformat(thing.status.since).timestamp()
            done.since_s = min(since_s, now_s)  # written by another clock, perhaps

    # What it says

    def _phase(self, gang: Gang) -> str:
        pods = list(gang.pods())
        holding = [seen for seen in pods if seen.holds]
        if holding:
            if all(seen.stopping for seen in holding):
                return "Stopping"
            return "Running" if any(seen.phase == "Running" for seen in holding) else "Starting"
        over = gang.is_over()
        if over is not None:
            return PHASES[over]
        return "Refused" if gang.project is None else "Pending"

    def _why(self, gang: Gang, phase: str) -> Why | None:
        if phase == "Refused" or gang.quarantined:
            return Why(why="refused", sentence=gang.refusal)
        if gang.ending is not None and gang.ending.cause is not None and phase in ("Stopped", "Failed"):
            cause = gang.ending.cause
            return Why(why=cause.rule.value, sentence=cause.sentence, numbers=dict(cause.numbers))
        if phase in ("Running", "Starting"):
            self._stops.pop(gang, None)
        if phase == "Stopping":
            return self._stops.get(gang)
        if phase != "Pending":
            return None
        if gang.told_gate:
            return Why(why="gated", sentence=gang.told_gate)
        return self._reasons.get(gang.name) or self._stops.get(gang)

    def _spec(self, gang: Gang) -> Words:
        key = gang.key
        workload = gang.told or gang.workload()
        named = gang.groups_in_use(workload.groups)
        return spec_of(
            replace(workload, groups=named),
            Owner(api_version=key.api_version, kind=key.kind, name=key.name, uid=key.uid),
        )

    def _upsert(self, gang: Gang, spec: Words, written: str) -> Upsert:
        key = gang.key
        reference = {
            "apiVersion": key.api_version,
            "kind": key.kind,
            "name": key.name,
            "uid": key.uid,
            "blockOwnerDeletion": False,
        }
        meta = {
            "name": gang.object_name,
            "namespace": key.namespace,
            "annotations": {WRITTEN_KEY: written},
            "ownerReferences": [reference],
        }
        body = {"apiVersion": API_VERSION, "kind": "Workload", "metadata": meta, "spec": spec}
        path = path_of(API_VERSION, "workloads", key.namespace)
        thing = self._picture.roll.objects.get(gang.name)
        there = thing is not None and thing.spec.owner.uid == key.uid
        return Upsert(path, gang.object_name, body, there=there, about=gang)

    def _status(self, gang: Gang, phase: str, why: Why | None, done: _Written) -> Words:
        pods = list(gang.pods())
        running = [seen for seen in pods if seen.bound and seen.phase == "Running" and not seen.deleting]
        holding = [seen for seen in pods if seen.holds]
        there, count = len(pods) + gang.members.count, len(running) + gang.members.running
        total = max(there, gang.whole) if phase not in PHASES.values() else there
        head = gang.head
        assert head is not None
        return {
            "phase": phase,
            "running": f"{count}/{total}",
            "pods": total,
            "podsRunning": count,
            "gpus": written(GPU, self._devices_milli(gang, ended=phase in PHASES.values())),
            "nodes": sorted({seen.node for seen in holding})[:NODES_NAMED_MOST],
            "reason": None
            if why is None
            else {"why": why.why, "sentence": why.sentence, "numbers": plain(why.numbers)},
            "since": moment(done.since_s),
            "submittedAt": moment(head.submitted_s),
            "startedAt": moment(min(seen.at_s for seen in holding)) if holding else None,
            "endedAt": moment(gang.ending.at_s) if gang.ending is not None and not holding else None,
            "estimatedStart": expected(why),
            "suspended": head.derived.suspended,
            "allocations": _allocations(holding, granted=gang.granted),
            **({} if gang.life == NO_LIFE else {"life": life_of(gang.life)}),
        }

    def _devices_milli(self, gang: Gang, *, ended: bool) -> int:
        """Thousandths of devices of all its pods, and of those still to come unless it has ended."""
        places = [(seen.reading.request, seen.node) for seen in gang.pods() if seen.reading is not None]
        if not ended:
            places += [(request, "") for request in gang.absent_requests()]
        ground = self._picture.ground
        return sum(
            request.devices * min(WHOLE_MILLI, request.share_on(ground.device_memory(node)))
            for request, node in places
            if request.devices
        )

    # Pods that wait

    def _waits(self, gang: Gang, why: Why | None, done: _Written, now_s: float) -> list[Write | Emit]:
        """The condition of its pods, and an Event when it waits for something else."""
        if why is None:
            return []
        if now_s < done.since_s + CONDITION_AFTER_S:
            self._later[gang] = done.since_s + CONDITION_AFTER_S
            return []
        writes: list[Write | Emit] = []
        if why.why != done.why:
            done.why = why.why
            writes.append(Emit(regarding(gang), "Waiting", why.sentence))
        there = {}
        for seen in gang.pods():
            said, since_s = done.conditions.get(seen.key, ("", 0.0))
            if said != why.sentence and now_s >= since_s + CONDITION_EVERY_S:
                said, since_s = why.sentence, now_s
                writes.append(_condition(gang, seen, why.sentence, now_s))
            elif said != why.sentence:
                self._later.setdefault(gang, since_s + CONDITION_EVERY_S)
            there[seen.key] = said, since_s
        done.conditions = there
        return writes


def _condition(gang: Gang, seen: Seen, sentence: str, now_s: float) -> PatchStatus:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": sentence,
        "lastTransitionTime": moment(now_s),
    }
    path = path_of("v1", "pods", gang.key.namespace, seen.name)
    body = {"metadata": {"uid": seen.uid}, "status": {"conditions": [condition]}}
    return PatchStatus(path, body, kind=Patch.STRATEGIC)
