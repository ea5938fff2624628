"""The timeline of a Weir in a cluster: it begins at the API server's time.

Times in objects are stamped by the API server, and run times are counted from them. The wall clock of this
machine isn't compared with them: it may be wrong, and it may be set.
"""

import asyncio
from typing import NamedTuple

from structlog import get_logger

from weir.control.clock import Clock, boot_time
from weir.kubernetes.api.client import ApiClient

ASKS_MAX = 5
ASK_AGAIN_S = 1.0
QUICK_S = 0.1
SKEW_TOLD_S = 5.0
ANSWER_ERROR_S = 0.5
"""Error of an answer besides the time that it takes: answers state whole seconds."""
_LOG = get_logger(__name__)


class _Bounds(NamedTuple):
    """Least and greatest difference between the API server's clock and the boot clock of this machine."""

    least_s: float
    most_s: float

    @property
    def width_s(self) -> float:
        """Return their distance: twice the error of their middle."""
        return self.most_s - self.least_s

    def narrowed(self, other: "_Bounds") -> "_Bounds":
        """Return the intersection of two bounds; the narrower one if their servers' clocks differ."""
        both = _Bounds(max(self.least_s, other.least_s), min(self.most_s, other.most_s))
        return both if both.width_s > 0.0 else min(self, other, key=lambda bounds: bounds.width_s)


async def server_clock(api: ApiClient, *, again_s: float = ASK_AGAIN_S) -> Clock:
    """Return a clock that begins at the API server's time; at this machine's if it can't be asked.

    An answer was given at some moment between its request and its arrival, so a slow one is asked for again.
    Each answer narrows the bounds of the others.
    """
    bounds: _Bounds | None = None
    for tries_left in reversed(range(ASKS_MAX)):
        asked_s = boot_time()
        at_s = await api.time_s()
        answered_s = boot_time()
        if at_s is not None:
            answer = _Bounds(at_s - ANSWER_ERROR_S - answered_s, at_s + ANSWER_ERROR_S - asked_s)
            bounds = answer if bounds is None else bounds.narrowed(answer)
            if answered_s - asked_s <= QUICK_S:
                break
        elif tries_left:
            await asyncio.sleep(again_s)
    if bounds is None:
        _LOG.warning("api_server_time_unknown", instead="the wall clock of this machine")
        return Clock()
    clock = Clock(starts_s=boot_time() + (bounds.least_s + bounds.most_s) / 2)
    if abs(clock.ahead_s) > SKEW_TOLD_S:
        _LOG.warning("clocks_differ", ahead_of_api_server_s=round(clock.ahead_s, 1))
    return clock
