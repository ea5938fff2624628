"""Run times learned from workloads that ended: never from those that still run.

A workload is like another of the same project, user, name stem and size; while too few of the
closest kind have ended, coarser likenesses stand in (Smith's "back off" of history-based prediction).
"""

import re
from bisect import bisect_right, insort
from collections import deque
from itertools import accumulate

from weir.model.workloads import Workload

_HASH = re.compile(r"(?=.*[0-9])[0-9a-f]+", re.IGNORECASE)
ENOUGH = 10
"""Ended workloads of a likeness before it is believed."""
KEPT = 4000
"""Ended workloads remembered of each likeness."""

Likeness = tuple[object, ...]


def stem(name: str) -> str:
    """A name without what tells repetitions of one job apart: trailing digits and hashes.

    Nothing is left of a name that is only a number or a hash.
    """
    parts = name.replace("_", "-").split("-")
    while len(parts) > 1 and any(char.isdigit() for char in parts[-1]):
        parts.pop()
    if len(parts) == 1 and _HASH.fullmatch(parts[0]):
        return ""
    return "-".join(parts).rstrip("0123456789")


def likenesses(workload: Workload, devices_milli: int) -> tuple[Likeness, ...]:
    """What a workload is like, closest first."""
    project, size = workload.project, devices_milli
    return (
        (project, workload.user, stem(workload.name), size),
        (project, workload.user, size),
        (project, size),
        (size,),
        (),
    )


class _Ended:
    """Run times of one likeness, sorted, with the sums of their tails rebuilt as they grow."""

    __slots__ = ("_order", "_since_sums", "_sums_of", "runs", "tails")

    def __init__(self) -> None:
        self.runs: list[float] = []
        self.tails: list[float] = []
        self._order: deque[float] = deque()
        self._sums_of: list[float] = []
        self._since_sums = 0

    def add(self, run_s: float) -> None:
        insort(self.runs, run_s)
        self._order.append(run_s)
        if len(self._order) > KEPT:
            del self.runs[bisect_right(self.runs, self._order.popleft()) - 1]
        self._since_sums += 1
        if self._since_sums * 16 >= len(self._sums_of):
            self._rebuild()

    def _rebuild(self) -> None:
        self._since_sums = 0
        self._sums_of = list(self.runs)
        self.tails = list(accumulate(reversed(self._sums_of)))[::-1]

    def remaining_s(self, ran_s: float) -> float | None:
        """Mean of what those that ran longer than `ran_s` still had to go."""
        at = bisect_right(self._sums_of, ran_s)
        longer = len(self._sums_of) - at
        return self.tails[at] / longer - ran_s if longer else None


class RunTimes:
    """The mean remaining run time of workloads, by what they are like."""

    def __init__(self) -> None:
        self._ended: dict[Likeness, _Ended] = {}
        self.version = 0

    def ended(self, likenesses_: tuple[Likeness, ...], run_s: float) -> None:
        """Remember the whole run of a workload that succeeded."""
        for likeness in likenesses_:
            self._ended.setdefault(likeness, _Ended()).add(max(run_s, 1.0))
        self.version += 1

    def remaining_s(self, likenesses_: tuple[Likeness, ...], ran_s: float) -> float | None:
        """Mean remaining run time given `ran_s` already run; None while nothing is learned."""
        for likeness in likenesses_:
            ended = self._ended.get(likeness)
            if ended is not None and len(ended.runs) >= ENOUGH:
                remaining = ended.remaining_s(ran_s)
                if remaining is not None:
                    return max(remaining, 1.0)
        return max(ran_s, 1.0) if self._ended else None
