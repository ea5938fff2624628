"""Details of the decision on one workload: the nodes by score, and the victims by price."""

from collections.abc import Iterator

import numpy as np

from weir.api.decision import DecisionAnswer, NodeRankingRow, NodeScoreRow
from weir.engine.allocation.allocate import Allocator, new_allocator
from weir.engine.order.queue_order import Candidate
from weir.engine.placement.node_scores import INFEASIBLE, NodeScores
from weir.engine.victims.preemption_context import PreemptionContext
from weir.model.workloads import WHOLE_MILLI
from weir.service.considered_victims import ConsideredVictims
from weir.service.decision_state import DecisionState
from weir.state.capacity_columns import Ints
from weir.state.events import WorkloadEnded, WorkloadOutcome, WorkloadSubmitted
from weir.state.reduce import reduce
from weir.state.shapes import RequestShape

RANKED_MAX = 5
"""Limit of nodes in a ranking: the chosen one, the runner-up, and a few more."""


def explain_decision(state: DecisionState, name: str) -> DecisionAnswer | None:
    """Return the details of the next decision on a workload; None if it can't be placed.

    A workload on which no decision is due is submitted again on a branch of the state, without its pods.
    """
    job = state.cluster.jobs.get(name)
    if job is None:
        return None
    cluster, cache, again = state.cluster, state.cache, job.waiting is None
    if again:
        cluster = state.branch([name], (job.spec.project, job.spec.user))
        reduce(cluster, WorkloadEnded(name, WorkloadOutcome.STOPPED, state.now_s))
        reduce(cluster, WorkloadSubmitted(job.spec, state.now_s))
        cache, job = state.cache_for(cluster), cluster.jobs[name]
    if job.waiting is None:
        return None
    allocator = new_allocator(cluster, state.policy, state.now_s, cache)
    candidate = Candidate(job.waiting, job.waiting.position_of(job))
    useful = np.zeros(cluster.free_capacity.free.shape[1], np.bool_)
    for _, nodes, _ in allocator.matching(candidate):
        useful |= nodes
    victims = ConsideredVictims(PreemptionContext(allocator), allocator.rules_of(candidate), useful)
    return DecisionAnswer(
        rankings=list(_node_rankings(allocator, candidate)),
        eligible=victims.eligible,
        protected=victims.protected,
        victims=victims.rows(),
        again=again,
    )


def _node_rankings(allocator: Allocator, candidate: Candidate) -> Iterator[NodeRankingRow]:
    """Yield the ranking of the nodes for the next pod of each group with missing pods."""
    affinity = allocator.feasibility.affinity(candidate.job)
    open_ = allocator.placement.open_to(candidate)
    for group, lack in enumerate(candidate.lacks):
        if not lack:
            continue
        shape = candidate.job.shapes[group]
        rank = allocator.placer.ranks(shape, affinity)
        if open_ is not None:
            rank = np.where(open_, rank, INFEASIBLE)
        scores = allocator.cache.scores.scores_of(shape, affinity)
        fitting = int((rank != INFEASIBLE).sum())
        nodes = _best_first(rank, allocator.placer.best_node(shape, affinity, open_))[:fitting]
        rows = [_score_row(allocator, shape, scores, node) for node in nodes[:RANKED_MAX]]
        yield NodeRankingRow(group=candidate.job.spec.groups[group].name, fitting=fitting, nodes=rows)


def _best_first(rank: Ints, chosen: int) -> list[int]:
    """Return the best nodes; the chosen node is the first among equals."""
    ordered: list[int] = np.argsort(rank, kind="stable")[: RANKED_MAX + 1].tolist()
    return [chosen, *(node for node in ordered if node != chosen)]


def _score_row(allocator: Allocator, shape: RequestShape, scores: NodeScores, node: int) -> NodeScoreRow:
    preference, loss = scores.parts(node)
    return NodeScoreRow(
        node=allocator.cluster.node_names[node],
        free_gpus=int(allocator.capacity.columns.share[node].clip(min=0).sum()) / WHOLE_MILLI,
        preference=preference,
        fragmentation=loss if shape.devices else None,
    )
