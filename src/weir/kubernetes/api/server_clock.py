"""The timeline of a Weir in a cluster: it begins at the API server's time.

Times in objects are stamped by the API server, and run times are counted from them. The wall clock of this
machine isn't compared with them: it may be wrong, and it may be set.
"""

import asyncio
from operator import itemgetter

from structlog import get_logger

from weir.control.clock import Clock, boot_time
from weir.kubernetes.api.client import ApiClient

ASKS_MAX = 5
ASK_AGAIN_S = 1.0
QUICK_S = 0.1
SKEW_TOLD_S = 5.0
_LOG = get_logger(__name__)


async def server_clock(api: ApiClient, *, again_s: float = ASK_AGAIN_S) -> Clock:
    """Return a clock that begins at the API server's time; at this machine's if it can't be asked.

    The time that an answer takes is the error of the clock, so a slow answer is asked for again.
    """
    samples: list[tuple[float, Clock]] = []
    for tries_left in reversed(range(ASKS_MAX)):
        asked_s = boot_time()
        at_s = await api.time_s()
        took_s = boot_time() - asked_s
        if at_s is not None:
            samples.append((took_s, Clock(starts_s=at_s)))
            if took_s <= QUICK_S:
                break
        elif tries_left:
            await asyncio.sleep(again_s)
    if not samples:
        _LOG.warning("api_server_time_unknown", instead="the wall clock of this machine")
        return Clock()
    _, clock = min(samples, key=itemgetter(0))
    if abs(clock.ahead_s) > SKEW_TOLD_S:
        _LOG.warning("clocks_differ", ahead_of_api_server_s=round(clock.ahead_s, 1))
    return clock
