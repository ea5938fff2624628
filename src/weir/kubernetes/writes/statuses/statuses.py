"""Reports to people: `Workload` objects, conditions of pending pods, and Events.

No decision depends on these reports. Each write is the difference to the previous one. An object that changes
often is written as often as the rate limit allows, with its newest state.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

import msgspec

from weir.api.answers import Explanation
from weir.control.fair_queue import Turns
from weir.control.port import StopPod
from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.state.unreadable import QUARANTINED
from weir.kubernetes.translate.gates import REFUSED
from weir.kubernetes.writes.operations import EmitEvent, PatchStatus, Write
from weir.kubernetes.writes.pods.final_conditions import still_made
from weir.kubernetes.writes.statuses.condition_reasons import WORKLOAD_ENDED
from weir.kubernetes.writes.statuses.event_bodies import regarding
from weir.kubernetes.writes.statuses.fields import gate_of, notices, pending, status_patch
from weir.kubernetes.writes.statuses.group_conditions import GroupConditions
from weir.kubernetes.writes.statuses.last_evictions import LastEvictions
from weir.kubernetes.writes.statuses.passing_phases import passing_until
from weir.kubernetes.writes.statuses.pending_pods import pod_reasons
from weir.kubernetes.writes.statuses.stated_events import PastEvents
from weir.kubernetes.writes.statuses.turns import calm_namespaces, namespace_of
from weir.kubernetes.writes.statuses.values import Words, cut, digest, is_reworded, over
from weir.kubernetes.writes.statuses.workload_body import (
    NO_LIFE,
    PHASES,
    WrittenStatus,
    goes_with_its_owner,
    left_behind,
    may_change,
    phase_of,
    spec_body,
    status_body,
    upsert,
)
from weir.model.reasons import EvictionCause, as_clause

AT_ONCE = 500
"""Number of workloads that are checked in one turn."""
AGAIN_S = 5.0
AGAIN_AFTER_S = 1.0
"""Least time between two writes about a workload in the same phase, while pods are added to it."""
FEW = 32
"""Number of workloads that are written at once even in a burst; namespaces share it."""
BUSY_EVERY_S = 2.0
"""Time between two checks of overdue writes in a burst."""
WAITS_S, UNKNOWN_S, RUNS_S = 5.0, 15.0, 60.0
"""Delays of statuses in a burst of writes: a reason or an end, a first `pending`, and the other states."""
SETTLED_S, ARRIVING_S = 0.3, 2.0
"""Delay before the reason of a pending pod is published: usually, and while its gang's pods still arrive."""
REWORDED_S = 60.0
"""Delay of a reason of which only the words changed, while more than FEW workloads are pending."""
WAITING_AT_ONCE = 8
"""In a burst, the number of pending workloads whose reasons are written in one turn."""
EVENTS_HELD_MAX = 16  # events of a workload that are kept until its object exists
_MOVING = frozenset(("Starting", "Running", "Stopping"))
_WAITING = frozenset(("Pending", "Refused", "Running", "Starting"))


class StatusWriter:
    """Writes everything about workloads that people read. All calls come from the control thread."""

    def __init__(self, cluster_state: ClusterState, reasons: Mapping[str, Explanation]) -> None:
        self._cluster_state, self._registry = cluster_state, cluster_state.registry
        self._reasons = reasons
        self._written: dict[Gang, WrittenStatus] = {}
        self._stops: dict[Gang, Explanation] = {}
        self._later: dict[Gang, float] = {}
        self._busy_next_s = 0.0
        self._is_burst = False  # True: many workloads changed in the last turn
        self._turns, self._reasoned_turns = Turns(), Turns()
        self._calm: frozenset[str] = frozenset()  # namespaces without a part in the burst
        self._delayed: dict[Gang, float] = {}  # workloads delayed by a burst, with the time since which
        self._evictions = LastEvictions(cluster_state.node_states)
        self.past = PastEvents()
        self._groups = GroupConditions()
        self._events: dict[Gang, list[EmitEvent]] = {}  # events about an object without a uid yet
        self.scale_up_over_quota = False  # autoscalers may add nodes for work over its quota, too
        self._reasoned: dict[Gang, None] = {}  # workloads with a new reason, or with one that is due

    def stops(self, gang: Gang, stop: StopPod, now_s: float) -> list[Write | EmitEvent]:
        """Report that a pod is being stopped, and why; return writes to send before its eviction."""
        cause = stop.cause
        why = Explanation(why=cause.rule.value, sentence=cause.sentence, numbers=dict(cause.numbers))
        before, self._stops[gang] = self._stops.get(gang), why
        if isinstance(cause, EvictionCause):
            self._evictions.stops(gang, gang.pod_at(stop.pod), cause, now_s)
            self.past.evicted(gang, cause, now_s)
            if before != why:
                self._say(gang, "Evicted", cause.sentence, "Evicting", "Warning")
            taker = self._registry.named.get(cause.by or "")
            if taker is not None and (returned := self.past.returns_quota(taker, cause, now_s)):
                return self.keep(taker, returned, now_s, urgent=True)
        return []

    def say(self, gang: Gang, reason: str, sentence: str, action: str) -> None:
        """Emit an event about a workload that needs attention."""
        self._say(gang, reason, sentence, action, "Warning")
        self._registry.changed[gang] = None

    def _say(
        self, gang: Gang, reason: str, sentence: str, action: str, type_: Literal["Normal", "Warning"]
    ) -> None:
        """Emit an event about a workload once its object exists."""
        events = self._events.setdefault(gang, [])
        if len(events) < EVENTS_HELD_MAX:
            events.append(EmitEvent(regarding(gang, ""), reason, cut(sentence), action, type_, waits=True))

    def reasons_changed(self, names: Iterable[str]) -> None:
        """Record that these workloads have another pending reason now."""
        named, names = self._registry.named, list(names)
        changed = {named[name]: None for name in names if name in named}
        if len(names) > FEW:  # most of these have only a changed number, which changes again soon
            changed = {gang: None for gang in changed if not self._is_reworded_soon(gang)}
        self._registry.changed.update(changed)
        self._reasoned.update(changed)

    def _is_reworded_soon(self, gang: Gang) -> bool:
        """Return True if only the words of its reason have changed, which are written later."""
        done, why = self._written.get(gang), self._reasons.get(gang.name)
        if done is None or why is None or done.why != why.why:
            return False
        self._look_again(gang, done.status_s + REWORDED_S)
        return True

    @property
    def has_work(self) -> bool:
        """True if something may have to be written."""
        return bool(self._registry.changed)

    @property
    def due_s(self) -> float | None:
        """Time at which the reasons of pending pods are due."""
        return min(self._later.values(), default=None)

    def take(self, now_s: float, *, busy: bool = False) -> list[Write | EmitEvent]:
        """Return the operations due now; with `busy`, while many pods start or stop, most of them wait.

        For the API server a status of a workload costs as much as a binding. Most changes in a burst are soon
        outdated by the next one.
        """
        self._come_due(now_s)
        changed = self._registry.changed
        writes: list[Write | EmitEvent] = []
        self._is_burst = len(changed) > FEW
        busy = busy and self._is_burst
        if busy and now_s < self._busy_next_s:
            return []
        self._busy_next_s = now_s + BUSY_EVERY_S
        self._calm = calm_namespaces(changed, FEW) if self._is_burst else frozenset()
        left = AT_ONCE
        for gang in self._turns.take(changed, namespace_of):
            if busy and gang.key.namespace not in self._calm and self._can_wait(gang, now_s):
                continue
            writes += self._writes_of(gang, now_s)
            if not (left := left - 1):
                break
        return writes

    def take_waiting(self, now_s: float, *, busy: bool = False) -> list[Write | EmitEvent]:
        """Return the writes due now for pending workloads with a new reason.

        They don't wait for writes of other workloads. While many pods start or stop, few of them are written
        at a time.
        """
        self._come_due(now_s)
        writes: list[Write | EmitEvent] = []
        reasoned = self._reasoned_turns.take(self._reasoned, namespace_of)
        for gang in islice(reasoned, WAITING_AT_ONCE if busy else AT_ONCE):
            del self._reasoned[gang]
            if gang in self._registry.changed and phase_of(gang) in _WAITING:
                writes += self._writes_of(gang, now_s)
        return writes

    def _come_due(self, now_s: float) -> None:
        for gang in [gang for gang, at_s in self._later.items() if at_s <= now_s]:
            del self._later[gang]
            self._registry.changed[gang] = None
            if gang.name in self._reasons:
                self._reasoned[gang] = None

    def _look_again(self, gang: Gang, at_s: float) -> None:
        self._later[gang] = min(self._later.get(gang, at_s), at_s)

    def _writes_of(self, gang: Gang, now_s: float) -> list[Write | EmitEvent]:
        """Return the writes for a changed workload."""
        del self._registry.changed[gang]
        self._reasoned.pop(gang, None)
        try:
            return self._operations_of(gang, now_s, self._delayed.pop(gang, now_s))
        except Exception as error:  # noqa: BLE001 - the others have to be told
            self._cluster_state.unreadable.note(QUARANTINED, gang.name, "", error)
            return []

    def _can_wait(self, gang: Gang, now_s: float) -> bool:
        waited_s = now_s - self._delayed.setdefault(gang, now_s)
        if waited_s < WAITS_S or waited_s >= RUNS_S:
            return waited_s < WAITS_S
        done = self._written.get(gang)
        if gang.life != (NO_LIFE if done is None else done.life) or self.past.has_news(gang):
            return False
        phase = phase_of(gang)
        if phase in _MOVING:
            return not any(pending(gang))
        return phase == "Pending" and waited_s < UNKNOWN_S and self._why(gang, phase) is None

    def _follows(self, gang: Gang, done: WrittenStatus, now_s: float) -> bool:
        """Return True if a status was just written, and no event or pending pod needs another one now."""
        soon = now_s < done.at_s + AGAIN_AFTER_S and done.phase in _MOVING
        return soon and gang not in self._events and not any(pending(gang))

    def keep(
        self, gang: Gang, words: Words, now_s: float, *, urgent: bool = False
    ) -> list[Write | EmitEvent]:
        """Persist `words` in the status of the workload's object, which is created if needed."""
        done = self._written.get(gang)
        first = (
            [] if done is not None and done.spec else self._operations_of(gang, now_s, now_s, at_once=True)
        )
        shown = self._written[gang].shown if gang in self._written else ""  # a new object has no past events
        status = {"phase": shown or phase_of(gang), "written": "", **words}
        return [*first, status_patch(gang, status, urgent=urgent)]

    def not_written(self, gang: Gang, now_s: float) -> None:
        """Write all of a workload again after a while, because one of its writes was refused."""
        done = self._written.get(gang)
        if not (gang.count or gang.foreseen):
            self._drop(gang)  # the object may have been deleted with its owner
        elif done is not None:
            done.spec, done.status, done.stored_digest = "", b"", ""
            self._later[gang] = now_s + AGAIN_S

    def _operations_of(
        self, gang: Gang, now_s: float, since_s: float, *, at_once: bool = False
    ) -> list[Write | EmitEvent]:
        """Return the operations for one workload that changed at `since_s`."""
        done = self._record(gang, now_s)
        if done is None:
            return []
        phase = phase_of(gang)
        if phase != done.phase:
            done.phase, done.since_s = phase, since_s
        elif self._follows(gang, done, now_s) and not at_once:
            self._later[gang] = done.at_s + AGAIN_AFTER_S
            return []
        self._note_deletion(gang, done, now_s)
        why = self._why(gang, phase)
        until_s = self._passing_until(gang, phase, why, done, now_s)
        if now_s < until_s and not at_once:
            self._later[gang] = until_s
            return []  # the state is about to change, and one write is enough
        writes: list[Write | EmitEvent] = []
        spec = spec_body(gang, done, self._cluster_state.node_states)
        if (text := digest(spec)) != done.spec and may_change(gang, done, self._cluster_state):
            done.spec = text
            writes.append(upsert(gang, spec, text, exists=self._registry.object_of(gang) is not None))
        gang.note_shortness(now_s)
        evicted = self._evictions.last_eviction(gang)
        status = status_body(gang, phase, why, self._cluster_state, done=done, eviction=evicted)
        self.past.add_to(status, gang, self._registry.objects.get(gang.name), now_s)
        writes += self._patches(gang, status, done, now_s)
        writes += self._groups.take(gang, phase, why, self._stops.get(gang), now_s)
        writes += self._waits(gang, phase, why, done, now_s)
        writes += self._events_of(gang)
        if writes:
            done.at_s = now_s
        if gang.key not in self._registry.gangs:
            self._drop(gang)
        return writes

    def _record(self, gang: Gang, now_s: float) -> WrittenStatus | None:
        """Return the record of a workload that has an object, or gets one as it is in control; else None."""
        if gang.newer or gang.head is None:
            self._drop(gang)
            return None
        if (done := self._written.get(gang)) is None:
            if not (gang.count or gang.ending or gang.adopted or gang.reported):
                return None
            done = self._written[gang] = WrittenStatus()
            self._begin(gang, done, now_s)
        if not (gang.count or gang.starts or done.spec or gang.ending or gang.foreseen or gang.reported):
            self._drop(gang)  # its pods belong to another workload
            return None
        return None if goes_with_its_owner(gang, done, self._cluster_state) else done

    def _passing_until(
        self, gang: Gang, phase: str, why: Explanation | None, done: WrittenStatus, now_s: float
    ) -> float:
        """Return until when its state is likely to change again."""
        undecided = phase == "Pending" and why is not None and why is self._stops.get(gang)
        done.undecided_s = (done.undecided_s or now_s) if undecided else None
        is_burst = self._is_burst and gang.key.namespace not in self._calm
        return passing_until(gang, phase, done, has_reason=why is not None, is_burst=is_burst)

    def _note_deletion(self, gang: Gang, done: WrittenStatus, now_s: float) -> None:
        """Write all of its object again if the object was deleted without its owner."""
        if gang.name in self._registry.objects:
            done.missing_s = float("inf")
        elif done.missing_s is not None and any(not tracked.deleting for tracked in gang.pods()):
            done.missing_s = min(done.missing_s, now_s)
            if now_s < done.missing_s + AGAIN_S:
                self._look_again(gang, done.missing_s + AGAIN_S)
            else:
                done.missing_s, done.spec, done.status, done.stored_digest = None, "", b"", ""

    def _patches(self, gang: Gang, status: Words, done: WrittenStatus, now_s: float) -> Iterator[PatchStatus]:
        """Yield the changes of its status; the whole status if the present one is unknown."""
        text = msgspec.json.encode(status)
        if text == done.status:
            return
        now_there = digest(status)
        if now_there != done.stored_digest:
            before = msgspec.json.decode(done.status) if done.status else {}
            patch = over(status, before) if before else {**left_behind(gang, self._cluster_state), **status}
            if len(self._reasons) > FEW and now_s < done.status_s + REWORDED_S and is_reworded(patch, before):
                self._look_again(gang, done.status_s + REWORDED_S)
                return
            patch = {**patch, "phase": status["phase"], "written": now_there}
            yield status_patch(gang, patch)
            done.status_s = now_s
        done.status, done.life, done.stored_digest, done.shown = text, gang.life, "", status["phase"]

    def _drop(self, gang: Gang) -> None:
        self._groups.drop(gang)
        self._evictions.drop(gang)
        self.past.drop(gang)
        kept: tuple[dict[Gang, Any], ...] = (self._written, self._events, self._stops)
        for by_gang in (*kept, self._later, self._delayed, self._reasoned):
            by_gang.pop(gang, None)

    def _begin(self, gang: Gang, done: WrittenStatus, now_s: float) -> None:
        """Copy the fields of its object, so that times continue from there."""
        for reason, sentence in notices(gang):
            self._say(gang, reason, sentence, "Scheduling", "Normal")
        stored = self._registry.object_of(gang)
        if stored is None:
            return
        done.spec, done.stored_digest, done.shown = stored.written, stored.status.written, stored.status.phase
        last = stored.status.last_eviction
        if last is not None:
            self._evictions.restore(gang, last)
        if stored.status.since:
            done.phase = stored.status.phase
            done.since_s = min(seconds_of(stored.status.since), now_s)  # another clock may have written it

    def _why(self, gang: Gang, phase: str) -> Explanation | None:
        if phase == "Refused" or gang.quarantined:
            return Explanation(why=REFUSED, sentence=gang.refusal)
        if gang.ending is not None and gang.ending.cause is not None and phase in ("Stopped", "Failed"):
            cause = gang.ending.cause
            sentence = still_made(gang.key.kind, cause.sentence) if gang.count else cause.sentence
            return Explanation(why=cause.rule.value, sentence=sentence, numbers=dict(cause.numbers))
        if phase in ("Running", "Starting"):
            self._stops.pop(gang, None)
            return self._reasons.get(gang.name, gate_of(gang)) if any(pending(gang)) else None
        if phase != "Pending":
            return self._stops.get(gang) if phase == "Stopping" else None
        return gate_of(gang) or self._reasons.get(gang.name) or self._stops.get(gang)

    # Pending pods

    def _waits(
        self, gang: Gang, phase: str, why: Explanation | None, done: WrittenStatus, now_s: float
    ) -> Iterator[Write | EmitEvent]:
        """Yield the conditions and events of its pending pods, and an event of its own."""
        settled_s = done.since_s + (ARRIVING_S if gang.reported_gate else SETTLED_S)
        if now_s < settled_s:
            if any(pending(gang)):
                self._later[gang] = settled_s
            return
        if why is None or phase not in _WAITING:
            done.why = ""
        elif why.why != done.why:
            done.why = why.why
            self._say(gang, "Waiting", why.sentence, "Scheduling", "Normal")
        if why is not None and phase in PHASES.values():
            sentence = f"its workload has ended: {as_clause(why.sentence)}"
            why = Explanation(why=WORKLOAD_ENDED, sentence=sentence)
        yield from done.pending.take(gang, pod_reasons(gang, why, self.scale_up_over_quota), now_s)
        if done.pending.next_s is not None:
            self._look_again(gang, done.pending.next_s)

    def _events_of(self, gang: Gang) -> Iterator[EmitEvent]:
        """Yield the events about its object, once its uid is known."""
        stored = self._registry.object_of(gang)
        if gang in self._events and stored is not None and stored.uid:
            about = regarding(gang, stored.uid)
            yield from (replace(event, regarding=about) for event in self._events.pop(gang))
