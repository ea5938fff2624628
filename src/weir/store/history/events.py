"""Events: everything that happened, in the order in which it was stored."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from threading import Lock
from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection, Row, and_, func, insert, not_, select

from weir.store.database.codec import mapping_of, record_of, row_of
from weir.store.database.database import Database, WriteListener
from weir.store.history.workload_sums import add_events
from weir.store.notifications.outbox import NotificationOutbox
from weir.store.records import HistoryEvent, RecordPage
from weir.store.tables import LIVE, events, workloads

PAGE_MAX = 1000
SENTENCE_MAX = 4096
STOPPING = "stopping"
"""Kind of the event that says why pods are stopped. Those of an eviction have its cause."""
AWAITED_S_MAX = 2.0
"""Time for which a reader waits for the events recorded before its question; a disk may hang."""
_INSERT = insert(events)

_LOG: Any = structlog.get_logger(__name__)

Hear = Callable[[Sequence[HistoryEvent]], None]


class EventHistory(WriteListener):
    """Events of a database. The writer assigns their numbers, so they follow the order of commits."""

    def __init__(self, database: Database, outbox: NotificationOutbox) -> None:
        self._database = database
        self._outbox = outbox
        newest = database.value(select(func.max(events.c.id)))
        self._committed = newest or 0
        self._written: list[HistoryEvent] = []
        self._hear: tuple[Hear, ...] = ()
        self._lock = Lock()
        self._recording: Future[None] = Future()  # commit of the newest events
        self._recording.set_result(None)
        database.listeners.append(self)

    # Calls of the writer

    def on_begin(self) -> None:
        """Discard events of a transaction that wasn't committed."""
        self._written = []

    def committed(self) -> None:
        """Notify the listeners."""
        written, self._written = self._written, []
        if written:
            self._committed = written[-1].id
            for hear in self._hear:
                try:
                    hear(written)
                except Exception:  # noqa: BLE001 - a failing listener doesn't undo a commit
                    _LOG.exception("a listener failed")

    def write(self, connection: Connection, happenings: Sequence[HistoryEvent]) -> None:
        """Write events and their notifications in a transaction of the writer's."""
        if not happenings:
            return
        first = self._committed + len(self._written) + 1
        rows = [
            replace(event, id=first + index, sentence=event.sentence[:SENTENCE_MAX])
            for index, event in enumerate(happenings)
        ]
        connection.execute(_INSERT, [row_of(row) for row in rows])
        add_events(connection, rows)
        self._outbox.enqueue(connection, rows)
        self._written += rows

    # Everyone's

    def record(self, happenings: Sequence[HistoryEvent]) -> None:
        """Write events soon.

        Not the ends of workloads: the journal records those (kind "ended", with `numbers["how"]`) in the
        transaction that ends them, once for each. Where an event is a workload's, give its `uid` too.
        """
        these = tuple(happenings)
        if these:
            self._recording = self._database.write(
                lambda connection: self.write(connection, these), durable=False
            )

    def _await_recorded(self) -> None:
        """Wait until the events recorded so far are stored, or refused; no answer lacks them."""
        if not self._recording.done():
            wait((self._recording,), AWAITED_S_MAX)

    def listen(self, hear: Hear) -> Callable[[], None]:
        """Call a function with new events, ends included, as soon as they are stored, in order.

        `hear` is called on the writer's thread and must be quick; the answer stops it.
        """
        with self._lock:
            self._hear = (*self._hear, hear)

        def stop() -> None:
            with self._lock:
                self._hear = tuple(listener for listener in self._hear if listener is not hear)

        return stop

    def page(
        self,
        *,
        workload: str | None = None,
        uid: int | None = None,
        projects: Sequence[str] = (),
        visible: Mapping[str, float] | None = None,
        kinds: Sequence[str] = (),
        after: int | None = None,
        limit: int = 100,
    ) -> RecordPage[HistoryEvent]:
        """Return a page of events, newest first; `after` is the number of the last one seen.

        A name selects all workloads that ever had it; no `projects` or `kinds` select all. `visible`: only
        events of these projects, each from the moment on at which it was made.
        """
        where: list[ColumnElement[bool]] = []
        if workload is not None:
            where.append(events.c.uid.in_(select(workloads.c.uid).where(workloads.c.name == workload)))
        if uid is not None:
            where.append(events.c.uid == uid)
        if projects:
            where.append(events.c.project.in_(projects))
        if visible is not None:
            where.append(events.c.project.in_(list(visible)))
            for name, made_s in visible.items():
                where.append(not_(and_(events.c.project == name, events.c.at_s < made_s)))
        if kinds:
            where.append(events.c.kind.in_(kinds))
        self._await_recorded()
        limit = max(1, min(limit, PAGE_MAX))
        query = select(events).where(*where)
        if after is not None:
            query = query.where(events.c.id < after)

        def read(connection: Connection) -> RecordPage[HistoryEvent]:
            rows = connection.execute(query.order_by(events.c.id.desc()).limit(limit + 1)).all()
            total = connection.execute(select(func.count()).select_from(events).where(*where)).scalar_one()
            items = [_history_event(row) for row in rows[:limit]]
            return RecordPage(items, total, items[-1].id if len(rows) > limit else None)

        return self._database.read(read)

    def last_evictions(self) -> list[HistoryEvent]:
        """Return the last eviction of each workload that isn't over."""
        live = select(workloads.c.uid).where(workloads.c.state == LIVE)
        newest = (
            select(func.max(events.c.id))
            .where(events.c.uid.in_(live), events.c.kind == STOPPING, events.c.numbers.contains('"cause"'))
            .group_by(events.c.uid)
        )
        query = select(events).where(events.c.id.in_(newest))
        return self._database.read(
            lambda connection: [_history_event(row) for row in connection.execute(query)]
        )


def _history_event(row: Row[Any]) -> HistoryEvent:
    return record_of(HistoryEvent, row, numbers=mapping_of(row.numbers))
