"""Limit on concurrent writes: it shrinks while the API server answers late, and grows while it keeps up.

A server that is short of processors doesn't answer more writes a second if more of them are sent at once.
They only wait in its queues, until each of them reaches its time limit and is sent again. So the limit halves
when the server says that it can't keep up, and loses a quarter when an answer comes late. It grows by one for
each round of answers in time.
"""

import time
from collections.abc import Callable

from weir.kubernetes.api.errors import ApiError, ApiRefused, ApiUnreachable, TooManyRequests

LEAST = 16
"""Number of concurrent writes that are always allowed, even if the server is slow."""
LATE_S = 2.5
"""Time after which an answer is late: half of the time limit of a write has passed."""
_OVERLOADED, _LATE = 0.5, 0.75
_BUSY = frozenset({503, 504})


def is_congestion(error: ApiError) -> bool:
    """Return True if the server or the connection can't keep up, which doesn't depend on the write."""
    if isinstance(error, TooManyRequests):
        return not error.by_budget
    return isinstance(error, ApiUnreachable) or (isinstance(error, ApiRefused) and error.status in _BUSY)


class CongestionWindow:
    """Adapts the number of concurrent writes to the answers of the API server."""

    def __init__(
        self, most: int, *, late_s: float = LATE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with the limit `most`, which is also the maximum."""
        self._most = most
        self._least = min(most, LEAST)
        self._late_s = late_s
        self._clock = clock
        self._limit = float(most)
        self._cut_s = float("-inf")

    @property
    def limit(self) -> int:
        """Return the number of concurrent writes that are allowed."""
        return int(self._limit)

    def answered(self, sent_s: float, error: ApiError | None = None) -> None:
        """Process the answer to a write sent at `sent_s`.

        If several of the writes that were open at a cut fail, the limit is cut only once.
        """
        now_s = self._clock()
        overloaded = error is not None and is_congestion(error)
        if not overloaded and now_s - sent_s <= self._late_s:
            self._limit = min(float(self._most), self._limit + 1.0 / self._limit)
        elif sent_s >= self._cut_s:
            self._limit = max(float(self._least), self._limit * (_OVERLOADED if overloaded else _LATE))
            self._cut_s = now_s
