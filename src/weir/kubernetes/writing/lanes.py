"""Writes that wait: those to one object one after another, those to different objects never for one another.

A lane is the writes to one object. Of a lane the most urgent write goes first, among equals the one
that came first. A lane whose next write has to wait is off the road until then.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from weir.kubernetes.api.patience import Backoff
from weir.kubernetes.writing.writes import PatchStatus, Urgency, Write, merged


@dataclass(slots=True, eq=False)
class Waiting:
    """A write, from when it was asked for until its outcome is known."""

    write: Write
    term: int
    backoff: Backoff
    tried_s: float = 0.0  # first; 0: not yet
    not_before_s: float = 0.0
    uncertain: bool = False  # an earlier try may have been carried out
    said: str = ""  # of the last thing that held it up
    explained: bool = False  # people were told why it is done


@dataclass(slots=True, eq=False)
class Lane:
    """The writes to one object."""

    path: str
    waiting: list[Waiting] = field(default_factory=list)
    under_way: Waiting | None = None  # one of them
    ready: Urgency | None = None  # the queue it stands in
    timer: asyncio.TimerHandle | None = None

    def next(self) -> Waiting:
        """The one whose turn it is."""
        if len(self.waiting) == 1:
            return self.waiting[0]
        return min(self.waiting, key=lambda one: one.write.urgency)


class Lanes:
    """All of them. `wake` is called when one has become ready."""

    def __init__(self, clock: Callable[[], float], wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._by_path: dict[str, Lane] = {}
        self._ready: dict[Urgency, deque[Lane]] = {urgency: deque() for urgency in Urgency}

    def __len__(self) -> int:
        """How many objects have writes that wait or are under way."""
        return len(self._by_path)

    def __iter__(self) -> Iterator[Lane]:
        return iter(list(self._by_path.values()))

    def add(self, one: Waiting) -> Waiting | None:
        """Let a write wait. Returns the status that it has swallowed."""
        path = one.write.object_path
        lane = self._by_path.get(path)
        if lane is None:
            lane = self._by_path[path] = Lane(path)
        swallowed = _swallow(lane, one)
        if swallowed is None:
            lane.waiting.append(one)
        self.schedule(lane)
        return swallowed

    def take(self, urgency: Urgency) -> Lane | None:
        """The next lane of this urgency, its write now under way."""
        queue = self._ready[urgency]
        while queue:
            lane = queue.popleft()
            if lane.ready is urgency:  # else it has moved on to another queue since
                lane.ready = None
                lane.under_way = lane.next()
                return lane
        return None

    def give_back(self, lane: Lane) -> None:
        """What was under way in it is over, or has to wait."""
        lane.under_way = None
        self.schedule(lane)

    def schedule(self, lane: Lane) -> None:
        """Put it where it belongs now."""
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        if lane.under_way is not None:
            return
        if not lane.waiting:
            self._by_path.pop(lane.path, None)
            return
        one = lane.next()
        wait_s = one.not_before_s - self._clock()
        if wait_s > 0:
            lane.ready = None
            lane.timer = asyncio.get_running_loop().call_later(wait_s, self.schedule, lane)
        elif lane.ready is None or one.write.urgency < lane.ready:
            lane.ready = one.write.urgency
            self._ready[one.write.urgency].append(lane)
            self._wake()


def _swallow(lane: Lane, later: Waiting) -> Waiting | None:
    """Merge a status into one that waits already; it keeps that one's place and patience."""
    for place, earlier in enumerate(lane.waiting):
        if earlier is not lane.under_way and (both := merge(earlier, later)) is not None:
            lane.waiting[place] = both
            return earlier
    return None


def merge(earlier: Waiting, later: Waiting) -> Waiting | None:
    """The one write that does what these two do after one another, if they are statuses."""
    first, second = earlier.write, later.write
    if not (isinstance(first, PatchStatus) and isinstance(second, PatchStatus)):
        return None
    if first.kind is not second.kind or earlier.term != later.term:
        return None
    write = replace(second, patch=merged(first.patch, second.patch), urgent=first.urgent or second.urgent)
    return replace(later, write=write, backoff=earlier.backoff, not_before_s=earlier.not_before_s)
