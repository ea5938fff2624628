"""Node ranking: the nodes that could take the next pod of a workload, best first, with their scores."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weir.engine.allocate import Allocator
from weir.engine.node_scores import INFEASIBLE, NodeScores
from weir.engine.queue_order import Candidate
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Ints
from weir.state.shapes import GPU_ROW, RequestShape

RANKED_MOST = 5
"""Nodes of a ranking: the chosen one, the runner-up, and a few more."""


@dataclass(frozen=True, slots=True)
class RankedNode:
    """A node with its scores for one pod.

    Attributes:
        node: its name.
        free_gpus: devices that are free on it.
        preference: sum of the affinity weights; higher is better and is compared first.
        fragmentation: loss of capacity for the usual requests, in devices; lower is better. None if it isn't
            compared.
    """

    node: str
    free_gpus: float
    preference: int
    fragmentation: float | None


@dataclass(frozen=True, slots=True)
class GroupRanking:
    """The best nodes for the next pod of a group, of the `fitting` nodes with capacity."""

    group: str
    fitting: int
    nodes: tuple[RankedNode, ...]


def node_rankings(allocator: Allocator, candidate: Candidate) -> Iterator[GroupRanking]:
    """Yield the ranking of the nodes for the next pod of each group that lacks some."""
    affinity = allocator.feasibility.affinity(candidate.job)
    open_ = allocator.placement.open_to(candidate)
    for group, lack in enumerate(candidate.lacks):
        if not lack:
            continue
        shape = candidate.job.shapes[group]
        rank = allocator.placer.ranks(shape, affinity)
        if open_ is not None:
            rank = np.where(open_, rank, INFEASIBLE)
        scores = allocator.cache.node_scores(shape, affinity)
        fitting = int((rank != INFEASIBLE).sum())
        nodes = _best_first(rank, allocator.placer.best_node(shape, affinity, open_))[:fitting]
        yield GroupRanking(
            candidate.job.spec.groups[group].name,
            fitting,
            tuple([_ranked(allocator, shape, scores, node) for node in nodes[:RANKED_MOST]]),
        )


def _best_first(rank: Ints, chosen: int) -> list[int]:
    """Return the best nodes; among equal ones the chosen node is the first."""
    ordered: list[int] = np.argsort(rank, kind="stable")[: RANKED_MOST + 1].tolist()
    return [chosen, *(node for node in ordered if node != chosen)]


def _ranked(allocator: Allocator, shape: RequestShape, scores: NodeScores, node: int) -> RankedNode:
    preference, loss = scores.parts(node)
    free = max(0, allocator.capacity.columns.free.item(GPU_ROW, node)) / WHOLE_MILLI
    return RankedNode(allocator.cluster.node_names[node], free, preference, loss if shape.devices else None)
