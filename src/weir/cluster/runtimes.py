"""Run times learned from workloads that ended: never from those that still run.

A workload is like another of the same project, user, name stem and size; while too few of the
closest kind have ended, coarser likenesses stand in (Smith's "back off" of history-based prediction).
"""

import re
from bisect import bisect_right
from itertools import accumulate

from weir.model.workloads import Workload

_DIGIT = re.compile(r"[0-9]")
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
    while len(parts) > 1 and _DIGIT.search(parts[-1]):
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
    """Run times of one likeness, and the sums of their tails, made anew as they grow by a sixteenth.

    They are made when they are asked for: most likenesses are so coarse that nobody ever does.
    """

    __slots__ = ("_covers", "_since", "_sums", "runs")

    def __init__(self) -> None:
        self.runs: list[float] = []  # in the order they ended
        self._covers = 0  # how many of them the sums are to be of
        self._since = 0  # how many there are besides
        self._sums: tuple[list[float], list[float]] | None = (
            None  # sorted run times, and the sums from each on
        )

    def add(self, run_s: float) -> None:
        self.runs.append(run_s)
        self._since += 1
        if self._since * 16 >= self._covers:
            del self.runs[:-KEPT]
            self._covers, self._since, self._sums = len(self.runs), 0, None

    def remaining_s(self, ran_s: float) -> float | None:
        """Mean of what those that ran longer than `ran_s` still had to go."""
        sums = self._sums
        if sums is None:
            runs = sorted(self.runs[: self._covers])
            sums = self._sums = runs, list(accumulate(reversed(runs)))[::-1]
        runs, tails = sums
        at = bisect_right(runs, ran_s)
        longer = len(runs) - at
        return tails[at] / longer - ran_s if longer else None


class RunTimes:
    """The mean remaining run time of workloads, by what they are like."""

    def __init__(self) -> None:
        self._ended: dict[Likeness, _Ended] = {}
        self.version = 0

    def ended(self, likenesses_: tuple[Likeness, ...], run_s: float) -> None:
        """Remember the whole run of a workload that succeeded."""
        run_s = max(run_s, 1.0)
        for likeness in likenesses_:
            ended = self._ended.get(likeness)
            if ended is None:
                ended = self._ended[likeness] = _Ended()
            ended.add(run_s)
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
