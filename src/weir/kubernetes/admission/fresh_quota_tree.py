"""Quota objects read from the API server, before a review is answered from a watch that may lag behind.

`kubectl apply` of one file writes a department and its project within milliseconds, and the watch reports
the first one a moment later. So the API server is asked before an object is refused, and before a pod counts
as one without a project. Reviews that wait share an answer, answers are read at a bounded rate, and only a
few reviews wait: a flood of mistakes costs the API server and other reviews little.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from weir.kubernetes.admission.reviews import QuotaTree
from weir.kubernetes.api.errors import ApiError

BETWEEN_S = 0.25
"""Time from the beginning of one read to that of the next."""
WAITING_MAX = 8
"""Reviews that wait for a read; others are answered at once."""
WITHIN_S = 1.5


class FreshQuotaTree:
    """Reads the quota objects for reviews. Belongs to the event loop."""

    def __init__(
        self,
        read: Callable[[], Awaitable[QuotaTree]],
        *,
        between_s: float = BETWEEN_S,
        waiting_max: int = WAITING_MAX,
        within_s: float = WITHIN_S,
    ) -> None:
        """Limit the reads of the quota tree. `read` lists the objects, or raises ApiError."""
        self._read = read
        self._between_s = between_s
        self._waiting_max = waiting_max
        self._within_s = within_s
        self._waiting = 0
        self._began_s = -between_s
        self._next: asyncio.Task[QuotaTree | None] | None = None  # a read that hasn't begun

    async def tree(self) -> QuotaTree | None:
        """Return the quota tree of now or later; None if it can't be read, or too many reviews wait."""
        if self._waiting >= self._waiting_max:
            return None
        self._waiting += 1
        try:
            async with asyncio.timeout(self._within_s):
                if self._next is None:
                    self._next = asyncio.create_task(self._read_next())
                return await asyncio.shield(self._next)
        except TimeoutError:
            return None
        finally:
            self._waiting -= 1

    async def _read_next(self) -> QuotaTree | None:
        await asyncio.sleep(max(0.0, self._began_s + self._between_s - monotonic()))
        self._began_s = monotonic()
        self._next = None  # later callers need another read
        try:
            return await self._read()
        except ApiError:
            return None
