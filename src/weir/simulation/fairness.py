"""Fairness over time: how far the allocation of projects is from their fair shares, by hour and by day.

A fair share at every instant isn't worth the evictions that it takes. So means over an hour, or over a day,
are compared.
"""

from collections.abc import Mapping, Sequence

from weir.engine.usage.fair_share import FairShares, FairShareTree
from weir.model.workloads import WHOLE_MILLI
from weir.simulation.interval_means import IntervalMeans
from weir.state.cluster import Cluster
from weir.state.shapes import GPU_ROW

HOUR_S = 3600.0
HOURS_A_DAY = 24
SAMPLE_S = 300.0
"""Time between two looks at the shares: they change with every job, and the mean of an hour needs a few."""


class Fairness:
    """Allocated devices and fair shares of each project, as means of each hour."""

    def __init__(self, start_s: float) -> None:
        self._start_s = start_s
        self._sampled_s = start_s - SAMPLE_S
        # Interval means of allocation and share
        self._levels: dict[str, tuple[IntervalMeans, IntervalMeans]] = {}
        self._now: dict[str, tuple[float, float]] = {}

    def sample(self, cluster: Cluster, now_s: float) -> None:
        """Note the usage and the fair share of each project, if the last sample is old enough.

        Several steps happen at one instant: the state after the last of them counts.
        """
        if self._sampled_s < now_s < self._sampled_s + SAMPLE_S:
            return
        self._sampled_s = now_s
        ledger = cluster.ledger
        shares: FairShares = FairShareTree(ledger).update(
            cluster.totals(), usage=[0.0] * len(ledger.queues), usage_k=0.0
        )
        for position, queue in enumerate(ledger.queues):
            if queue.is_project:
                allocated = ledger.allocated[position][GPU_ROW] / WHOLE_MILLI
                self._note(queue.name, now_s, (allocated, shares[position][GPU_ROW] / WHOLE_MILLI))

    def _note(self, project: str, now_s: float, levels: tuple[float, float]) -> None:
        before = self._now.get(project, (0.0, 0.0))
        if levels != before:
            if project not in self._levels:
                self._levels[project] = (
                    IntervalMeans(self._start_s, HOUR_S),
                    IntervalMeans(self._start_s, HOUR_S),
                )
            self._now[project] = levels
            for means, old, new in zip(self._levels[project], before, levels, strict=True):
                means.change(now_s, new - old)

    def close(self, now_s: float) -> None:
        """Count the levels up to now."""
        for levels in self._levels.values():
            for means in levels:
                means.settle(now_s)

    def numbers(self, until_s: float) -> dict[str, float]:
        """Return the deviation by hour and by day, up to a time: parts of all fair shares, 0 to 1."""
        hours = max(1, int((until_s - self._start_s) // HOUR_S))
        by_hour = {
            project: (allocated.means(hours), share.means(hours))
            for project, (allocated, share) in self._levels.items()
        }
        by_day = {
            project: (_days(allocated), _days(share)) for project, (allocated, share) in by_hour.items()
        }
        return {"deviation_by_hour": deviation(by_hour), "deviation_by_day": deviation(by_day)}


def deviation(levels: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> float:
    """Return half the absolute differences of allocation and share, divided by all shares.

    The result is the fraction of the capacity that went to projects above their share. Capacity that no
    project could use counts half.

    Args:
        levels: by project, the means of the intervals: allocated devices, and the fair share of them.
    """
    differences = sum(
        abs(used - fair)
        for allocated, share in levels.values()
        for used, fair in zip(allocated, share, strict=True)
    )
    shares = sum(sum(share) for _, share in levels.values())
    return round(differences / 2 / shares, 4) if shares else 0.0


def _days(hours: Sequence[float]) -> list[float]:
    """Return the means of days; the last may have fewer hours."""
    days = [hours[start : start + HOURS_A_DAY] for start in range(0, len(hours), HOURS_A_DAY)]
    return [sum(day) / HOURS_A_DAY for day in days]
