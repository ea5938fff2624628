"""Events of a workload for notifications, read from its object.

The object says when its run began, when it ended, and when it was evicted last. So a new leader finds the
events that an earlier one has not told, as long as the object is there.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from weir.control.port import LifecycleRule
from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.crd.objects import IdleStatus, WorkloadObject
from weir.model.notifications import Topic
from weir.model.reasons import as_clause
from weir.model.resources import span

ENDS = {"Succeeded": "succeeded", "Failed": "failed", "Stopped": "was stopped"}
NODES_NAMED_MAX = 4
_KEY_BYTES = 5


@dataclass(frozen=True, slots=True)
class WorkloadEvent:
    """An event of a workload. `key` is the same whenever the event is read again."""

    key: str
    at_s: float
    kind: str
    topics: frozenset[Topic]
    sentence: str


def events_of(
    uid: str, name: str, thing: WorkloadObject, now_s: float, *, reclaimed_at: str = ""
) -> Iterator[WorkloadEvent]:
    """Yield the events that the object of a workload states; `name` has its namespace.

    The object states no time of an idle warning: one that still holds is of now. `reclaimed_at` is the time
    of the last eviction that returned GPUs of the quota to this workload.
    """
    status = thing.status
    run = 0 if status.life is None else status.life.restarts
    if status.phase == "Running" and status.started_at:
        where = _where(status.nodes)
        yield _event(uid, f"start {run}", status.started_at, "started", f"{name} starts{where}.", "start")
        if reclaimed_at and reclaimed_at <= status.started_at:
            sentence = f"{thing.spec.project} got GPUs of its quota back for {name}"
            yield _event(uid, f"quota {reclaimed_at}", status.started_at, "quota_met", sentence, "quota")
    eviction = status.last_eviction
    if eviction is not None and eviction.at:
        sentence = f"{name} is evicted: {as_clause(eviction.sentence)}"
        yield _event(uid, f"eviction {eviction.at}", eviction.at, "stopping", sentence, "eviction")
    yield from _idle_events(uid, name, thing, now_s)
    if status.phase in ENDS and status.ended_at:
        yield _end(uid, name, thing, status.ended_at)


def deletion_of(uid: str, name: str, now_s: float) -> WorkloadEvent:
    """Return the end of a workload whose object is gone before it was over."""
    return WorkloadEvent(_key(uid, "end"), now_s, "ended", frozenset(("end",)), f"{name} was deleted.")


def _end(uid: str, name: str, thing: WorkloadObject, at: str) -> WorkloadEvent:
    """Return the end; one by a time rule or a failed dependency is a failure, as on a machine."""
    status = thing.status
    rule = "" if status.reason is None else status.reason.why
    is_failure = status.phase == "Failed" or (
        rule in LifecycleRule.__members__.values() and rule != LifecycleRule.WITHDRAWN
    )
    ran_s = 0.0 if status.life is None else status.life.ran_seconds
    after = f" after {span(ran_s)}" if ran_s >= 1 else ""
    why = f": {as_clause(status.reason.sentence)}" if status.reason and status.reason.sentence else "."
    topics: tuple[Topic, ...] = ("failure", "end") if is_failure else ("end",)
    return _event(uid, "end", at, "ended", f"{name} {ENDS[status.phase]}{after}{why}", *topics)


def _idle_events(uid: str, name: str, thing: WorkloadObject, now_s: float) -> Iterator[WorkloadEvent]:
    status = thing.status
    idle = IdleStatus() if status.life is None or status.life.idle is None else status.life.idle
    if status.idle_warning:
        part = f"idle {idle.run} {idle.notices} {idle.unprotected}"
        kind = "protection_lost" if idle.unprotected else "idle_warning"
        sentence = f"{name}: {as_clause(status.idle_warning)}"
        yield WorkloadEvent(_key(uid, part), now_s, kind, frozenset(("idle", "warning")), sentence)
    if status.suspended_for and status.since and status.phase == "Pending":
        sentence = f"{name} is suspended: {as_clause(status.suspended_for)}"
        yield _event(uid, f"suspended {status.since}", status.since, "idle_suspended", sentence, "idle")


def _where(nodes: list[str]) -> str:
    if not nodes:
        return ""
    more = len(nodes) - NODES_NAMED_MAX
    return f" on {', '.join(nodes[:NODES_NAMED_MAX])}{f' and {more} more nodes' if more > 0 else ''}"


def _event(uid: str, part: str, at: str, kind: str, sentence: str, *topics: Topic) -> WorkloadEvent:
    stop = "" if sentence.endswith((".", "!", "?")) else "."
    return WorkloadEvent(_key(uid, part), seconds_of(at), kind, frozenset(topics), f"{sentence}{stop}")


def _key(uid: str, part: str) -> str:
    return hashlib.blake2b(f"{uid} {part}".encode(), digest_size=_KEY_BYTES).hexdigest()
