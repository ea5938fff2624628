"""Capacity of a dashboard for many people: their watches begin a few at a time, and share one memory.

Each person has a watch of their own, because the API server decides what each of them sees. While one begins,
it takes ten times the memory that it keeps. After an interruption all pages come back at once.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

STARTING_MAX = 2
"""Watches that begin at a time."""
WORKLOAD_BYTES = 1_000
"""Memory of a workload in a watch, measured with some to spare."""
PROCESS_BYTES = 160 << 20
"""Memory of the process without any watch, with one of 10,000 workloads that begins."""
WORKLOADS_MIN = 10_000
FEW = 200
"""Number of workloads up to which a watch is always accepted: there are at most 200 sessions."""
REFUSED_S = 15.0
"""Time after a refusal without another watch of all namespaces, because pages retry constantly."""
MEMORY_BYTES = 512 << 20
"""Memory of the process, if no option names it."""

_USED_UP = "The dashboard's memory is used up by other pages"
"""Start of a refusal. It has no counts, since a person may have no right to see them."""
_ADVICE = (
    "Try again later, or choose a namespace with fewer. An administrator can give it more memory "
    "(dashboard.memory)."
)


class NoCapacity(Exception):
    """Other pages use up the memory; the sentence names the remedy."""


class Sized(Protocol):
    """A watch that begins."""

    @property
    def workloads(self) -> int:
        """Return the number of workloads in the watch."""
        ...


class SharedWatch(Sized, Protocol):
    """The watch of a session, or none while no page was open for long."""

    @property
    def is_idle(self) -> bool:
        """Return True if no page uses it, or is about to."""
        ...

    async def stop(self) -> None:
        """End the watch; the next page starts it again."""
        ...


def workloads_max(memory_bytes: int) -> int:
    """Return the number of workloads that all watches may hold with this memory."""
    return max(WORKLOADS_MIN, (memory_bytes - PROCESS_BYTES) // WORKLOAD_BYTES)


class WatchCapacity:
    """Admits watches. Belongs to an event loop."""

    def __init__(
        self,
        most: int,
        watches: Callable[[], Iterable[SharedWatch]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Limit all watches together to `most` workloads. `watches` returns the watches, oldest first."""
        self._most = most
        self._watches = watches
        self._now_s = now_s
        self._starting = asyncio.Semaphore(STARTING_MAX)
        self._full_s: float | None = None  # time of the last refusal of a watch of all namespaces

    @asynccontextmanager
    async def starting(self, new: Sized, *, is_whole: bool) -> AsyncIterator[None]:
        """Start a watch, and keep it if memory is left; `is_whole`: of all namespaces.

        Raises:
            NoCapacity: there is none.
        """
        async with self._starting:
            if is_whole and self._full_s is not None and self._now_s() < self._full_s + REFUSED_S:
                raise NoCapacity(f"{_USED_UP}. {_ADVICE}")
            yield
            try:
                await self._make_way(new)
            except NoCapacity:
                if is_whole:
                    self._full_s = self._now_s()
                raise
            self._full_s = None

    async def _make_way(self, new: Sized) -> None:
        """End watches without a page while there are too many workloads."""
        watches = [watch for watch in self._watches() if watch.workloads]
        for watch in watches:
            if self._held(watches) + new.workloads > self._most and watch.is_idle:
                await watch.stop()
        held = self._held(watches)
        if new.workloads > FEW and held and held + new.workloads > self._most:
            raise NoCapacity(f"{_USED_UP}, and yours has {new.workloads:,} workloads. {_ADVICE}")

    def _held(self, watches: Iterable[SharedWatch]) -> int:
        return sum(watch.workloads for watch in watches)
