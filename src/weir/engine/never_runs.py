"""Pending workloads that don't fit the cluster even if all nodes are idle: they are no demand.

If they counted, their fair share would be withheld from the siblings of their queue and stay unused.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass

Excess = Mapping[int, Mapping[int, int]]
"""Demand of workloads that fit no node, by the position of their project and by resource row."""
NO_EXCESS: Excess = MappingProxyType({})


class NeverRuns:
    """Pending classes that can never run on the cluster. Each class is checked once."""

    def __init__(self) -> None:
        self._classes: dict[EquivalenceClass, None] = {}
        self._asked = 0  # number of classes that existed at the last call

    def branch(self, branched: Cluster) -> "NeverRuns":
        """Return a copy for a branch of the cluster, in which some classes are replaced by copies."""
        copy = NeverRuns()
        own = [branched.waiting.get(of.key) for of in self._classes]
        copy._classes = {of: None for of in own if of is not None and of.number < self._asked}
        copy._asked = self._asked
        return copy

    def excess(self, cluster: Cluster, could_run: Callable[[EquivalenceClass], bool]) -> Excess:
        """Return the requests of these workloads now."""
        for of in reversed(cluster.waiting.values()):
            if of.number < self._asked:
                break  # classes are in order of creation
            if not could_run(of):
                self._classes[of] = None
        self._asked = cluster.classes_made
        excess: dict[int, dict[int, int]] = {}
        for of in list(self._classes):
            if cluster.waiting.get(of.key) is not of:
                del self._classes[of]
                continue
            job = of.first
            if job.is_running:
                continue  # some of its pods run
            line = excess.setdefault(of.project, {})
            for request, pending in zip(job.requests, job.pending, strict=True):
                for row, amount in request:
                    line[row] = line.get(row, 0) + amount * pending * len(of.members)
        return excess
