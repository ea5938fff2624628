"""Preview of a submission: the next decision with it, on a copy of the cluster."""

from dataclasses import dataclass

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.pending_reasons import pending_reason
from weir.model.policy import Policy
from weir.model.reasons import Reason
from weir.model.workloads import Workload
from weir.service.cluster_copy import ClusterFacts, copy_cluster
from weir.state.events import WorkloadSubmitted
from weir.state.reduce import reduce


@dataclass(frozen=True, slots=True)
class PreviewedSubmission:
    """Outcome of a submission: its nodes if it starts, the workloads that would stop, or why it waits."""

    nodes: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    reason: Reason | None = None


def preview_submission(facts: ClusterFacts, policy: Policy, workload: Workload) -> PreviewedSubmission:
    """Return what the next decision does with a workload that is submitted now."""
    cluster = copy_cluster(facts)
    reduce(cluster, WorkloadSubmitted(workload, facts.now_s))
    plan = decide(cluster, policy, facts.now_s, EngineCache())
    nodes = tuple(dict.fromkeys(place.node for place in plan.binds if place.pod.workload == workload.name))
    if nodes:
        return PreviewedSubmission(nodes)
    for nominated in plan.nominations:
        if nominated.workload == workload.name:
            placed = tuple(dict.fromkeys(place.node for place in nominated.places))
            return PreviewedSubmission(placed, tuple(nominated.freed_by))
    job = cluster.jobs[workload.name]
    return PreviewedSubmission(reason=pending_reason(cluster, policy, job, facts.now_s))
