"""Memory of shares for people: the isolation of a Workload, and a condition while a pod uses too much."""

from collections.abc import Iterable, Sequence

from weir.kubernetes.crd.objects import COOPERATIVE, ENFORCED, UNLIMITED
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gangs import Gang, TrackedPod
from weir.kubernetes.state.share_memory import ShareExcess
from weir.kubernetes.translate.annotations import PREFIX, SHARE_VARIABLES
from weir.kubernetes.translate.gpu_sharing import is_share, limits_memory
from weir.kubernetes.writes.status_values import Words, trouble_conditions

MEMORY_EXCEEDED = "GPUMemoryExceeded"


def memory_isolation(gang: Gang, holding: Iterable[TrackedPod], cluster_state: ClusterState) -> Words:
    """Return the field on the memory isolation of a workload's shares.

    It has no value without a placed share. Until every agent could report, what was written stays.
    """
    shares = [tracked for tracked in holding if tracked.info is not None and is_share(tracked.info.request)]
    if not shares:
        return {"gpuMemoryIsolation": None}
    memory = cluster_state.share_memory
    unlimited = [tracked for tracked in shares if not _is_limited(tracked, cluster_state)]
    if not unlimited:
        return {"gpuMemoryIsolation": ENFORCED}
    if all(memory.is_watched(tracked) for tracked in unlimited):
        return {"gpuMemoryIsolation": COOPERATIVE}
    if not memory.is_settled and _states_cooperative(gang, cluster_state):
        return {}
    return {"gpuMemoryIsolation": UNLIMITED}


def _states_cooperative(gang: Gang, cluster_state: ClusterState) -> bool:
    thing = cluster_state.registry.objects.get(gang.name)
    return thing is not None and thing.status.gpu_memory_isolation == COOPERATIVE


def _is_limited(tracked: TrackedPod, cluster_state: ClusterState) -> bool:
    """Return True if a pod has its limit and reads it, and its node heeds it, as far as anyone has seen."""
    node = cluster_state.node_states.node(tracked.node)
    has_variables = f"{PREFIX}{SHARE_VARIABLES}" in cluster_state.resolver.annotations(tracked.key)
    memory = cluster_state.share_memory
    has_limit = has_variables and memory.limit(tracked) > 0 and not memory.of([tracked])
    return has_limit and node is not None and limits_memory(node.labels)


def memory_conditions(excesses: Sequence[ShareExcess]) -> list[Words]:
    """Return the condition of a Workload with pods that use more than their shares."""
    return trouble_conditions(MEMORY_EXCEEDED, "MoreThanItsShare", excesses, "pods")
