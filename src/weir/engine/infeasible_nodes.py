"""Nodes that could never take a workload, however idle, found once for all with the same request."""

from weir.engine.infeasible import NodeRefusals, sentence_of
from weir.engine.infeasible_gang import infeasible_gang
from weir.engine.queue_order import Candidate
from weir.engine.reason_context import ReasonContext
from weir.engine.topology_levels import missing_topology
from weir.model.reasons import Reason, ReasonCode


def infeasible(context: ReasonContext, candidate: Candidate) -> Reason | None:
    """Return why the nodes could never take a workload; None if they may."""
    job, topology, cluster = candidate.job, candidate.job.topology, context.cluster
    if topology is not None and (what := missing_topology(cluster.topologies, topology)) is not None:
        sentence = f"it has to share one domain by {what}, which doesn't exist"
        numbers: dict[str, object] = {"topology": topology.name, "known": sorted(cluster.topologies)}
        return Reason(ReasonCode.NO_NODE_MATCHES, sentence, numbers)
    feasibility = context.feasibility
    names = tuple([group.name for group in job.spec.groups])
    key = (candidate.of.gang, tuple(candidate.lacks), names, topology, feasibility.affinity(job))
    if key not in feasibility.infeasible:
        feasibility.infeasible[key] = _of_request(context, candidate)
    return feasibility.infeasible[key]


def _of_request(context: ReasonContext, candidate: Candidate) -> Reason | None:
    nodes = context.cluster.nodes
    affinity = context.feasibility.affinity(candidate.job)
    for group, shape, _ in context.lacking(candidate):
        refusals = NodeRefusals.of(nodes, shape.request, affinity)
        if not refusals.able:
            sentence = sentence_of(refusals, nodes, shape.request)
            by = {"group": group, "refused_by": dict(refusals.by)}
            return Reason(ReasonCode.NO_NODE_MATCHES, sentence, by)
    return infeasible_gang(context.cluster, context.policy, context.cache, candidate.job, affinity)
