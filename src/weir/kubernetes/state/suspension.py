"""Suspensions of workloads that control orders: the owner of the pods carries them out.

Weir suspends a Job, and its controller deletes the pods. From the order on, the gate of the workload is
closed. The suspension itself is a field of the Job, so a restart loses nothing. A refusal opens the gate.
"""

from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gangs import Gang
from weir.kubernetes.state.owner_state import maker_of
from weir.kubernetes.state.owners import Owners

JOB = ("batch/v1", "Job")
_LEAVES_JOBS_ALONE = "CronJob"


def suspension_refusal(gang: Gang, owners: Owners) -> str:
    """Return why Weir can't suspend a workload, as a clause; empty if it can."""
    if gang.idle.refusal:
        return gang.idle.refusal
    maker = maker_of(gang)
    if (maker.api_version, maker.kind) != JOB:
        return f"it can suspend Jobs, and no {maker.kind}"
    above = owners.controller(maker.uid)
    if above is not None and above.kind != _LEAVES_JOBS_ALONE:
        return f"its Job belongs to {above.kind} {above.name}"
    return ""


def refusal_of(state: ClusterState, *, name: str) -> str:
    """Return why Weir can't suspend the workload of this name, as a clause; empty if it can."""
    gang = state.registry.named.get(name)
    return "it is gone" if gang is None else suspension_refusal(gang, state.resolver.owners)
