"""Fitting classes: pending workloads for which an allocation could succeed."""

from collections.abc import Iterable, Iterator

from weir.engine.placement.feasibility_cache import FeasibilityCache
from weir.engine.placement.placer import Placer
from weir.model.policy import AffinityRules
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Wants


class FittingClasses:
    """Classes that fit the free capacity at the beginning of an allocation.

    `headroom_milli` thousandths of devices stay free of workloads over quota.
    """

    def __init__(
        self, cluster: Cluster, feasibility: FeasibilityCache, placer: Placer, headroom_milli: int
    ) -> None:
        self._cluster = cluster
        self._feasibility = feasibility
        self._placer = placer
        self._totals = placer.capacity.totals
        self._headroom_milli = headroom_milli
        self._free_milli = self._totals.free_gpu_milli if headroom_milli else 0
        self._free_whole = self._totals.idle_devices
        self._fitting: dict[tuple[int, AffinityRules, bool], int] = {}  # pods by shape
        self._known: dict[tuple[Wants, AffinityRules], bool] = {}

    def of_projects(self, projects: Iterable[int]) -> Iterator[EquivalenceClass]:
        """Yield the fitting classes of some projects. Only these are in the queue order."""
        for project in projects:
            for of in self._cluster.waiting_of[project]:
                if self.fits(of):
                    yield of

    def fits(self, of: EquivalenceClass) -> bool:
        """Return True if the shapes of a class fit, each by itself.

        A gang needs capacity for all its pods of each shape, an elastic workload for one pod of any of them.
        """
        affinity = self._feasibility.affinity(of.first)
        key = of.wants, affinity
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._fits(of, affinity)
        return known

    def leaves_headroom(self, of: EquivalenceClass) -> bool:
        """Return True if a workload of the class leaves the headroom free."""
        want = 0 if of.step.choices else of.step.gpu_milli
        return not self._headroom_milli or not want or self._free_milli - want >= self._headroom_milli

    def _fits(self, of: EquivalenceClass, affinity: AffinityRules) -> bool:
        elastic = of.step.elastic
        for shape_id in of.shapes:
            shape, pods = self._cluster.shapes.all[shape_id], 1 if elastic else of.lack_of(shape_id)
            if shape.whole and (
                shape.devices > self._totals.largest_free_blocks()[0]
                or pods * shape.devices > self._free_whole
            ):
                fitting = 0
            else:
                key = shape_id, affinity, pods > 1  # one pod is a quicker check than several
                known = self._fitting.get(key)
                if known is None:
                    count = self._placer.capacity_for if pods > 1 else self._placer.has_capacity
                    known = self._fitting[key] = int(count(shape, affinity))
                fitting = known
            if (fitting >= pods) is elastic:
                return elastic
        return not elastic
