"""What people are told of workloads: their `Workload` objects, the conditions of pods that wait, and Events.

Nothing of it decides anything. What is written is the difference to what was written before; an object that
changes often is written as often as there is room for it, with what holds by then.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from weir.backends.kubernetes.api.connection import Patch
from weir.backends.kubernetes.api.paths import path_of
from weir.backends.kubernetes.own.shapes import API_VERSION, Owner
from weir.backends.kubernetes.own.workload_spec import spec_of
from weir.backends.kubernetes.picture.gangs import Gang
from weir.backends.kubernetes.picture.picture import Picture
from weir.backends.kubernetes.picture.seen import Seen
from weir.backends.kubernetes.writing.writes import Emit, PatchStatus, Regarding, Upsert, Write
from weir.cluster.events import End, PodKey, Promised
from weir.control.port import Status, StopPod
from weir.model.pool import Why
from weir.model.resources import GPU, written
from weir.model.workloads import WHOLE_MILLI

PHASES = {End.SUCCEEDED: "Succeeded", End.FAILED: "Failed", End.STOPPED: "Stopped"}
AT_ONCE = 500
"""Workloads looked at in one turn."""
AGAIN_S = 5.0
STARTING_S = 1.0
CONDITION_AFTER_S, CONDITION_EVERY_S = 2.0, 60.0
NODES_NAMED_MOST = 16
_STOPPING = frozenset(("Stopping", "Pending"))
Words = dict[str, Any]


def moment(at_s: float) -> str:
    """A time as the API writes it."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def life_of(status: Status) -> Words:
    """What control remembers, as it is kept."""
    return {
        "starts": status.starts,
        "settled": status.settled,
        "failures": status.failures,
        "ranSeconds": status.ran_s,
        "retryAtSeconds": status.retry_at_s,
        "restarts": status.restarts,
    }


def room_of(gang: Gang, promised: Promised) -> Words:
    """Room that is promised, as it is kept: by the names of pods, which outlive their slots."""
    places = []
    for place in promised.places:
        seen = gang.at(place.pod)
        if seen is not None:
            places.append({"pod": seen.name, "node": place.node, "devices": list(place.devices)})
    return {"at": moment(promised.at_s), "places": places, "freedBy": list(promised.freed_by)}


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


class _Written:
    """What was written of one workload."""

    __slots__ = ("conditions", "phase", "since_s", "spec", "status", "why")

    def __init__(self) -> None:
        self.spec = b""  # what was written, as text: there are many workloads
        self.status = b""
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

    def take(self, now_s: float) -> list[Write | Emit]:
        """What is to be written now."""
        for gang in [gang for gang, at_s in self._later.items() if at_s <= now_s]:
            del self._later[gang]
            self._picture.roll.changed[gang] = None
        changed = self._picture.roll.changed
        writes: list[Write | Emit] = []
        for _ in range(min(AT_ONCE, len(changed))):
            gang = next(iter(changed))
            del changed[gang]
            writes += self._of(gang, now_s)
        return writes

    def keep(self, gang: Gang, words: Words, now_s: float, *, urgent: bool = False) -> list[Write | Emit]:
        """Have this kept in the status of its object, which is made first if there is none yet."""
        first = [] if gang in self._written else self._of(gang, now_s, at_once=True)
        status = {"phase": self._phase(gang), **words}
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
            done.spec = done.status = b""
            self._later[gang] = now_s + AGAIN_S

    def _of(self, gang: Gang, now_s: float, *, at_once: bool = False) -> list[Write | Emit]:
        if gang.newer or gang.head is None:
            self._drop(gang)
            return []
        phase = self._phase(gang)
        done = self._written.get(gang)
        if done is None:
            if not gang.count and gang.ending is None:
                return []
            done = self._written[gang] = _Written()
            self._begin(gang, done)
        if phase != done.phase:
            done.phase, done.since_s = phase, now_s
        if phase == "Starting" and not at_once and now_s < done.since_s + STARTING_S:
            self._later[gang] = done.since_s + STARTING_S
            return []  # it runs in a moment, and one write says it all
        writes: list[Write | Emit] = []
        spec = self._spec(gang)
        if (text := digest(spec)) != done.spec and (gang.count or not done.spec):
            done.spec = text
            writes.append(self._upsert(gang, spec))
        why = self._why(gang, phase)
        status = self._status(gang, phase, why, done)
        if (text := msgspec.json.encode(status)) != done.status:
            before = msgspec.json.decode(done.status) if done.status else {}
            patch = {**_over(status, before), "phase": phase}
            writes.append(PatchStatus(status_path(gang), {"status": patch}, kind=Patch.MERGE, about=gang))
            done.status = text
        if phase in {"Pending", "Refused"}:
            writes += self._waits(gang, why, done, now_s)
        if gang.key not in self._picture.roll.gangs:
            self._drop(gang)
        return writes

    def _drop(self, gang: Gang) -> None:
        self._written.pop(gang, None)
        self._stops.pop(gang, None)
        self._later.pop(gang, None)

    def _begin(self, gang: Gang, done: _Written) -> None:
        """What its object says already needn't be written again; times go on from there."""
        thing = self._picture.roll.objects.get(gang.name)
        if thing is not None and thing.spec.owner.uid == gang.key.uid and thing.status.since:
            done.phase = thing.status.phase
            done.since_s = datetime.fromisoformat(thing.status.since).timestamp()

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
        if phase == "Refused":
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
        return spec_of(
            workload, Owner(api_version=key.api_version, kind=key.kind, name=key.name, uid=key.uid)
        )

    def _upsert(self, gang: Gang, spec: Words) -> Upsert:
        key = gang.key
        reference = {
            "apiVersion": key.api_version,
            "kind": key.kind,
            "name": key.name,
            "uid": key.uid,
            "blockOwnerDeletion": False,
        }
        meta = {"name": gang.object_name, "namespace": key.namespace, "ownerReferences": [reference]}
        body = {"apiVersion": API_VERSION, "kind": "Workload", "metadata": meta, "spec": spec}
        path = path_of(API_VERSION, "workloads", key.namespace)
        return Upsert(path, gang.object_name, body, about=gang)

    def _status(self, gang: Gang, phase: str, why: Why | None, done: _Written) -> Words:
        pods = list(gang.pods())
        running = [seen for seen in pods if seen.bound and seen.phase == "Running" and not seen.deleting]
        holding = [seen for seen in pods if seen.holds]
        asked = gang.told.pods if gang.told is not None else len(pods)
        total = max(asked, gang.needed) if phase not in PHASES.values() else len(pods)
        head = gang.head
        assert head is not None
        return {
            "phase": phase,
            "running": f"{len(running)}/{total}",
            "pods": total,
            "podsRunning": len(running),
            "gpus": written(GPU, self._devices_milli(gang, total)),
            "nodes": sorted({seen.node for seen in holding})[:NODES_NAMED_MOST],
            "reason": None
            if why is None
            else {"why": why.why, "sentence": why.sentence, "numbers": _plain(why.numbers)},
            "since": moment(done.since_s),
            "submittedAt": moment(head.submitted_s),
            "startedAt": moment(min(seen.at_s for seen in holding)) if holding else None,
            "endedAt": moment(gang.ending.at_s) if gang.ending is not None and not holding else None,
            "estimatedStart": _until(why),
            "suspended": head.derived.suspended,
        }

    def _devices_milli(self, gang: Gang, total: int) -> int:
        """Thousandths of devices of all its pods: of one that isn't there as of the one read last."""
        assert gang.head is not None
        places = [(gang.head.request, "")] * total
        for at, seen in enumerate(gang.pods()):
            if seen.reading is not None:
                places[at : at + 1] = [(seen.reading.request, seen.node)]
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


def digest(words: Words) -> bytes:
    """What tells one spec from another."""
    return hashlib.blake2b(msgspec.json.encode(words), digest_size=16).digest()


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


def _over(status: Words, before: Words) -> Words:
    """A merge patch that leaves nothing of the numbers before; all of it where nothing was written before."""
    if not before:
        return status
    patch = {key: value for key, value in status.items() if before.get(key) != value}
    reason, last = patch.get("reason"), before.get("reason")
    if reason and last:
        gone = dict.fromkeys(set(last["numbers"]) - set(reason["numbers"]))
        patch["reason"] = {**reason, "numbers": {**reason["numbers"], **gone}}
    return patch


def _until(why: Why | None) -> str | None:
    """When it may start, where that is only a matter of time."""
    until_s = None if why is None else why.numbers.get("until_s")
    return moment(until_s) if isinstance(until_s, int | float) else None


def _plain(numbers: Mapping[str, object]) -> Words:
    """Numbers of a reason as an object holds them."""
    return {
        key: list(value) if isinstance(value, tuple | set | frozenset) else value
        for key, value in numbers.items()
    }
