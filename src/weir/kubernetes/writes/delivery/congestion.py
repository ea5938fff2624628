"""Limit on concurrent writes: it shrinks while the API server answers late, and grows while it keeps up.

A server that is short of processors answers no more writes a second because more of them are under way. They
only wait in its queues, until each of them has run into its time limit and is sent again. So the limit halves
when the server says that it can't keep up, and loses a quarter when an answer comes late. It grows by one for
each round of answers in time.
"""

import time
from collections.abc import Callable

from weir.kubernetes.api.errors import ApiError, ApiRefused, ApiUnreachable, TooManyRequests

LEAST = 16
"""Writes that may be under way however slow the server is."""
LATE_S = 2.5
"""An answer after this time is late: half of the time limit of a write is gone."""
_OVERLOADED, _LATE = 0.5, 0.75
_BUSY = frozenset({503, 504})


def is_congestion(error: ApiError) -> bool:
    """Return True if the server or the way to it can't keep up, whatever was written."""
    if isinstance(error, TooManyRequests):
        return not error.by_budget
    return isinstance(error, ApiUnreachable) or (isinstance(error, ApiRefused) and error.status in _BUSY)


class CongestionWindow:
    """Adapts the number of writes under way to the answers of the API server."""

    def __init__(
        self, most: int, *, late_s: float = LATE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with `most`, which it never passes."""
        self._most = most
        self._least = min(most, LEAST)
        self._late_s = late_s
        self._clock = clock
        self._limit = float(most)
        self._cut_s = float("-inf")

    @property
    def limit(self) -> int:
        """Return how many writes may be under way."""
        return int(self._limit)

    def answered(self, sent_s: float, error: ApiError | None = None) -> None:
        """Process the answer to a write sent at `sent_s`; all that were under way at a cut count as one."""
        now_s = self._clock()
        overloaded = error is not None and is_congestion(error)
        if not overloaded and now_s - sent_s <= self._late_s:
            self._limit = min(float(self._most), self._limit + 1.0 / self._limit)
        elif sent_s >= self._cut_s:
            self._limit = max(float(self._least), self._limit * (_OVERLOADED if overloaded else _LATE))
            self._cut_s = now_s
