"""Options of the history: where it is kept, and for how long."""

from collections.abc import Callable
from dataclasses import dataclass

DAY_S = 86400.0
EVENTS_S_MAX = 90 * DAY_S
"""Longest time for which events are kept, since they are many."""
MINUTES_S, HOURS_S = 2 * DAY_S, 60 * DAY_S
DEFAULT_KEEP_S = 366 * DAY_S
KEEP_S_MIN = DAY_S


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """Database of the history. `read_url` is called at each opening: a Secret may have changed since."""

    read_url: Callable[[], str]
    keep_s: float = DEFAULT_KEEP_S
