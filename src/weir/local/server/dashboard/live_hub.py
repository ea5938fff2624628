"""Live stream of the dashboard: the list once, then changes, at most four frames a second."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from itertools import islice

from pydantic_core import to_json

from weir.api.answers import Answer, EventRow, NodeRow, QueueRow, WorkloadRow
from weir.dashboard.live_feed import LiveFeed, LiveReader
from weir.dashboard.live_frames import (
    GZIP_HEADER,
    answer_json,
    compressed,
    frame,
    joined,
    workload_columns,
)
from weir.dashboard.live_table import ENDED_MAX, LiveTable
from weir.local.server.access.authorization import Action, Person, may
from weir.local.server.pool import PoolService
from weir.local.server.views.event_stream import Change
from weir.service.queue_rows import node_rows

TICK_S = 0.25
CROWDED_TICK_S = 0.5
"""Time between frames with more than UNCROWDED_MAX readers: sending takes time from decisions."""
UNCROWDED_MAX = 10
EVENTS_MAX = 200
"""Limit of events in one frame for one reader; a page that lost some loads them by REST."""


class LiveHub:
    """The live stream. Belongs to the event loop."""

    def __init__(self, pool: PoolService, audited: Callable[[], int]) -> None:
        """Create the hub. `audited` returns the number of lines of the audit log."""
        self._pool = pool
        self._audited = audited
        self._feed: LiveFeed[Person] = LiveFeed()
        self._table = self._feed.table
        self._events: list[EventRow] = []
        self._backlog: list[Change] | None = None  # changes during a load of the table
        self._task: asyncio.Task[None] | None = None
        self._loaded = asyncio.Lock()
        self._device_use: object = None
        self._readings = 0  # number of device readings; a page reads curves again after each
        self._for_administrators = b""
        self._rows: object = None  # rows from which the table was loaded

    def join(self, person: Person) -> LiveReader[Person] | None:
        """Return a new reader; None if there are too many."""
        return None if self._pool.closing else self._feed.join(person)

    async def frames(self, reader: LiveReader[Person]) -> AsyncIterator[bytes]:
        """Yield the frames of a reader as one gzip stream."""
        try:
            yield GZIP_HEADER
            await self._start()
            while not self._pool.closing:
                if reader.behind:
                    reader.catch_up()
                    self._tick()
                    yield await self._feed.packed_whole()
                    if may(reader.person, Action.ADMINISTER):
                        yield self._administration()
                elif packed := await reader.next():
                    yield packed
        finally:
            self._feed.readers.discard(reader)
            if not self._feed.readers:
                self._stop()

    async def _start(self) -> None:
        """Load the table for the first reader, and follow the changes from then on."""
        async with self._loaded:
            if self._task is not None:
                return
            pool = self._pool
            self._table, self._backlog = LiveTable(), []
            pool.stream.observe(self._observe)
            pool.control_thread.wake()
            try:
                queues = await pool.queue_rows()
                nodes = await pool.query(lambda cluster: node_rows(cluster, pool.device_use))
                await asyncio.to_thread(self._load)
            except BaseException:
                pool.stream.observers.discard(self._observe)
                self._backlog = None
                raise
            self._apply([("queue", row, None) for row in queues.values()])
            self._apply([("node", row, None) for row in nodes])
            backlog, self._backlog = self._backlog or [], None
            self._apply(backlog)
            self._feed.begin(self._table, self._status_now())
            self._task = asyncio.get_running_loop().create_task(self._run())

    def _load(self) -> None:
        """Encode all workloads; the rows are immutable, so this may be another thread."""
        pool, table = self._pool, self._table
        self._rows = pool.view.rows
        for row in reversed(pool.view.listed()):
            table.rows[row.uid] = workload_columns(pool.on_wall_clock(pool.view.with_reason(row)))
        ended = [row for row in list(pool.view.ended.values()) if row.index is None][-ENDED_MAX:]
        for row in ended:
            table.ended[row.uid] = workload_columns(pool.on_wall_clock(row))

    def _stop(self) -> None:
        self._pool.stream.observers.discard(self._observe)
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._table, self._events = LiveTable(), []
        self._feed.begin(self._table)

    def _observe(self, changes: Sequence[Change]) -> None:
        """Apply published changes to the table; during a reload, collect them for its end."""
        if self._backlog is not None:
            self._backlog.extend(changes)
        else:
            self._apply(changes)

    def _apply(self, changes: Sequence[Change]) -> None:
        nodes: dict[str, None] = {}
        for _, answer, _ in changes:
            shown: Answer = self._pool.on_wall_clock(answer)
            if isinstance(shown, WorkloadRow):
                self._table.set_workload(shown)
            elif isinstance(shown, QueueRow):
                self._table.set_queue(shown)
            elif isinstance(shown, NodeRow):
                nodes[shown.name] = None
                self._table.set_node(shown)
            elif isinstance(shown, EventRow):
                self._events.append(shown)

    async def _run(self) -> None:
        """Make a frame of the changes, four times a second, or twice for many readers."""
        with suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(TICK_S if len(self._feed.readers) <= UNCROWDED_MAX else CROWDED_TICK_S)
                if self._pool.view.rows is not self._rows:
                    await self._reload()
                await self._refresh_devices()
                self._tick()

    async def _reload(self) -> None:
        """Begin again with the rows of a new control."""
        old, self._table = self._table, LiveTable()
        self._table.queues, self._table.nodes = old.queues, old.nodes
        await asyncio.to_thread(self._load)
        self._feed.begin(self._table, self._status_now())

    async def _refresh_devices(self) -> None:
        """Send new readings of the devices. They change without an event of control."""
        pool = self._pool
        if pool.device_use is self._device_use:
            return
        self._device_use = pool.device_use
        self._readings += 1
        with suppress(Exception):  # the next reading tries again
            rows = await pool.query(lambda cluster: node_rows(cluster, pool.device_use))
            self._apply([("node", row, None) for row in rows])

    def _tick(self) -> None:
        self._table.keep_queues(self._pool.inventory.queues_by_name)
        self._feed.tick(self._status_now())
        events, self._events = self._events, []
        if events:
            self._send_events(events)
        self._send_administration()

    def _send_events(self, events: Sequence[EventRow]) -> None:
        """Send events to the people who may read them; readers with the same rights share a frame."""
        made: dict[tuple[bool, frozenset[str]], bytes] = {}
        for reader in self._feed.readers:
            person = reader.person
            key = (may(person, Action.ADMINISTER), person.scopes)
            if key not in made:
                visible = (
                    row for row in events if row.project is None or may(person, Action.VIEW, row.project)
                )
                texts = [answer_json(row) for row in islice(visible, EVENTS_MAX)]
                parts = [("kind", b'"events"'), ("events", joined(texts))]
                made[key] = compressed(frame(parts)) if texts else b""
            if made[key]:
                reader.give(made[key])

    def _send_administration(self) -> None:
        """Send data for administrators, if it changed."""
        packed = self._administration()
        if packed != self._for_administrators:
            self._for_administrators = packed
            for reader in self._feed.readers:
                if may(reader.person, Action.ADMINISTER):
                    reader.give(packed)

    def _administration(self) -> bytes:
        """Return the frame for administrators: the running replay, and how many lines the audit log has."""
        parts = [("replay", to_json(self._pool.what_if.progress)), ("audit", to_json(self._audited()))]
        return compressed(frame([("kind", b'"administration"'), *parts]))

    def _status_now(self) -> bytes:
        pool = self._pool
        return to_json({"trouble": pool.trouble, "policy": pool.policy.preset, "readings": self._readings})
