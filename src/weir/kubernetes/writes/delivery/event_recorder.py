"""Events for people: written one after another, at a low rate, and dropped if there are too many.

Events about work that waits go first: people look for them, and of a start they see the pod run. Among both
the namespaces take turns, and a full queue drops events of the namespace with the most. So the events of one
namespace neither delay nor displace those of the others.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from weir.control.fair_queue import FairQueue
from weir.kubernetes.api.backoff import RateLimiter
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError, is_of_one_object
from weir.kubernetes.api.leader_election import Leadership
from weir.kubernetes.writes.delivery.leader_guard import LeaderGuard, NotLeading
from weir.kubernetes.writes.delivery.requests import emit
from weir.kubernetes.writes.operations import EmitEvent

PAUSE_S = 1.0
"""After an event that the API server couldn't take; the refusal of one event delays no other."""
STARTS_MAX = 64
"""Limit of queued events that aren't about pending work; above it, events of starts are left out.

The status of each pod shows its node anyway, and in a burst an event costs the API server as much as a
binding.
"""
LATE_S, LOOK_S = 10.0, 0.1
"""Longest delay of a start's event while other pods start or stop, and the time between two checks."""
BESIDE_S = 0.2
"""Least time between such late events: for a busy server an event is as much work as a pod."""


LATER_EVERY = 4
"""Number of turns between events about other work, while events about pending work wait."""


@dataclass(frozen=True, slots=True, eq=False)
class QueuedEvent:
    """An event that waits, with the time and the term of its request."""

    event: EmitEvent
    at_s: float
    term: int


class EventRecorder:
    """Queues events for people, and sends them at a bounded rate."""

    def __init__(
        self,
        api: ApiClient,
        leadership: Leadership,
        *,
        per_s: float,
        waiting_max: int,
        busy: Callable[[], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a recorder; while `busy` returns True, events wait for other work."""
        self._clock = clock
        self._api = api
        self._leadership = leadership
        self._rate = RateLimiter(per_s, burst=max(1.0, per_s))
        self._first: FairQueue[QueuedEvent] = FairQueue()
        self._later: FairQueue[QueuedEvent] = FairQueue()
        self._waiting_max = waiting_max
        self._busy = busy
        self._wake = asyncio.Event()
        self._turns = 0
        self.emitted = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._first) + len(self._later)

    def say(self, event: EmitEvent) -> None:
        """Queue an event, or drop one if the queue is full.

        The namespace with the most start events loses its oldest one. Without start events it is the
        namespace with the most events.
        """
        namespace = event.regarding.namespace
        if len(self) >= self._waiting_max:
            self._drop_one(self._later if len(self._later) else self._first, namespace)
        queue = self._first if event.waits else self._later
        if event.type == "Normal" and not event.waits and len(queue) >= STARTS_MAX:
            if queue.to_shorten(namespace) == namespace:
                self.dropped += 1
                return
            self._drop_one(queue, namespace)
        queue.add(namespace, QueuedEvent(event, time.monotonic(), self._leadership.term))
        self._wake.set()

    def _drop_one(self, queue: FairQueue[QueuedEvent], namespace: str) -> None:
        """Drop the oldest event of the namespace with the most, for one of this namespace."""
        queue.take_oldest(queue.to_shorten(namespace))
        self.dropped += 1

    async def run(self) -> None:
        """Send queued events until the task is cancelled."""
        while True:
            if not len(self):
                self._wake.clear()
                await self._wake.wait()
            if self._busy():
                late = bool(len(self._first)) or self._is_start_late()
                await asyncio.sleep(BESIDE_S if late else LOOK_S)
                if not late:
                    continue
            await self._rate.wait()
            queued = self._next()
            if queued is None:
                continue
            try:
                guard = LeaderGuard(self._api, self._leadership, queued.term, self._clock)
                await emit(guard, queued.event)
                self.emitted += 1
            except ApiError as error:
                self.dropped += 1
                if not (isinstance(error, NotLeading) or is_of_one_object(error)):
                    await asyncio.sleep(PAUSE_S)

    def _is_start_late(self) -> bool:
        """Return True if the event of a start has waited for too long."""
        return time.monotonic() >= min(event.at_s for event in self._later.first_of_lines()) + LATE_S

    def _next(self) -> QueuedEvent | None:
        self._turns += 1
        is_later = not len(self._first) or (self._turns % LATER_EVERY == 0 and len(self._later))
        return (self._later if is_later else self._first).take()
