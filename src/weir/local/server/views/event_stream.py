"""Live stream of changes: server-sent events, numbered so that a disconnected reader can resume.

Messages are made once and shared by all readers. The last messages are kept for readers that come back. A
reader that is too slow is disconnected, and resumes by its last number.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from weir.api.answers import Answer
from weir.local.server.access.authorization import Action, Person, may

Change = tuple[str, Answer, str | None]
"""A change: its kind, the object, and the project that may see it."""
KEPT_MAX = 8192
"""Messages kept for readers that resume."""
BEHIND_MAX = 2048
"""Messages one reader may be behind before it is cut off."""
READERS_MAX = 256
KEPT_FOR_S = 120.0
"""Time for which messages are kept after the last reader has left."""
HEARTBEAT_S = 15.0


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """A change. `project` limits it to people of that project; None: everyone sees it."""

    number: int
    kind: str
    text: str
    project: str | None = None


class StreamReader:
    """Queues the events of one reader of the stream."""

    __slots__ = ("_person", "_stream", "_waiting", "cut_off", "queue")

    def __init__(self, stream: "EventStream", person: Person) -> None:
        self._stream = stream
        self._person = person
        self._waiting: asyncio.Event = asyncio.Event()
        self.queue: deque[StreamMessage] = deque()
        self.cut_off = False

    def give(self, messages: Sequence[StreamMessage]) -> None:
        """Queue these messages."""
        visible = [
            message
            for message in messages
            if message.project is None or may(self._person, Action.VIEW, message.project)
        ]
        if len(self.queue) + len(visible) > BEHIND_MAX:
            self.cut_off = True
            self.queue.clear()
        else:
            self.queue.extend(visible)
        self._waiting.set()

    def end(self) -> None:
        """End the stream of this subscriber."""
        self.cut_off = True
        self._waiting.set()

    async def texts(self, hello: str = "") -> AsyncIterator[str]:
        """Yield messages as they come, with a heartbeat in between."""
        try:
            yield hello
            while not self.cut_off:
                if not self.queue:
                    self._waiting.clear()
                    try:
                        await asyncio.wait_for(self._waiting.wait(), HEARTBEAT_S)
                    except TimeoutError:
                        yield ": still here\n\n"
                        continue
                batch = list(self.queue)
                self.queue.clear()
                if batch:
                    yield "".join(self._stream.written(message) for message in batch)
        finally:
            self._stream.leave(self)


class EventStream:
    """Stream of changes to every reader. All methods but `send` belong to the event loop."""

    def __init__(self, epoch: int) -> None:
        """Create a stream; `epoch` distinguishes the numbers of this process from those of another."""
        self._epoch = epoch
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next = 1
        self._kept: deque[StreamMessage] = deque(maxlen=KEPT_MAX)
        self._readers: set[StreamReader] = set()
        self.observers: set[Callable[[Sequence[Change]], None]] = set()
        """Called with all changes, on the event loop."""
        self.joined = 0
        """Number of readers and observers so far: one that joins has other rows than those before it."""
        self._closed = False
        self._gap = False  # True: some messages weren't kept
        self._left_s = -KEPT_FOR_S  # last time with a reader
        self.on_wall_clock: Callable[[Answer], Answer] = lambda answer: answer
        """Puts the times of an answer on the wall clock."""

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the event loop."""
        self._loop = loop

    @property
    def readers(self) -> int:
        """Return the number of readers."""
        return len(self._readers) + len(self.observers)

    def observe(self, observer: Callable[[Sequence[Change]], None]) -> None:
        """Call an observer with all changes from now on."""
        self.observers.add(observer)
        self.joined += 1

    def send(self, changes: Sequence[Change]) -> None:
        """Publish changes as (kind, object, project that may see it). Any thread may call this."""
        loop = self._loop
        if not changes or loop is None or self._closed or loop.is_closed():
            return
        if not self.readers and monotonic() - self._left_s > KEPT_FOR_S:
            self._gap = True
            return
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(self._take, changes)

    def _take(self, changes: Sequence[Change]) -> None:
        for observe in tuple(self.observers):
            observe(changes)
        if not self._readers and monotonic() - self._left_s > KEPT_FOR_S:
            self._gap = True
            return
        messages = []
        if self._gap:
            self._gap = False
            self._kept.clear()
            self._next += 1
        for kind, content, project in changes:
            messages.append(
                StreamMessage(self._next, kind, self.on_wall_clock(content).model_dump_json(), project)
            )
            self._next += 1
        self._kept.extend(messages)
        for reader in self._readers:
            reader.give(messages)

    def written(self, message: StreamMessage) -> str:
        """Return a message in the format of the stream."""
        return f"id: {self._epoch}-{message.number}\nevent: {message.kind}\ndata: {message.text}\n\n"

    def join(self, person: Person, last: str | None) -> tuple[StreamReader, str] | None:
        """Return a new reader and the beginning of its stream; None if there are too many readers.

        `last` is the last number that the reader has received. If later messages aren't kept any more,
        or it is from another process, the stream begins with `reset`: the reader must load everything again.
        """
        if self._closed or len(self._readers) >= READERS_MAX:
            return None
        reader = StreamReader(self, person)
        hello = "retry: 1000\n\n"
        if last:
            missed = self._since(last)
            if missed is None:
                hello += f"id: {self._epoch}-{self._next - 1}\nevent: reset\ndata: {{}}\n\n"
            else:
                reader.give(missed)
        else:
            hello += f"id: {self._epoch}-{self._next - 1}\nevent: hello\ndata: {{}}\n\n"
        self._readers.add(reader)
        self.joined += 1
        return reader, hello

    def _since(self, last: str) -> list[StreamMessage] | None:
        epoch, _, number = last.partition("-")
        if (
            self._gap
            or epoch != str(self._epoch)
            or not (number.isascii() and number.isdigit() and len(number) < 20)
        ):
            return None
        after = int(number)
        oldest = self._kept[0].number if self._kept else self._next
        if after + 1 < oldest or after >= self._next or self._next - 1 - after > BEHIND_MAX:
            return None
        return [message for message in self._kept if message.number > after]

    def leave(self, reader: StreamReader) -> None:
        """Remove a reader."""
        self._readers.discard(reader)
        self._left_s = monotonic()

    def close(self) -> None:
        """End all streams; nothing is sent any more."""
        self._closed = True
        for reader in list(self._readers):
            reader.end()
