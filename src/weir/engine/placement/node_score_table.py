"""Node scores of one capacity by request shape, with fragmentation scored for the request mix."""

import numpy as np

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility_cache import FeasibilityCache
from weir.engine.placement.fragmentation import FragmentationScore
from weir.engine.placement.mix_worth import MixWorth
from weir.engine.placement.node_scores import NodeScores
from weir.model.policy import AffinityRules
from weir.model.workloads import WHOLE_MILLI
from weir.state.cluster import Cluster
from weir.state.shapes import RequestShape


class NodeScoreTable:
    """Node scores over one capacity, without pod affinity, each computed at its first use."""

    def __init__(
        self, capacity: Capacity, feasibility: FeasibilityCache, fragmentation: FragmentationScore | None
    ) -> None:
        self._capacity = capacity
        self._feasibility = feasibility
        self._fragmentation = fragmentation
        self._scores: dict[tuple[int, AffinityRules], NodeScores] = {}

    def over(self, capacity: Capacity) -> "NodeScoreTable":
        """Return a table over another capacity of the same cluster."""
        return NodeScoreTable(capacity, self._feasibility, self._fragmentation)

    def branch(self, capacity: Capacity, feasibility: FeasibilityCache) -> "NodeScoreTable":
        """Return a table for a branch of the cluster."""
        fragmentation = self._fragmentation
        return NodeScoreTable(
            capacity, feasibility, None if fragmentation is None else fragmentation.branch()
        )

    def scores_of(self, shape: RequestShape, affinity: AffinityRules = ()) -> NodeScores:
        """Return the scores of a shape."""
        shape = shape.plain or shape
        scores = self._scores.get((shape.id, affinity))
        if scores is None:
            mask, preference = self._feasibility.feasible_nodes(shape, affinity)
            spread = self._feasibility.spread
            scores = NodeScores(self._capacity, shape, mask, preference, spread, self._fragmentation)
            self._scores[shape.id, affinity] = scores
        return scores


def score_of_mix(cluster: Cluster, feasibility: FeasibilityCache) -> FragmentationScore:
    """Return the fragmentation score for the current request mix."""
    assert cluster.mix.free_capacity is not None
    rows, nodes = cluster.free_capacity.free.shape
    capacity = cluster.mix.free_capacity.grown(rows, nodes, cluster.free_capacity.share.shape[1])
    worth = MixWorth(
        () if _devices_alone_count(cluster, feasibility) else cluster.mix.drawn,
        lambda shape: feasibility.feasible_nodes(shape, ())[0],
        Capacity(capacity, np.array(cluster.device_memory, np.int64)),
        int(feasibility.gpus_by_node().sum()) * WHOLE_MILLI,
    )
    return FragmentationScore(worth, capacity.share.shape[1])


def _devices_alone_count(cluster: Cluster, feasibility: FeasibilityCache) -> bool:
    """Return True if recent requests use exclusive GPUs on any node, and GPUs are the scarcest.

    Then every free device of a node can be used, whatever else runs there. Only entirely free nodes are worth
    keeping. So fuller nodes are used first, and the others empty as their pods end.
    """
    gpus = feasibility.gpus_by_node()
    with_gpus = np.flatnonzero(gpus)
    capacity = cluster.capacity[:, with_gpus]
    for shape, _ in cluster.mix.drawn:
        if not shape.devices:
            continue
        if not shape.whole or not feasibility.feasible_nodes(shape, ())[0][with_gpus].all():
            return False
        for row, amount in shape.needs:
            if (amount * gpus[with_gpus] > capacity[row] * shape.devices).any():
                return False
    return True
