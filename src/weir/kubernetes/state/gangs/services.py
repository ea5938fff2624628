"""Services: inference workloads that say how many replicas they keep, and borrow the others.

Replicas start one by one. As many of the running ones as the service keeps are its minimum, which is stopped
last. Those above are elastic: they may use more than the quota, and are trimmed one at a time. No minimum is
larger than the quota covers: what is borrowed stays elastic.
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
    """Return the pods that a service can't do without now: the running replicas that it keeps.

    Where each replica is a gang of its own, as in a LeaderWorkerSet, a gang needs what it needs.
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
    """Note that a replica gets its GPUs; return the time since it was made, None if it isn't one."""
    if tracked.bound or tracked.info is None or not tracked.info.request.devices or not is_service(gang):
        return None
    gang.time_to_gpu_s = max(0.0, at_s - tracked.created_s)
    return gang.time_to_gpu_s
