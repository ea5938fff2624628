"""Times at which control has to check a workload or node even without an event."""

from enum import IntEnum
from heapq import heappop, heappush


class TimerKind(IntEnum):
    """Purposes of timers."""

    RETRY = 0  # a workload that backs off may start again
    FAULT = 2  # a workload that was set aside after a fault is tried again
    OUTAGE = 3  # a node's outage begins or ends, or its workloads get a warning; named by its node
    LIMIT = 1  # a workload reaches a time limit or its warning


class Timers:
    """Timers by time. A timer isn't cancelled; `since_s` tells whether it is still valid."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[float, str, TimerKind, float]] = []

    def set(self, at_s: float, due: TimerKind, workload: str, since_s: float) -> None:
        """Set a timer of a workload for a time."""
        heappush(self._heap, (at_s, workload, due, since_s))

    def next_s(self) -> float | None:
        """Return the time of the next timer; None without timers."""
        return self._heap[0][0] if self._heap else None

    def pop(self, now_s: float) -> tuple[str, TimerKind, float] | None:
        """Return the next timer that is due, or None."""
        if not self._heap or self._heap[0][0] > now_s:
            return None
        _, workload, due, since_s = heappop(self._heap)
        return workload, due, since_s
