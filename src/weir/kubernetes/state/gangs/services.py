"""Services: inference workloads that state how many replicas they keep; the others may use borrowed quota.

Replicas start one by one. The number of replicas that the service keeps is its minimum, which is stopped
last. Running replicas above it are elastic: they may exceed the quota, and are stopped one at a time. A
minimum never exceeds the quota, so borrowed replicas stay elastic.
"""

from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.model.workloads import WHOLE_MILLI, WorkloadType


def is_service(gang: Gang) -> bool:
    """Return True if its pods serve requests."""
    head = gang.head
    return head is not None and (head.annotations.type or head.derived.type) is WorkloadType.INFERENCE


def kept_replicas(gang: Gang) -> int | None:
    """Return the replicas that a service keeps; None if its annotations don't state a number."""
    return None if gang.head is None or not is_service(gang) else gang.head.annotations.min_replicas


def minimum_of_service(gang: Gang, needed: int, running: int) -> int:
    """Return the minimum of a service now: as many running replicas as it keeps.

    If each replica is a gang of its own, as in a LeaderWorkerSet, the gang has its usual minimum.
    """
    kept = kept_replicas(gang)
    if kept is None or gang.key.gang:
        return needed
    return max(needed, min(kept, running, _covered_replicas(gang, running)))


def _covered_replicas(gang: Gang, running: int) -> int:
    """Return how many of the running replicas the GPU quota of the project covers."""
    if gang.gpu_quota_milli is None or gang.head is None:
        return running
    request = gang.head.request
    milli = request.devices * min(WHOLE_MILLI, request.share_milli) * request.gpu_weight_milli // WHOLE_MILLI
    return gang.gpu_quota_milli // milli if milli else running


def preemptible_by_replicas(gang: Gang) -> bool | None:
    """Return whether a service may use more than the quota; None if its replicas don't decide that."""
    kept = kept_replicas(gang)
    if kept is None:
        return None
    index = gang.key.gang
    return not (index.isascii() and index.isdigit() and int(index) < kept)


def note_allocation(gang: Gang, tracked: TrackedPod, at_s: float) -> float | None:
    """Record that a replica gets its GPUs; return its wait since its creation, or None if it isn't one."""
    if tracked.bound or tracked.info is None or not tracked.info.request.devices or not is_service(gang):
        return None
    gang.time_to_gpu_s = max(0.0, at_s - tracked.created_s)
    return gang.time_to_gpu_s
