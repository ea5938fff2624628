"""Readers of the live stream, and the frames that they share.

One table of encoded rows serves all readers. A change replaces a row of it, whichever number of times; a
tick makes one frame of the rows that changed. A new reader begins with the whole table, and so does one that
has fallen behind: nothing is shown that mixes two states.
"""

import asyncio
from typing import Generic, TypeVar

from weir.dashboard.live_frames import compressed, frame
from weir.dashboard.live_table import LiveTable

HEARTBEAT_S = 5.0
FRAMES_BEHIND_MAX = 40
"""Frames that may be queued for a reader before it gets the whole list again."""
READERS_MAX = 200
_HEARTBEAT = compressed(b"\n")
PersonT = TypeVar("PersonT")


class LiveReader(Generic[PersonT]):
    """A page that reads along."""

    __slots__ = ("behind", "frames", "person", "wake")

    def __init__(self, person: PersonT) -> None:
        self.person = person
        self.frames: list[bytes] = []
        self.behind = True  # True: it needs the whole list
        self.wake = asyncio.Event()

    def give(self, packed: bytes) -> None:
        """Queue a frame; a reader too far behind gets the whole list instead."""
        if self.behind:
            return
        self.frames.append(packed)
        if len(self.frames) > FRAMES_BEHIND_MAX:
            self.frames.clear()
            self.behind = True
        self.wake.set()

    def start_over(self) -> None:
        """Queue the whole list."""
        self.behind = True
        self.wake.set()

    def catch_up(self) -> None:
        """Take frames from now on: the reader is about to get the whole list."""
        self.frames.clear()
        self.behind = False

    async def next(self) -> bytes:
        """Return the frames to send next, or a heartbeat; empty if the reader is too slow."""
        if not self.frames:
            self.wake.clear()
            try:
                await asyncio.wait_for(self.wake.wait(), HEARTBEAT_S)
            except TimeoutError:
                return _HEARTBEAT
        batch, self.frames = self.frames, []
        return b"".join(batch)


class LiveFeed(Generic[PersonT]):
    """A table and its readers. Belongs to an event loop."""

    def __init__(self) -> None:
        self.table = LiveTable()
        self.readers: set[LiveReader[PersonT]] = set()
        self._status = b""
        self._whole: bytes | None = None  # the present table, compressed
        self._version = 0  # version of the table

    def join(self, person: PersonT) -> LiveReader[PersonT] | None:
        """Return a new reader; None if there are too many."""
        if len(self.readers) >= READERS_MAX:
            return None
        reader = LiveReader(person)
        self.readers.add(reader)
        return reader

    def begin(self, table: LiveTable, status: bytes = b"") -> None:
        """Replace the table; all readers get the whole new one."""
        table.take_changes()
        self.table, self._status, self._whole = table, status, None
        self._version += 1
        for reader in self.readers:
            reader.start_over()

    def tick(self, status: bytes) -> None:
        """Send the changes since the last tick, and the status if it changed."""
        parts = self.table.take_changes()
        if status != self._status:
            self._status = status
            parts.append(("status", status))
        if parts:
            self._whole = None
            self._version += 1
            self.give(compressed(frame([("kind", b'"delta"'), *parts])))

    def give(self, packed: bytes) -> None:
        """Send a frame to all readers."""
        for reader in self.readers:
            reader.give(packed)

    async def packed_whole(self) -> bytes:
        """Return the compressed frame of everything; readers that join together share it."""
        if self._whole is None:
            version = self._version
            packed = await asyncio.to_thread(compressed, self.table.whole(self._status))
            if version != self._version:
                return packed
            self._whole = packed
        return self._whole
