"""Events of the last hours: Weir's reports on workloads and their pods, on every replica.

An API server keeps Events for an hour, and a replica keeps those it has seen for KEPT_S. Beyond EVENTS_MAX
the namespace with the most Events loses its oldest one: a tenant can't displace the Events of others.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest

from weir.api.answers import EventFilter, EventRow
from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.object_numbers import at_s
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.query.workloads.index import WorkloadIndex
from weir.kubernetes.query.workloads.rows import (
    WORKLOAD,
    EventView,
    RegardingView,
    event_at_s,
    event_kind,
    event_number,
    event_row,
    stated_s,
)

PATH = path_of("events.k8s.io/v1", "events")
KEPT_S = 6 * 3600.0
EVENTS_MAX = 20_000
REASON_MAX, NOTE_MAX, NAME_MAX = 128, 1024, 253
"""Characters of an Event. `v1` allows longer texts than `events.k8s.io/v1`."""


IndexedEvent = tuple[EventView, str | None, str | None]
"""An event, the workload that it is about, and its project."""


class EventIndex:
    """Finds Weir's Events by the key of their object, the oldest first."""

    def __init__(self, workloads: WorkloadIndex, clock: Callable[[], float] = time.time) -> None:
        self._workloads = workloads
        self._events: OrderedDict[str, tuple[float, EventView, str | None, str | None]] = OrderedDict()
        self._of_namespace: dict[str, deque[str]] = {}  # keys, the oldest first
        self._clock = clock
        self.added: Callable[[str], None] = lambda _key: None
        """Called with the key of each new event."""
        self.dropped: Callable[[str, float], None] = lambda _key, _at_s: None
        """Called with the key and the time of each event that isn't kept any more."""

    def __len__(self) -> int:
        return len(self._events)

    def deliver(self, changes: Sequence[Change[EventView]]) -> None:
        """Process changes. An Event that the API server deletes is kept until it is old."""
        for change in changes:
            if isinstance(change, ObjectSet) and change.key not in self._events:
                self._add(change.key, change.object)
            elif isinstance(change, ObjectRemoved):
                self._drop_old()

    def _add(self, key: str, view: EventView) -> None:
        event = _bounded(view)
        name, project = self._about(event)
        now_s = self._clock()
        stamp = min(now_s, at_s(event.event_time or event.metadata.creation_timestamp) or now_s)
        self._events[key] = stamp, event, name, project
        self._of_namespace.setdefault(_namespace_of(key), deque()).append(key)
        self._drop_old()
        if len(self._events) > EVENTS_MAX:
            self._drop_first(max(self._of_namespace.items(), key=lambda pair: len(pair[1]))[0])
        self.added(key)

    def _drop_old(self) -> None:
        oldest_s = self._clock() - KEPT_S
        while self._events:
            key, (stamp, *_) = next(iter(self._events.items()))
            if stamp >= oldest_s:
                return
            self._drop_first(_namespace_of(key))

    def _drop_first(self, namespace: str) -> None:
        keys = self._of_namespace[namespace]
        key = keys.popleft()
        if not keys:
            del self._of_namespace[namespace]
        self.dropped(key, self._events.pop(key)[0])

    def _about(self, event: EventView) -> tuple[str | None, str | None]:
        """Return the workload that an Event is about, and its project."""
        about = event.regarding
        if about.kind == WORKLOAD:
            workload = self._workloads.get(about.namespace, about.name)
            name: str | None = f"{about.namespace}/{about.name}"
        else:
            workload = self._workloads.owner_of(about.namespace, about.name)
            name = None if workload is None else workload.key
        return name, None if workload is None else workload.object.spec.project or None

    def all(self) -> list[IndexedEvent]:
        """Return all events at this moment, with their workloads and projects."""
        return self._with_projects(self._events.values())

    def keys(self) -> list[str]:
        """Return the keys of all events, the oldest first."""
        return list(self._events)

    def some(self, keys: Iterable[str]) -> list[IndexedEvent]:
        """Return the events of these keys that are still kept."""
        events = (self._events.get(key) for key in keys)
        return self._with_projects([event for event in events if event is not None])

    def _with_projects(
        self, kept: Iterable[tuple[float, EventView, str | None, str | None]]
    ) -> list[IndexedEvent]:
        return [
            (event, name, project) if project is not None else (event, *self._about(event))
            for _, event, name, project in kept
        ]


def _namespace_of(key: str) -> str:
    return key.partition("/")[0]


def _bounded(event: EventView) -> EventView:
    """Return the parts of an Event that are kept, each of them bounded."""
    meta, about = event.metadata, event.regarding
    return EventView(
        Metadata(
            name=meta.name,
            uid=meta.uid,
            namespace=meta.namespace,
            creation_timestamp=meta.creation_timestamp,
        ),
        event.event_time,
        event.reason[:REASON_MAX],
        event.note[:NOTE_MAX],
        RegardingView(about.kind[:NAME_MAX], about.namespace[:NAME_MAX], about.name[:NAME_MAX]),
    )


def matching_events(
    events: Sequence[IndexedEvent], query: EventFilter, start: int, limit: int
) -> tuple[int, list[EventRow]]:
    """Return the number of selected events, and a page of them, newest first.

    Each open dashboard asks every few seconds, so rows are made for the page alone.
    """
    wanted = (
        (event_at_s(event[0]), event)
        for event in events
        if query.namespace in ("", event[0].regarding.namespace)
        and query.workload in ("", event[1])
        and (not query.projects or event[2] in query.projects)
        and (not query.kinds or event_kind(event[0].reason) in query.kinds)
    )
    selected = [(stamp_s, event) for stamp_s, event in wanted if stamp_s >= query.since_s]
    first = nlargest(start + limit, selected, key=_newest)
    return len(selected), [event_row(*event) for _, event in first[start:]]


def _newest(selected: tuple[float, IndexedEvent]) -> tuple[float, int]:
    stamp_s, (event, *_) = selected
    return stamp_s, event_number(event, stated_s(event))
