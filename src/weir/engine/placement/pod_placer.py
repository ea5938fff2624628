"""Placing one pod: the best node by rank, and the devices there."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import devices_for, pods_that_fit
from weir.engine.placement.fragmentation import NO_DEVICE
from weir.engine.placement.node_scores import INFEASIBLE, NodeScores
from weir.engine.placement.pod_affinity import PodAffinityRules
from weir.model.policy import AffinityRules
from weir.state.capacity_columns import Bools, Ints
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod
from weir.state.shapes import GPU_ROW, RequestShape


class NodePlacement(NamedTuple):
    """A pod on a node with its devices, by objects and indices."""

    pod: Pod
    node: int
    devices: tuple[int, ...]


class PlacementRequest(NamedTuple):
    """Pods of a workload to place, by group, and the nodes it may use; None for all."""

    job: Job
    pods: Mapping[int, Sequence[Pod]]
    affinity: AffinityRules = ()
    within: Bools | None = None


ScoresOf = Callable[[RequestShape, AffinityRules], NodeScores]


class PodPlacer:
    """Places pods one by one in one capacity. `ranking_of` returns the node scores of a shape."""

    def __init__(
        self,
        cluster: Cluster,
        capacity: Capacity,
        ranking_of: ScoresOf,
        steps_max: int,
        rules: PodAffinityRules,
        domain_of: Ints | None = None,
    ) -> None:
        self.cluster = cluster
        self.capacity = capacity
        self.ranking_of = ranking_of
        self.steps_max = steps_max  # bound of a gang search
        self.rules = rules
        self._domain_of = domain_of  # domain of each node, if small work should keep domains whole

    def ranks(self, shape: RequestShape, affinity: AffinityRules) -> Ints:
        """Return the rank of every node for a shape, pod affinity included."""
        rank = self.plain_ranks(shape, affinity)
        return self.rules.ranked(self.capacity.columns, shape, rank) if shape.pod_rules else rank

    def plain_ranks(self, shape: RequestShape, affinity: AffinityRules) -> Ints:
        """Return the rank of every node for a shape without its pod affinity."""
        return self._followed(shape, affinity).rank

    def _followed(self, shape: RequestShape, affinity: AffinityRules) -> NodeScores:
        ranking = self.ranking_of(shape, affinity)
        ranking.follow(self.capacity)
        return ranking

    def has_capacity(self, shape: RequestShape, affinity: AffinityRules) -> bool:
        """Return True if a pod of a shape fits any node, without its pod affinity."""
        return self._followed(shape, affinity).best() >= 0

    def capacity_for(self, shape: RequestShape, affinity: AffinityRules, within: Bools | None = None) -> int:
        """Return the number of pods of a shape that fit; a bound with affinity or several shares."""
        rank = self.plain_ranks(shape, affinity)
        open_ = rank != INFEASIBLE if within is None else (rank != INFEASIBLE) & within
        count = pods_that_fit(self.capacity, shape)
        return int(count[open_].sum())

    def best_node(self, shape: RequestShape, affinity: AffinityRules, within: Bools | None = None) -> int:
        """Return the best node for one pod, the first of equal ones; -1 if none fits."""
        ranking = self._followed(shape, affinity)
        best, rank = ranking.best(), ranking.rank
        if best < 0:
            return -1
        if shape.pod_rules or within is not None:
            if shape.pod_rules:
                rank = self.rules.ranked(self.capacity.columns, shape, rank)
            if within is not None:
                rank = np.where(within, rank, INFEASIBLE)
            best = int(rank.argmin())
            if rank[best] == INFEASIBLE:
                return -1
        return best if self._domain_of is None else self._in_most_broken(rank, best, self._domain_of)

    def _in_most_broken(self, rank: Ints, best: int, domain_of: Ints) -> int:
        """Return the first of the equally good nodes whose domain has least free capacity."""
        equal = np.flatnonzero(rank == rank[best])
        if len(equal) == 1:
            return best
        has_domain = domain_of >= 0
        free = np.bincount(
            domain_of[has_domain], np.maximum(self.capacity.columns.free[GPU_ROW, has_domain], 0)
        )
        left = np.where(domain_of[equal] >= 0, free[domain_of[equal]], -1.0)
        return int(equal[left.argmin()])

    def put(self, pod: Pod, node: int, affinity: AffinityRules = ()) -> NodePlacement:
        """Place a pod on a node that it fits."""
        shape, device = pod.shape, NO_DEVICE
        if shape.devices == 1 and not shape.whole:
            device = int(self._followed(shape, affinity).device[node])
        devices = (device,) if device >= 0 else self.devices_for(shape, node)
        assert len(devices) == shape.devices, (
            f"{pod.job.name}: {len(devices)} devices free on {self.cluster.nodes[node]}, not {shape.devices}"
        )
        self.capacity.allocate(node, shape, devices)
        return NodePlacement(pod, node, devices)

    def devices_for(self, shape: RequestShape, node: int) -> tuple[int, ...]:
        """Return the devices that a pod of a shape takes on a node that it fits, by the node's links."""
        spec = self.cluster.nodes[node]
        return devices_for(self.capacity, shape, node, spec.links if spec is not None else ())

    def fill(self, shape: RequestShape, affinity: AffinityRules, pods: int) -> int:
        """Allocate up to this number of pods of a shape; return how many fit."""
        for placed in range(pods):
            node = self.best_node(shape, affinity)
            if node < 0:
                return placed
            self.capacity.allocate(node, shape, self.devices_for(shape, node))
        return pods
