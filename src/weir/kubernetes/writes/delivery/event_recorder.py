"""Events for people: written one after another, at a low rate, and dropped if there are too many.

Events about work that waits go first: people look for them, and of a start they see the pod run.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from weir.kubernetes.api.backoff import RateLimiter
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.api.leader_election import Leadership
from weir.kubernetes.writes.delivery.leader_guard import LeaderGuard, NotLeading
from weir.kubernetes.writes.delivery.requests import emit
from weir.kubernetes.writes.operations import EmitEvent

PAUSE_S = 1.0
"""After an event that wasn't taken."""
STARTS_MOST = 64
"""Limit of queued events that aren't about pending work; above it, events of starts are left out.

Each pod says itself where it is, and in a burst an event costs the API server as much as a binding.
"""
LATE_S, LOOK_S = 10.0, 0.1
"""Longest delay of a start's event while pods are under way, and the time between two checks."""
BESIDE_S = 0.2
"""Then they go no faster than this: to a server that has much to do an event is as much work as a pod."""


class EventRecorder:
    """Queues events for people, and sends them at a bounded rate."""

    def __init__(
        self,
        api: ApiClient,
        leadership: Leadership,
        *,
        per_s: float,
        waiting_most: int,
        busy: Callable[[], bool],
    ) -> None:
        """Create it; while `busy` returns True, events wait for other work."""
        self._api = api
        self._leadership = leadership
        self._rate = RateLimiter(per_s, burst=max(1.0, per_s))
        self._first: deque[tuple[float, int, EmitEvent]] = deque()
        self._later: deque[tuple[float, int, EmitEvent]] = deque()
        self._waiting_most = waiting_most
        self._busy = busy
        self._wake = asyncio.Event()
        self.emitted = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._first) + len(self._later)

    def say(self, event: EmitEvent) -> None:
        """Queue an event. If the queue is full, the oldest start event is dropped, else the oldest event."""
        if len(self) >= self._waiting_most:
            (self._later or self._first).popleft()
            self.dropped += 1
        if event.type == "Normal" and not event.waits and len(self._later) >= STARTS_MOST:
            self.dropped += 1
            return
        line = self._first if event.waits else self._later
        line.append((time.monotonic(), self._leadership.term, event))
        self._wake.set()

    async def run(self) -> None:
        """Say them, for ever."""
        while True:
            if not len(self):
                self._wake.clear()
                await self._wake.wait()
            if self._busy():
                late = bool(self._first) or time.monotonic() >= self._later[0][0] + LATE_S
                await asyncio.sleep(BESIDE_S if late else LOOK_S)
                if not late:
                    continue
            await self._rate.wait()
            _, term, event = (self._first or self._later).popleft()
            try:
                await emit(LeaderGuard(self._api, self._leadership, term), event)
                self.emitted += 1
            except ApiError as error:
                self.dropped += 1
                if not isinstance(error, NotLeading):
                    await asyncio.sleep(PAUSE_S)
