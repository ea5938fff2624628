"""Details of the decision on one workload: the nodes by score, and the victims by price."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weir.engine.allocate import Allocator, new_allocator
from weir.engine.cache import EngineCache
from weir.engine.considered_victims import ConsideredVictims, considered_victims
from weir.engine.node_scores import INFEASIBLE, NodeScores
from weir.engine.preemption_context import PreemptionContext
from weir.engine.queue_order import Candidate
from weir.engine.reason_context import ReasonContext
from weir.model.policy import Policy
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Ints
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.shapes import RequestShape

RANKED_MOST = 5
"""Nodes of a ranking: the chosen one, the runner-up, and a few more."""


@dataclass(frozen=True, slots=True)
class RankedNode:
    """A node with its scores for one pod."""

    node: str
    free_gpus: float
    preference: int  # sum of the affinity weights; higher is better, and is compared first
    fragmentation: float | None  # loss of capacity for usual requests, in devices; None: not compared


@dataclass(frozen=True, slots=True)
class GroupRanking:
    """The best nodes for the next pod of a group, of the `fitting` nodes with capacity."""

    group: str
    fitting: int
    nodes: tuple[RankedNode, ...]


@dataclass(frozen=True, slots=True)
class DecisionDetails:
    """Nodes for the next pod of each group, and the victims on nodes of use."""

    rankings: tuple[GroupRanking, ...]
    victims: ConsideredVictims


def decision_details(
    cluster: Cluster, policy: Policy, job: Job, now_s: float, cache: EngineCache
) -> DecisionDetails | None:
    """Return the details of the decision on a pending workload; None for one that isn't pending."""
    if job.waiting is None:
        return None
    context = ReasonContext(new_allocator(cluster, policy, now_s, cache))
    candidate = Candidate(job.waiting, job.waiting.position_of(job))
    affinity = context.feasibility.affinity(job)
    useful = np.zeros(cluster.free_capacity.free.shape[1], np.bool_)
    for _, shape, _ in context.lacking(candidate):
        useful |= context.feasibility.feasible_nodes(shape, affinity)[0]
    preemption = PreemptionContext(context.allocator)
    return DecisionDetails(
        tuple(_node_rankings(context.allocator, candidate)),
        considered_victims(preemption, context.rules(candidate), useful),
    )


def _node_rankings(allocator: Allocator, candidate: Candidate) -> Iterator[GroupRanking]:
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
        scores = allocator.cache.scores.of(shape, affinity)
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
    free = int(allocator.capacity.columns.share[node].clip(min=0).sum()) / WHOLE_MILLI
    return RankedNode(allocator.cluster.node_names[node], free, preference, loss if shape.devices else None)
