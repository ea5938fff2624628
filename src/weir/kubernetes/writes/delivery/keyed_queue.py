"""Queue of writes: in order for each object, and independent for different objects.

Of the writes to one object the most urgent one is sent first, among equals the oldest one; a binding that
waits for devices is sent last. An object whose next write has to wait is in no queue until then.

Namespaces take turns, so that the flood of one doesn't delay the others. Writes of one namespace keep their
order. An eviction goes in the turn of the namespace that needs the capacity: a large reclaim delays no other
pods of its victims' namespace. Objects of the cluster have a turn together.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from weir.control.fair_queue import FairQueue
from weir.kubernetes.api.backoff import Backoff
from weir.kubernetes.api.paths import namespace_of
from weir.kubernetes.writes.operations import (
    Evict,
    PatchStatus,
    SuspendOwner,
    UpsertWorkload,
    Urgency,
    Write,
    merged,
)


@dataclass(slots=True, eq=False)
class PendingWrite:
    """A write, from its request to its outcome."""

    write: Write
    term: int
    backoff: Backoff
    tried_s: float = 0.0  # time of the first try; 0: not yet tried
    not_before_s: float = 0.0
    uncertain: bool = False  # True: an earlier try may have succeeded
    delayed_by: str = ""  # sentence of its last delay
    awaits_devices: bool = False  # True: its claims are allocated, and drivers prepare their devices
    explained: bool = False  # True: an event has stated its reason


@dataclass(slots=True, eq=False)
class ObjectQueue:
    """The writes to one object."""

    path: str
    namespace: str  # empty: an object of the cluster
    waiting: list[PendingWrite] = field(default_factory=list)
    under_way: PendingWrite | None = None  # the write in progress
    ready: Urgency | None = None  # urgency of the queue that it is in
    turn: str = ""  # namespace in whose turn it is there
    timer: asyncio.TimerHandle | None = None

    def next(self) -> PendingWrite:
        """Return the next write."""
        if len(self.waiting) == 1:
            return self.waiting[0]
        return min(self.waiting, key=lambda pending: (pending.awaits_devices, pending.write.urgency))


class KeyedQueue:
    """Queue of writes by object. `wake` is called when a write has become ready."""

    def __init__(self, clock: Callable[[], float], wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._by_path: dict[str, ObjectQueue] = {}
        self._ready: dict[Urgency, FairQueue[ObjectQueue]] = {urgency: FairQueue() for urgency in Urgency}

    def __len__(self) -> int:
        """Return the number of objects with writes that wait or are being sent."""
        return len(self._by_path)

    def __iter__(self) -> Iterator[ObjectQueue]:
        return iter(list(self._by_path.values()))

    def add(self, pending: PendingWrite) -> PendingWrite | None:
        """Queue a write. Return the queued write that it was merged with; None if it wasn't merged."""
        path = pending.write.object_path
        object_queue = self._by_path.get(path)
        if object_queue is None:
            object_queue = self._by_path[path] = ObjectQueue(path, namespace_of(path))
        swallowed = _swallow(object_queue, pending)
        if swallowed is None:
            object_queue.waiting.append(pending)
        self.schedule(object_queue)
        return swallowed

    def take(self, urgency: Urgency) -> ObjectQueue | None:
        """Return the next object queue of this urgency, and mark its first write as being sent.

        The answer is None if none is ready.
        """
        object_queue = self._ready[urgency].take()
        if object_queue is not None:
            object_queue.ready = None
            object_queue.under_way = object_queue.next()
        return object_queue

    def give_back(self, object_queue: ObjectQueue) -> None:
        """Record that the write being sent has ended or has to wait."""
        object_queue.under_way = None
        self.schedule(object_queue)

    def schedule(self, object_queue: ObjectQueue) -> None:
        """Make the next write of an object ready, or delay it; forget an object without writes."""
        if object_queue.timer is not None:
            object_queue.timer.cancel()
            object_queue.timer = None
        if object_queue.under_way is not None:
            return
        if not object_queue.waiting:
            self._move(object_queue, None)
            self._by_path.pop(object_queue.path, None)
            return
        pending = object_queue.next()
        wait_s = pending.not_before_s - self._clock()
        if wait_s > 0:
            self._move(object_queue, None)
            object_queue.timer = asyncio.get_running_loop().call_later(wait_s, self.schedule, object_queue)
        else:
            self._move(object_queue, pending.write.urgency, _turn_of(object_queue, pending.write))

    def _move(self, object_queue: ObjectQueue, urgency: Urgency | None, turn: str = "") -> None:
        """Put an object into the queue of an urgency, or into none; in the same queue it keeps its place."""
        before = object_queue.ready
        if before is urgency:
            return
        object_queue.ready = urgency
        if before is not None:
            self._ready[before].remove(object_queue.turn, object_queue)
        if urgency is not None:
            object_queue.turn = turn
            self._ready[urgency].add(turn, object_queue)
            self._wake()


def _turn_of(object_queue: ObjectQueue, write: Write) -> str:
    """Return the namespace to whose turns a write to an object belongs."""
    needed_by = write.needed_by if isinstance(write, Evict | SuspendOwner) else ""
    return needed_by.partition("/")[0] or object_queue.namespace


def _swallow(object_queue: ObjectQueue, later: PendingWrite) -> PendingWrite | None:
    """Merge a write into a queued one, which keeps its place and retries; None if none fits."""
    for place, earlier in enumerate(object_queue.waiting):
        if earlier is not object_queue.under_way and (both := merge(earlier, later)) is not None:
            object_queue.waiting[place] = both
            return earlier
    return None


def merge(earlier: PendingWrite, later: PendingWrite) -> PendingWrite | None:
    """Return one write with the effect of both; None if there is none."""
    write = None if earlier.term != later.term else _both(earlier.write, later.write)
    if write is None:
        return None
    return replace(later, write=write, backoff=earlier.backoff, not_before_s=earlier.not_before_s)


def _alike(first: PatchStatus, second: PatchStatus) -> bool:
    same_place = first.kind is second.kind and first.inside is second.inside
    return same_place and first.until_bound is second.until_bound


def _both(first: Write, second: Write) -> Write | None:
    match first, second:
        case PatchStatus(), PatchStatus() if _alike(first, second):
            patch = merged(first.patch, second.patch)
            return replace(second, patch=patch, urgent=first.urgent or second.urgent)
        case UpsertWorkload(), PatchStatus(inside=True):
            return replace(first, body=merged(first.body, second.patch))
        case PatchStatus(inside=True), UpsertWorkload():
            return replace(second, body=merged(first.patch, second.body))
        case UpsertWorkload(), UpsertWorkload():
            return replace(second, body=merged(first.body, second.body))
    return None
