"""Run times learned from ended workloads only.

The closest class of a workload has the same project, user, name prefix and size. While too few of its
workloads have ended, a coarser class is used (Smith's "back off" of history-based prediction).
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from weir.model.workloads import Workload

_DIGIT = re.compile(r"[0-9]")
_HASH = re.compile(r"(?=.*[0-9])[0-9a-f]+", re.IGNORECASE)
_INDEX = re.compile(r"\[[0-9]+\]$")
MIN_SAMPLES = 10
"""Number of ended workloads from which on a class is used."""
MAX_SAMPLES = 4000
"""Limit of ended workloads that are remembered for each class."""

PROJECT_CLASSES = 3
"""Number of classes, closest first, within one project; an estimate for people uses no coarser one."""
MIN_LONGER_SAMPLES = 5
"""Number of workloads with a longer run that a range for the rest of a run needs."""

RuntimeClass = tuple[object, ...]


def name_prefix(name: str) -> str:
    """Return a name without trailing digits and hashes, which distinguish repetitions of a job.

    The index of an array is removed, too. The result is empty for a name that is only a number or a hash.
    """
    parts = _INDEX.sub("", name).replace("_", "-").split("-")
    while len(parts) > 1 and _DIGIT.search(parts[-1]):
        parts.pop()
    if len(parts) == 1 and _HASH.fullmatch(parts[0]):
        return ""
    return "-".join(parts).rstrip("0123456789")


class RuntimeKey:
    """Classes of a workload for run-time prediction, closest first, with the last prediction.

    The mean run of those that ran longer changes at two moments: the workload has run as long as the next of
    them, or more workloads have ended. All values belong to one `RuntimeHistory`.
    """

    __slots__ = ("ended", "from_s", "made", "names", "total_s", "until_s", "usable_classes")

    def __init__(self, names: tuple[RuntimeClass, ...]) -> None:
        self.names = names
        self.ended: RuntimeSamples | None = None
        self.made = 0
        self.usable_classes = 0
        self.total_s = 0.0
        self.from_s = 0.0
        self.until_s = 0.0

    def learn(self, ended: "RuntimeSamples", ran_s: float) -> bool:
        """Use the mean of samples longer than `ran_s`; return False if there are none."""
        mean = ended.longer(ran_s)
        if mean is None:
            return False
        self.total_s, self.from_s, self.until_s = mean
        self.made = ended.made
        return True


def runtime_key(workload: Workload, devices_milli: int) -> RuntimeKey:
    """Return the classes of a workload: project, user, name prefix and size, then fewer of these."""
    project, size = workload.project, devices_milli
    return RuntimeKey(
        (
            (project, workload.user, name_prefix(workload.name), size),
            (project, workload.user, size),
            (project, size),
            (size,),
            (),
        )
    )


class RuntimeSamples:
    """Run times of one class, with sums of their tails, which are updated after each sixteenth more.

    The sums are computed on demand: most classes are too coarse to be used.
    """

    __slots__ = ("_covers", "_since", "_sums", "made", "runs")

    def __init__(self) -> None:
        self.runs: list[float] = []  # in the order of their ends
        self.made = 0  # number of times that the sums were computed
        self._covers = 0  # number of runs that the sums cover once computed
        self._since = 0  # number of further runs
        self._sums: tuple[list[float], list[float]] | None = (
            None  # sorted run times, and the sum from each position on
        )

    def add(self, run_s: float) -> None:
        """Add the run time of one more workload."""
        self.runs.append(run_s)
        self._since += 1
        if self._since * 16 >= self._covers:
            del self.runs[:-MAX_SAMPLES]
            self._covers, self._since, self._sums = len(self.runs), 0, None
            self.made += 1

    def longer(self, ran_s: float) -> tuple[float, float, float] | None:
        """Return the mean of samples longer than `ran_s`, and the range of run times for which it is valid.

        The answer is None if no sample is longer.
        """
        sums = self._sums
        if sums is None:
            runs = sorted(self.runs[: self._covers])
            sums = self._sums = runs, list(accumulate(reversed(runs)))[::-1]
        runs, tails = sums
        index = bisect_right(runs, ran_s)
        if index == len(runs):
            return None
        return tails[index] / (len(runs) - index), runs[index - 1] if index else 0.0, runs[index]


@dataclass(frozen=True, slots=True)
class RemainingRange:
    """Middle 80 % of remaining run times of similar workloads in seconds, and the sample size."""

    low_s: float
    high_s: float
    samples: int


class RuntimeHistory:
    """Mean remaining run time of workloads, by class."""

    def __init__(self) -> None:
        self._ended: dict[RuntimeClass, RuntimeSamples] = {}
        self.usable_classes = 0  # number of runtime classes with enough ended runs
        self.version = 0

    def ended(self, runtime_key: RuntimeKey, run_s: float) -> None:
        """Remember the whole run of a workload that succeeded."""
        run_s = max(run_s, 1.0)
        for name in runtime_key.names:
            ended = self._ended.get(name)
            if ended is None:
                ended = self._ended[name] = RuntimeSamples()
            ended.add(run_s)
            self.usable_classes += len(ended.runs) == MIN_SAMPLES
        self.version += 1

    def remaining_s(self, runtime_key: RuntimeKey, ran_s: float) -> float | None:
        """Return the mean remaining run time after `ran_s`; None without samples."""
        ended = runtime_key.ended
        if ended is None or runtime_key.usable_classes != self.usable_classes:
            is_learned = self._learn(runtime_key, ran_s)
        else:  # it is still the closest of which enough have ended
            fresh = runtime_key.made == ended.made and runtime_key.from_s <= ran_s < runtime_key.until_s
            is_learned = fresh or runtime_key.learn(ended, ran_s) or self._learn(runtime_key, ran_s)
        if not is_learned:
            return max(ran_s, 1.0) if self._ended else None
        return max(runtime_key.total_s - ran_s, 1.0)

    def may_range(self, runtime_key: RuntimeKey) -> bool:
        """Return True if enough workloads have ended for a range: each class includes the closer ones."""
        ended = self._ended.get(runtime_key.names[PROJECT_CLASSES - 1])
        return ended is not None and len(ended.runs) >= MIN_SAMPLES

    def remaining_range(self, runtime_key: RuntimeKey, ran_s: float) -> RemainingRange | None:
        """Return the range of the remaining run time given `ran_s` already run.

        A range needs enough ended workloads of the same project that are similar, and enough of these that
        ran longer. Otherwise the answer is None.
        """
        for name in runtime_key.names[:PROJECT_CLASSES]:
            ended = self._ended.get(name)
            if ended is None or len(ended.runs) < MIN_SAMPLES:
                continue
            left = sorted(run_s - ran_s for run_s in ended.runs if run_s > ran_s)
            if len(left) >= MIN_LONGER_SAMPLES:
                tenth = len(left) // 10
                return RemainingRange(left[tenth], left[-1 - tenth], len(left))
        return None

    def _learn(self, runtime_key: RuntimeKey, ran_s: float) -> bool:
        """Use the closest class with enough ended workloads, some of which ran longer."""
        runtime_key.ended = None
        closest = True
        for name in runtime_key.names:
            ended = self._ended.get(name)
            if ended is not None and len(ended.runs) >= MIN_SAMPLES:
                if runtime_key.learn(ended, ran_s):
                    if closest:
                        runtime_key.ended, runtime_key.usable_classes = ended, self.usable_classes
                    return True
                closest = False  # it may be asked again once others of these have ended
        return False
