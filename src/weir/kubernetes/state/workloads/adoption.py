"""Workloads that have no pods when Weir starts, as their objects remember them.

The Job controller pauses after evictions and failures. If Weir starts in such a pause, it sees no pod of the
workload. But the owner exists, and the Workload object describes it, so the workload keeps its project, its
status and its reason.
"""

from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.state.owners.pod_info import PodInfo, object_name
from weir.kubernetes.translate.annotations import Annotations
from weir.kubernetes.translate.kinds import DerivedWorkload, GangKey
from weir.kubernetes.translate.requests import PodRequest
from weir.model.workloads import Request, WorkloadType

PODS_MAX = 1_000_000
_OVER = ("Succeeded", "Failed", "Stopped")


def adopted(name: str, workload_object: WorkloadObject) -> PodInfo | None:
    """Return a workload from its object; None if pods define it, or no pods will come."""
    spec, owner = workload_object.spec, workload_object.spec.owner
    ended = not workload_object.written or workload_object.status.phase in _OVER
    if ended or not owner.uid or not owner.kind or owner.kind == "Pod":
        return None
    namespace, _, bare = name.rpartition("/")
    key = GangKey(namespace, owner.api_version, owner.kind, owner.name, owner.uid, owner.gang)
    if object_name(key) != bare:
        return None  # not in Weir's form
    type_ = WorkloadType(spec.type) if spec.type in set(WorkloadType) else WorkloadType.TRAIN
    pods = min(max(1, spec.min_pods), PODS_MAX)
    return PodInfo(
        DerivedWorkload(key, "", type_, pods),
        Annotations(project=spec.project or None, type=type_, preemptible=spec.preemptible),
        PodRequest(Request(cpu_milli=0, memory=0)),
        spec.priority,
        seconds_of(workload_object.status.submitted_at),
    )
