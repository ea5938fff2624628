"""The running pods that may report on themselves, from the state of the cluster."""

from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.query.message_route import ReportSource
from weir.kubernetes.state.cluster_state import ClusterState


def reporting_pod(backend: KubernetesBackend, namespace: str, name: str) -> ReportSource | None:
    """Return a pod of a workload that has a node; None if Weir doesn't schedule it, or it is over."""

    def look(state: ClusterState) -> ReportSource | None:
        tracked = state.pods.by_key.get(f"{namespace}/{name}")
        if tracked is None or tracked.gang is None or not tracked.holds or tracked.over:
            return None
        gang = tracked.gang
        return ReportSource(tracked.uid, gang.name, gang.key.uid, tracked.at_s)

    return backend.read(look)
