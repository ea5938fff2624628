"""Details of the decision on one workload: the nodes by score, and the victims by price."""

from dataclasses import dataclass

import numpy as np

from weir.engine.allocate import new_allocator
from weir.engine.cache import EngineCache
from weir.engine.considered_victims import ConsideredVictims, considered_victims
from weir.engine.node_ranking import GroupRanking, node_rankings
from weir.engine.preemption_context import context_after_releases
from weir.engine.queue_order import Candidate
from weir.engine.reason_context import ReasonContext
from weir.model.policy import Policy
from weir.state.cluster import Cluster
from weir.state.jobs import Job


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
    preemption = context_after_releases(context.allocator)
    preemption.accounting.expect(cluster.nominated)
    return DecisionDetails(
        tuple(node_rankings(context.allocator, candidate)),
        considered_victims(preemption, context.rules(candidate), useful),
    )
