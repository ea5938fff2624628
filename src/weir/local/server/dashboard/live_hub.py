"""Live stream of the dashboard: the list once, then what changed, at most four frames a second.

One table of encoded rows serves all readers. A change replaces a row of it, whichever number of times; a
tick makes one frame of the rows that changed. A new reader begins with the whole table, and so does one that
has fallen behind: nothing is shown that mixes two states.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from pydantic_core import to_json

from weir.api.answers import Answer, EventRow, NodeRow, QueueRow, WorkloadRow
from weir.local.server.authorization import Action, Person, may
from weir.local.server.dashboard.live_frames import (
    COLUMNS,
    GZIP_HEADER,
    answer_json,
    compressed,
    frame,
    joined,
    workload_columns,
)
from weir.local.server.event_stream import Change
from weir.local.server.pool import PoolService
from weir.service.queue_rows import node_rows

TICK_S = 0.25
CROWDED_TICK_S = 0.5
"""Time between frames with more than UNCROWDED_MAX readers: sending takes time from decisions."""
UNCROWDED_MAX = 10
HEARTBEAT_S = 5.0
FRAMES_BEHIND_MAX = 40
"""Frames that a reader may be behind before it gets the whole list again."""
READERS_MAX = 200
ENDED_MAX = 100
"""Workloads that ended last, in the list."""
EVENTS_MAX = 200
"""Events of one tick for one reader; a page that lost some loads them by REST."""
_OVER = frozenset({"succeeded", "failed", "stopped"})
_HEARTBEAT = compressed(b"\n")


class LiveReader:
    """A page that reads along."""

    __slots__ = ("behind", "frames", "person", "wake")

    def __init__(self, person: Person) -> None:
        self.person = person
        self.frames: list[bytes] = []
        self.behind = True  # it needs the whole list
        self.wake = asyncio.Event()

    def give(self, packed: bytes) -> None:
        """Have a frame sent; one that is too far behind gets the whole list instead of all others."""
        if self.behind:
            return
        self.frames.append(packed)
        if len(self.frames) > FRAMES_BEHIND_MAX:
            self.frames.clear()
            self.behind = True
        self.wake.set()


class LiveTable:
    """Encoded rows, and which of them changed since the last frame."""

    def __init__(self) -> None:
        self.rows: dict[int, bytes] = {}
        self.ended: dict[int, bytes] = {}
        self.queues: dict[str, bytes] = {}
        self.nodes: dict[str, bytes] = {}
        self.changed: dict[int, bytes] = {}
        self.changed_queues: dict[str, bytes] = {}
        self.changed_nodes: dict[str, bytes] = {}
        self.gone: dict[str, list[str]] = {"queues": [], "nodes": []}

    def set_workload(self, row: WorkloadRow) -> None:
        """Take in a row of a workload, live or over."""
        text, uid = workload_columns(row), row.uid
        if row.status in _OVER:
            self.rows.pop(uid, None)
            self.ended[uid] = text
            while len(self.ended) > ENDED_MAX:
                del self.ended[next(iter(self.ended))]
        elif self.rows.get(uid) == text or uid in self.ended:
            return
        else:
            self.rows[uid] = text
        self.changed[uid] = text

    def set_queue(self, row: QueueRow) -> None:
        """Take in a department or project."""
        text = answer_json(row)
        if self.queues.get(row.name) != text:
            self.queues[row.name] = self.changed_queues[row.name] = text

    def set_node(self, row: NodeRow) -> None:
        """Take in a node."""
        text = answer_json(row)
        if self.nodes.get(row.name) != text:
            self.nodes[row.name] = self.changed_nodes[row.name] = text

    def keep_queues(self, names: Mapping[str, object]) -> None:
        """Drop departments and projects that were deleted."""
        for name in [name for name in self.queues if name not in names]:
            del self.queues[name]
            self.changed_queues.pop(name, None)
            self.gone["queues"].append(name)

    def whole(self, status: bytes) -> bytes:
        """Return the frame of everything."""
        return frame(
            [
                ("kind", b'"list"'),
                ("columns", to_json(COLUMNS)),
                ("rows", joined(self.rows.values())),
                ("ended", joined(self.ended.values())),
                ("queues", joined(self.queues.values())),
                ("nodes", joined(self.nodes.values())),
                ("status", status),
            ]
        )

    def take_changes(self) -> list[tuple[str, bytes]]:
        """Return the parts of a frame that changed since the last call."""
        parts = []
        for name, rows in (
            ("rows", self.changed),
            ("queues", self.changed_queues),
            ("nodes", self.changed_nodes),
        ):
            if rows:
                parts.append((name, joined(rows.values())))
        if any(self.gone.values()):
            parts.append(("gone", to_json(self.gone)))
        self.changed, self.changed_queues, self.changed_nodes = {}, {}, {}
        self.gone = {"queues": [], "nodes": []}
        return parts


class LiveHub:
    """The live stream. Belongs to the event loop."""

    def __init__(self, pool: PoolService, audited: Callable[[], int]) -> None:
        """`audited` returns the number of lines of the audit log."""
        self._pool = pool
        self._audited = audited
        self._readers: set[LiveReader] = set()
        self._table = LiveTable()
        self._events: list[EventRow] = []
        self._backlog: list[Change] | None = None  # changes while the table is being loaded
        self._task: asyncio.Task[None] | None = None
        self._loaded = asyncio.Lock()
        self._whole: bytes | None = None  # compressed, of the present table
        self._status = b""
        self._device_use: object = None
        self._readings = 0  # of the devices: a page reads curves again after each
        self._for_administrators = b""
        self._version = 0  # of the table
        self._rows: object = None  # of the view that the table was loaded from

    @property
    def readers(self) -> int:
        """Return the number of readers."""
        return len(self._readers)

    def join(self, person: Person) -> LiveReader | None:
        """Return a new reader; None if there are too many."""
        if len(self._readers) >= READERS_MAX or self._pool.closing:
            return None
        reader = LiveReader(person)
        self._readers.add(reader)
        return reader

    async def frames(self, reader: LiveReader) -> AsyncIterator[bytes]:
        """Yield what a reader is sent, as one gzip stream."""
        try:
            yield GZIP_HEADER
            await self._start()
            while not self._pool.closing:
                if reader.behind:
                    reader.frames.clear()
                    reader.behind = False
                    yield await self._packed_whole()
                    if may(reader.person, Action.ADMINISTER):
                        yield self._administration()
                    continue
                if not reader.frames:
                    reader.wake.clear()
                    try:
                        await asyncio.wait_for(reader.wake.wait(), HEARTBEAT_S)
                    except TimeoutError:
                        yield _HEARTBEAT
                        continue
                batch, reader.frames = reader.frames, []
                if batch:
                    yield b"".join(batch)
        finally:
            self._readers.discard(reader)
            if not self._readers:
                self._stop()

    async def _start(self) -> None:
        """Load the table for the first reader, and follow the changes from then on."""
        async with self._loaded:
            if self._task is not None:
                return
            pool = self._pool
            self._table, self._backlog, self._whole = LiveTable(), [], None
            pool.stream.observers.add(self._observe)
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
            self._status = self._status_now()
            self._table.take_changes()
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
        self._table, self._whole, self._events = LiveTable(), None, []

    def _observe(self, changes: Sequence[Change]) -> None:
        """Take in changes as they are published."""
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
        """Make a frame of what changed, four times a second, or twice for many readers."""
        with suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(TICK_S if len(self._readers) <= UNCROWDED_MAX else CROWDED_TICK_S)
                if self._pool.view.rows is not self._rows:
                    await self._reload()
                await self._refresh_devices()
                self._tick()

    async def _reload(self) -> None:
        """Begin again with the rows of a new control."""
        old, self._table = self._table, LiveTable()
        self._table.queues, self._table.nodes = old.queues, old.nodes
        await asyncio.to_thread(self._load)
        self._whole = None
        self._version += 1
        for reader in self._readers:
            reader.behind = True
            reader.wake.set()

    async def _refresh_devices(self) -> None:
        """Take in new readings of the devices: nothing else tells of them."""
        pool = self._pool
        if pool.device_use is self._device_use:
            return
        self._device_use = pool.device_use
        self._readings += 1
        with suppress(Exception):  # the next reading tries again
            rows = await pool.query(lambda cluster: node_rows(cluster, pool.device_use))
            self._apply([("node", row, None) for row in rows])

    def _tick(self) -> None:
        self._table.keep_queues(self._pool.inventory.of)
        parts = self._table.take_changes()
        status = self._status_now()
        if status != self._status:
            self._status = status
            parts.append(("status", status))
        events, self._events = self._events, []
        if parts:
            self._whole = None
            self._version += 1
            packed = compressed(frame([("kind", b'"delta"'), *parts]))
            for reader in self._readers:
                reader.give(packed)
        if events:
            self._send_events(events)
        self._send_administration()

    def _send_events(self, events: Sequence[EventRow]) -> None:
        """Send events to the people who may read them; readers with the same rights share a frame."""
        made: dict[tuple[bool, frozenset[str]], bytes] = {}
        for reader in self._readers:
            person = reader.person
            key = (may(person, Action.ADMINISTER), person.scopes)
            if key not in made:
                mine = (row for row in events if row.project is None or may(person, Action.VIEW, row.project))
                texts = [answer_json(row) for row in islice(mine, EVENTS_MAX)]
                parts = [("kind", b'"events"'), ("events", joined(texts))]
                made[key] = compressed(frame(parts)) if texts else b""
            if made[key]:
                reader.give(made[key])

    def _send_administration(self) -> None:
        """Send what only administrators may read, if it changed."""
        packed = self._administration()
        if packed != self._for_administrators:
            self._for_administrators = packed
            for reader in self._readers:
                if may(reader.person, Action.ADMINISTER):
                    reader.give(packed)

    def _administration(self) -> bytes:
        """Return the frame for administrators: the running replay, and how many lines the audit log has."""
        parts = [("replay", to_json(self._pool.what_if.progress)), ("audit", to_json(self._audited()))]
        return compressed(frame([("kind", b'"administration"'), *parts]))

    async def _packed_whole(self) -> bytes:
        """Return the compressed frame of everything; readers that join together share it."""
        self._tick()
        if self._whole is None:
            version = self._version
            packed = await asyncio.to_thread(compressed, self._table.whole(self._status))
            if version != self._version:
                return packed
            self._whole = packed
        return self._whole

    def _status_now(self) -> bytes:
        pool = self._pool
        return to_json({"trouble": pool.trouble, "policy": pool.policy.preset, "readings": self._readings})
