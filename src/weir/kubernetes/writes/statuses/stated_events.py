"""Events of a workload for notifications, as its status states them.

Most fields of a status hold the newest event of their kind alone. So a status that overwrites an event lists
it among the past events. From there the next leader reports the events that an earlier leader hasn't
reported.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import msgspec

from weir.control.port import LifecycleRule
from weir.kubernetes.api.object_numbers import moment, seconds_of
from weir.kubernetes.crd.notification_objects import SENTENCE_MAX
from weir.kubernetes.crd.objects import PAST_EVENTS_MAX, IdleStatus, WorkloadObject, WorkloadStatus
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.writes.statuses.values import Words
from weir.model.plain_text import printable
from weir.model.reasons import EvictionCause, EvictionRule, as_clause
from weir.model.resources import span

ENDS = {"Succeeded": "succeeded", "Failed": "failed", "Stopped": "was stopped"}
NODES_NAMED_MAX = 4
_READ = (
    *("phase", "nodes", "reason", "lastEviction", "since", "startedAt", "endedAt"),
    *("suspendedFor", "idleWarning", "life"),
)
"""Fields of a status that state events."""


@dataclass(frozen=True, slots=True)
class StatedEvent:
    """An event. `id` is the same whenever the event is read, and unique within its workload."""

    id: str
    at_s: float
    kind: str
    topics: tuple[str, ...]
    sentence: str

    @property
    def words(self) -> Words:
        """Return the event as a status lists it."""
        named = {"id": self.id, "at": moment(self.at_s), "kind": self.kind}
        return {**named, "topics": list(self.topics), "sentence": printable(self.sentence, SENTENCE_MAX)}


def stated_events(name: str, project: str, status: WorkloadStatus, now_s: float) -> Iterator[StatedEvent]:
    """Yield the events that a status states; `name` has the namespace.

    A status has no time of an idle warning: a valid warning gets the present time.
    """
    run = 0 if status.life is None else status.life.restarts
    if status.phase == "Running" and status.started_at:
        where = _where(status.nodes)
        yield _event(f"start {run}", status.started_at, "started", f"{name} starts{where}.", "start")
        returned_at = status.quota_returned_at
        if returned_at and returned_at <= status.started_at:
            sentence = f"{project} got GPUs of its quota back for {name}"
            yield _event(f"quota {returned_at}", status.started_at, "quota_met", sentence, "quota")
    eviction = status.last_eviction
    if eviction is not None and eviction.at:
        yield eviction_event(name, eviction.at, eviction.sentence)
    yield from _idle_events(name, status, now_s)
    if status.phase in ENDS and status.ended_at:
        yield _end(name, status, status.ended_at)
    for past_event in status.past_events:
        yield _event(past_event.id, past_event.at, past_event.kind, past_event.sentence, *past_event.topics)


def eviction_event(name: str, evicted_at: str, sentence: str) -> StatedEvent:
    """Return the event of an eviction."""
    return _event(
        f"eviction {evicted_at}",
        evicted_at,
        "stopping",
        f"{name} is evicted: {as_clause(sentence)}",
        "eviction",
    )


def _end(name: str, status: WorkloadStatus, ended_at: str) -> StatedEvent:
    """Return the end as an event; an end by a time rule or a failed dependency counts as a failure."""
    rule = "" if status.reason is None else status.reason.why
    is_failure = status.phase == "Failed" or (
        rule in LifecycleRule.__members__.values() and rule != LifecycleRule.WITHDRAWN
    )
    ran_s = 0.0 if status.life is None else status.life.ran_seconds
    after = f" after running for {span(ran_s)}" if ran_s >= 1 else ""
    why = f": {as_clause(status.reason.sentence)}" if status.reason and status.reason.sentence else "."
    topics: tuple[str, ...] = ("failure", "end") if is_failure else ("end",)
    return _event("end", ended_at, "ended", f"{name} {ENDS[status.phase]}{after}{why}", *topics)


def _idle_events(name: str, status: WorkloadStatus, now_s: float) -> Iterator[StatedEvent]:
    idle = IdleStatus() if status.life is None or status.life.idle is None else status.life.idle
    if status.idle_warning:
        id_ = f"idle {idle.run} {idle.notices} {idle.unprotected}"
        kind = "protection_lost" if idle.unprotected else "idle_warning"
        sentence = f"{name}: {as_clause(status.idle_warning)}"
        yield StatedEvent(id_, now_s, kind, ("idle", "warning"), sentence)
    if status.suspended_for and status.since and status.phase == "Pending":
        sentence = f"{name} is suspended: {as_clause(status.suspended_for)}"
        yield _event(f"suspended {status.since}", status.since, "idle_suspended", sentence, "idle")


def _where(nodes: list[str]) -> str:
    if not nodes:
        return ""
    unnamed = len(nodes) - NODES_NAMED_MAX
    return f" on {', '.join(nodes[:NODES_NAMED_MAX])}{f' and {unnamed} more nodes' if unnamed > 0 else ''}"


def _event(id_: str, stated_at: str, kind: str, sentence: str, *topics: str) -> StatedEvent:
    stop = "" if sentence.endswith((".", "!", "?")) else "."
    return StatedEvent(id_, seconds_of(stated_at), kind, topics, f"{sentence}{stop}")


@dataclass(slots=True)
class _GangEvents:
    """Events of a workload by their ids: those that its last status stated, and earlier ones."""

    stated: dict[str, StatedEvent] = field(default_factory=dict)
    past: dict[str, StatedEvent] = field(default_factory=dict)
    quota_returned_at: str = ""
    has_news: bool = False  # True: an eviction that no status states yet


class PastEvents:
    """Past events of workloads, for their statuses.

    `has_rules` returns True if a namespace has notification rules. Nothing is kept of other namespaces.
    """

    def __init__(self) -> None:
        self.has_rules: Callable[[str], bool] = lambda _: False
        self._events: dict[Gang, _GangEvents] = {}

    def evicted(self, gang: Gang, cause: EvictionCause, now_s: float) -> None:
        """Record an eviction: the next one may come before a status states it."""
        if self.has_rules(gang.key.namespace):
            event, events = eviction_event(gang.name, moment(now_s), cause.sentence), self._events_of(gang)
            events.stated.setdefault(event.id, event)
            events.has_news = True

    def returns_quota(self, gang: Gang, cause: EvictionCause, now_s: float) -> Words:
        """Record an eviction for a workload; return the fields of its status that keep it."""
        is_return = cause.rule == EvictionRule.RECLAIM_QUOTA and self.has_rules(gang.key.namespace)
        if not is_return or (events := self._events_of(gang)).quota_returned_at == moment(now_s):
            return {}
        events.quota_returned_at = moment(now_s)
        return {"quotaReturnedAt": events.quota_returned_at}

    def has_news(self, gang: Gang) -> bool:
        """Return True if no status states the last eviction of a workload yet."""
        events = self._events.get(gang)
        return events is not None and events.has_news

    def add_to(self, status: Words, gang: Gang, workload_object: WorkloadObject | None, now_s: float) -> None:
        """Add the past events to a new status; `workload_object` is the object as it was last seen.

        The events of its status are included, since another leader may have written them.
        """
        before = WorkloadStatus() if workload_object is None else workload_object.status
        news = (
            self._news_of(status, gang, workload_object, now_s) if self.has_rules(gang.key.namespace) else {}
        )
        if not news:
            self._events.pop(gang, None)
        for key, listed in (
            ("quotaReturnedAt", before.quota_returned_at),
            ("pastEvents", before.past_events),
        ):
            if news.get(key) or listed:
                status[key] = news.get(key) or None

    def _news_of(
        self, status: Words, gang: Gang, workload_object: WorkloadObject | None, now_s: float
    ) -> Words:
        events, project = self._events_of(gang), gang.project or ""
        if workload_object is not None and workload_object.spec.owner.uid == gang.key.uid:
            events.quota_returned_at = max(
                events.quota_returned_at, workload_object.status.quota_returned_at or ""
            )
            for event in stated_events(gang.name, project, workload_object.status, now_s):
                events.stated.setdefault(event.id, event)
        read = {name: status[name] for name in _READ if status.get(name) is not None}
        new = msgspec.convert(read, WorkloadStatus)
        new.quota_returned_at = events.quota_returned_at
        stated = {event.id: event for event in stated_events(gang.name, project, new, now_s)}
        past = {**events.past, **events.stated}
        kept = sorted(
            (event for id_, event in past.items() if id_ not in stated), key=lambda event: event.at_s
        )
        events.past = {event.id: event for event in kept[-PAST_EVENTS_MAX:]}
        times = {id_: event.at_s for id_, event in events.stated.items()}
        events.stated = {
            id_: replace(event, at_s=times.get(id_, event.at_s)) for id_, event in stated.items()
        }
        events.has_news = False
        return {
            "quotaReturnedAt": events.quota_returned_at,
            "pastEvents": [event.words for event in events.past.values()],
        }

    def _events_of(self, gang: Gang) -> _GangEvents:
        return self._events.setdefault(gang, _GangEvents())

    def drop(self, gang: Gang) -> None:
        """Forget a workload."""
        self._events.pop(gang, None)
