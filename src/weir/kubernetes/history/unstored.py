"""Changes that aren't in the database yet, bounded. Every replica keeps them, because any may lead next.

What the API server still shows needs no copy: keys are enough. A workload whose object is gone is kept whole.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

from weir.kubernetes.query.workloads.event_index import EventIndex
from weir.kubernetes.query.workloads.index import LIVE, WorkloadIndex, WorkloadIndexEntry
from weir.kubernetes.query.workloads.rows import phase_status

REWRITTEN_WITHIN_S = 10.0
"""Time after which a live workload ends without an object; until then Weir recreates the object."""
REMOVED_MAX = 10_000
"""Limit of workloads without objects; the oldest are dropped."""
WORKLOADS, EVENTS = "deleted workloads", "events"
LOST_STEP_S = 3600.0
"""Losses are counted by hour: another leader may have stored changes that this replica dropped."""


@dataclass(slots=True)
class Unstored:
    """Changes to be stored: keys of workloads and events, and deleted workloads with the time."""

    workloads: list[str] = field(default_factory=list)
    removed: list[tuple[WorkloadIndexEntry, float]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)


class UnstoredChanges:
    """Changes since the last `take`. Changes come from the event loop; any thread may take them."""

    def __init__(self, workloads: WorkloadIndex, events: EventIndex) -> None:
        self._workloads: dict[str, None] = {}
        self._removed: OrderedDict[str, tuple[WorkloadIndexEntry, float]] = OrderedDict()
        self._events: dict[str, None] = {}
        self._lost: Counter[tuple[str, float]] = Counter()  # number by kind and end of the hour
        self._lock = Lock()
        self._index = workloads
        workloads.removed = self._remove
        events.added, events.dropped = self._add_event, self._drop_event

    def change(self, workload: WorkloadIndexEntry) -> None:
        """Record a changed workload, or one whose object was recreated."""
        with self._lock:
            self._workloads[workload.key] = None
            self._removed.pop(workload.identity, None)

    def _remove(self, last: WorkloadIndexEntry, at_s: float) -> None:
        with self._lock:
            self._workloads.pop(last.key, None)  # else a standby would keep the keys of all past workloads
            self._removed[last.identity] = last, at_s
            self._bound()

    def _bound(self) -> None:
        while len(self._removed) > REMOVED_MAX:
            _, (_, at_s) = self._removed.popitem(last=False)
            self._lose(WORKLOADS, at_s)

    def _lose(self, kind: str, at_s: float) -> None:
        self._lost[kind, (at_s // LOST_STEP_S + 1) * LOST_STEP_S] += 1

    def _add_event(self, key: str) -> None:
        with self._lock:
            self._events[key] = None

    def _drop_event(self, key: str, at_s: float) -> None:
        with self._lock:
            if key in self._events:
                del self._events[key]
                self._lose(EVENTS, at_s)

    def take(self, now_s: float) -> Unstored:
        """Return and forget all changes, except of live workloads whose objects may be recreated."""
        with self._lock:
            early = OrderedDict(
                (identity, (last, at_s))
                for identity, (last, at_s) in self._removed.items()
                if abs(now_s - at_s) < REWRITTEN_WITHIN_S
                and phase_status(last.object) in LIVE
                and self._index.named(last.namespace, last.name) is None
            )
            removed = [removal for identity, removal in self._removed.items() if identity not in early]
            taken = Unstored([*self._workloads], removed, [*self._events])
            self._workloads.clear()
            self._removed = early
            self._events.clear()
        return taken

    def removed(self) -> list[WorkloadIndexEntry]:
        """Return the workloads without objects that aren't stored as ended."""
        with self._lock:
            return [last for last, _ in self._removed.values()]

    def give_back(self, taken: Unstored) -> None:
        """Keep changes after a failed write, before newer ones."""
        with self._lock:
            self._workloads = {**dict.fromkeys(taken.workloads), **self._workloads}
            self._events = {**dict.fromkeys(taken.events), **self._events}
            later = self._removed
            self._removed = OrderedDict(
                (workload.identity, (workload, at_s)) for workload, at_s in taken.removed
            )
            self._removed.update(later)
            self._bound()

    def put_off(self, events: Iterable[str]) -> None:
        """Keep events for a later write, before newer ones."""
        with self._lock:
            self._events = {**dict.fromkeys(events), **self._events}

    def stored_until(self, at_s: float) -> None:
        """Take note that a leader has stored everything up to a time: earlier drops aren't losses."""
        with self._lock:
            self._lost = Counter({key: count for key, count in self._lost.items() if key[1] > at_s})

    def lost(self) -> "Counter[str]":
        """Return how many were dropped since the last call, by kind."""
        counts: Counter[str] = Counter()
        with self._lock:
            lost, self._lost = self._lost, Counter()
        for (kind, _), count in lost.items():
            counts[kind] += count
        return counts
