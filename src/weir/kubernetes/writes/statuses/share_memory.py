"""Memory of shares for people: the isolation of a Workload, and a condition while a pod uses too much."""

from collections.abc import Iterable, Sequence

from weir.kubernetes.crd.objects import COOPERATIVE, ENFORCED, UNLIMITED
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.kubernetes.state.pods.share_memory import ShareExcess
from weir.kubernetes.translate.annotations import PREFIX, SHARE_VARIABLES
from weir.kubernetes.translate.gpu_sharing import is_privileged, is_share, limits_memory
from weir.kubernetes.writes.statuses.values import Words, trouble_conditions

MEMORY_EXCEEDED = "GPUMemoryExceeded"


def memory_isolation(gang: Gang, holding: Iterable[TrackedPod], cluster_state: ClusterState) -> Words:
    """Return the field on the memory isolation of a workload's shares.

    It has no value without a placed share. Until every agent had time to report, the previous value stays.
    Agents don't watch the memory of shares from a DRA driver.
    """
    placed = [tracked for tracked in holding if tracked.info is not None]
    shares = [tracked for tracked in placed if tracked.info is not None and is_share(tracked.info.request)]
    claimed = {pod: cluster_state.claims.shared_gpu_classes(pod.key, pod.node) for pod in placed}
    if not shares and not any(claimed.values()):
        return {"gpuMemoryIsolation": None}
    if not all(_is_limited_by_driver(pod, classes, cluster_state) for pod, classes in claimed.items()):
        return {"gpuMemoryIsolation": UNLIMITED}
    memory = cluster_state.share_memory
    unlimited = [tracked for tracked in shares if not _is_limited(tracked, cluster_state)]
    if not unlimited:
        return {"gpuMemoryIsolation": ENFORCED}
    if all(memory.is_watched(tracked) for tracked in unlimited):
        return {"gpuMemoryIsolation": COOPERATIVE}
    if not memory.is_settled:
        stated = _stated(gang, cluster_state)
        may_be_limited = all(_has_limit(tracked, cluster_state) for tracked in unlimited)
        if stated == COOPERATIVE or (stated == ENFORCED and may_be_limited):
            return {}
    return {"gpuMemoryIsolation": UNLIMITED}


def _stated(gang: Gang, cluster_state: ClusterState) -> str | None:
    workload_object = cluster_state.registry.objects.get(gang.name)
    return None if workload_object is None else workload_object.status.gpu_memory_isolation


def _is_limited(tracked: TrackedPod, cluster_state: ClusterState) -> bool:
    """Return True if a pod's limit of memory is set and enforced, as far as is known.

    It is enforced by the container toolkit of a node with the label, or by the driver, as its node's agent
    has read.
    """
    node = cluster_state.node_states.node(tracked.node)
    is_heeded = cluster_state.share_memory.is_limited(tracked) or (
        node is not None and limits_memory(node.labels)
    )
    return is_heeded and _has_limit(tracked, cluster_state)


def _has_limit(tracked: TrackedPod, cluster_state: ClusterState) -> bool:
    """Return True if a pod's containers have the limit, and no use beyond it was seen."""
    memory = cluster_state.share_memory
    has_variables = f"{PREFIX}{SHARE_VARIABLES}" in cluster_state.resolver.annotations(tracked.key)
    return has_variables and memory.limit(tracked) > 0 and not memory.excesses_of([tracked])


def _is_limited_by_driver(tracked: TrackedPod, classes: Iterable[str], cluster_state: ClusterState) -> bool:
    """Return True if drivers limit the memory of all shares that a pod claims, as labels of classes state.

    A privileged pod isn't limited: it can use all devices of its node.
    """
    if not classes:
        return True
    device_classes = [cluster_state.claims.inventory.classes.get(name) for name in classes]
    limits = all(
        device_class is not None and limits_memory(device_class.metadata.labels)
        for device_class in device_classes
    )
    return limits and not is_privileged(cluster_state.resolver.pod(tracked.key).spec)


def memory_conditions(excesses: Sequence[ShareExcess]) -> list[Words]:
    """Return the condition of a Workload with pods that use more than their shares."""
    return trouble_conditions(MEMORY_EXCEEDED, "MoreThanItsShare", excesses, "pods")
