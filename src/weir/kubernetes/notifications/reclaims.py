"""Evictions that returned GPUs of a quota, by the workload that they were for."""

from collections.abc import Iterable

from weir.kubernetes.crd.objects import WorkloadObject
from weir.model.reasons import EvictionRule

RECLAIMS_MAX = 1000


class Reclaims:
    """Times of the last evictions. `at` has them by the workload that got the GPUs."""

    def __init__(self) -> None:
        self.at: dict[str, str] = {}

    def see(self, workloads: Iterable[WorkloadObject]) -> None:
        """Take in the last evictions of workloads."""
        for thing in workloads:
            last = thing.status.last_eviction
            if last is None or last.by is None or last.rule != EvictionRule.RECLAIM_QUOTA:
                continue
            at = max(last.at, self.at.pop(last.by, ""))
            self.at[last.by] = at
            if len(self.at) > RECLAIMS_MAX:
                del self.at[next(iter(self.at))]
