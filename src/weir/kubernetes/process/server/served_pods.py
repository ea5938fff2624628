"""Running pods of the state, as answers need them: a pod that reports on itself, and the shares of a node."""

from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.query.messages.route import ReportSource
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.usage.node_shares import NodeShares, PodShare


def reporting_pod(backend: KubernetesBackend, namespace: str, name: str) -> ReportSource | None:
    """Return a workload's pod with a node; None if Weir doesn't schedule the pod, or it has ended."""

    def look(state: ClusterState) -> ReportSource | None:
        tracked = state.pods.by_key.get(f"{namespace}/{name}")
        if tracked is None or tracked.gang is None or not tracked.holds or tracked.over:
            return None
        gang = tracked.gang
        return ReportSource(tracked.uid, gang.name, gang.key.uid, tracked.at_s)

    return backend.read(look)


def shares_of(backend: KubernetesBackend, node: str) -> NodeShares | None:
    """Return the pods with shares on a node, except pods without devices or a known limit.

    None: the node isn't known, as before all objects are read.
    """

    def look(state: ClusterState) -> NodeShares | None:
        if state.node_states.node(node) is None:
            return None
        memory = state.share_memory
        pods = [(share, memory.limit(share)) for share in memory.shares_on(node) if share.devices]
        return NodeShares(tuple(PodShare(share.uid, share.devices, limit) for share, limit in pods if limit))

    return backend.read(look)
