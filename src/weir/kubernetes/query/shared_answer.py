"""An answer that many requests share: open dashboards ask for the same every few seconds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedAnswer(Generic[T]):
    """Makes one answer at a time. Belongs to an event loop.

    A request waits for an answer that begins after it came: so it sees what its sender did before.
    """

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return an answer that is computed after this call; callers at the same time share it."""
        if self._next is None:
            self._next = asyncio.create_task(self._answer(self._running))
            self._next.add_done_callback(_heed)
        return await asyncio.shield(self._next)  # a cancelled caller must not cancel the others

    async def _answer(self, before: "asyncio.Task[T] | None") -> T:
        if before is not None:
            await asyncio.wait([before])
        task, self._next = self._next, None
        self._running = task
        try:
            return await self._make()
        finally:
            if self._running is task:
                self._running = None


def _heed(task: "asyncio.Task[T]") -> None:
    """Read the error of an answer for which no request waits, so that asyncio doesn't log it."""
    if not task.cancelled():
        task.exception()
