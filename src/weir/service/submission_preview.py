"""Preview of a submission: the next decision with it, on a branch of the state."""

from dataclasses import dataclass

from weir.engine.cycle import decide
from weir.engine.explanation.pending_reasons import pending_reason
from weir.model.reasons import Reason
from weir.model.workloads import Workload
from weir.service.decision_state import DecisionState
from weir.state.events import WorkloadSubmitted
from weir.state.reduce import reduce


@dataclass(frozen=True, slots=True)
class PreviewedSubmission:
    """Outcome of a submission: its nodes if it starts, the workloads that would stop, or why it waits."""

    nodes: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    reason: Reason | None = None


def preview_submission(state: DecisionState, workload: Workload) -> PreviewedSubmission:
    """Return the outcome of the next decision for a workload that is submitted now."""
    policy, now_s = state.policy, state.now_s
    cluster = state.branch(person=(workload.project, workload.user))
    reduce(cluster, WorkloadSubmitted(workload, now_s))
    cache = state.cache_for(cluster)
    plan = decide(cluster, policy, now_s, cache)
    nodes = tuple(dict.fromkeys(place.node for place in plan.binds if place.pod.workload == workload.name))
    if nodes:
        return PreviewedSubmission(nodes)
    for nominated in plan.nominations:
        if nominated.workload == workload.name:
            placed = tuple(dict.fromkeys(place.node for place in nominated.places))
            return PreviewedSubmission(placed, tuple(nominated.freed_by))
    job = cluster.jobs[workload.name]
    return PreviewedSubmission(reason=pending_reason(cluster, policy, job, now_s, cache))
