"""Shortens the stops of pods that were deleted with a long grace period, where others wait for their GPUs.

Weir's own evictions have at most the longest period of the policy. Pods may be deleted by others, too: by
their tenant, who may write any period, or by the controller of a suspended owner.
"""

from collections.abc import Iterator, Mapping

from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.writes.operations import EmitEvent, Evict
from weir.kubernetes.writes.pods.stop_grace import least_grace_s
from weir.kubernetes.writes.statuses.event_bodies import regarding_pod
from weir.model.resources import span
from weir.state.cluster import Cluster
from weir.state.events import PodKey
from weir.state.jobs import Phase

LOOK_EVERY_S = 15.0
"""Time between two looks: a shortened stop shows on the pod until then."""


class LongStops:
    """Finds stops that last longer than a workload with a nomination has to wait."""

    def __init__(self, backend: KubernetesBackend) -> None:
        self._backend = backend
        self._next_s = 0.0

    def take(self, cluster: Cluster, most_s: float, now_s: float) -> list[Evict]:
        """Return the evictions that shorten stops to `most_s` for workloads with a nomination."""
        if now_s < self._next_s or not cluster.nominated:
            return []
        self._next_s = now_s + LOOK_EVERY_S
        waited_for = dict(_waited_for(cluster))
        return self._backend.read(lambda state: list(_evictions(state, waited_for, least_grace_s(most_s))))


def _waited_for(cluster: Cluster) -> Iterator[tuple[PodKey, str]]:
    """Yield each pod that stops on a node where others have a nomination, with one of these workloads."""
    for job in cluster.nominated.values():
        nominations = (pod.nomination for group in job.pods for pod in group)
        for node in {nomination[0] for nomination in nominations if nomination is not None}:
            for pod in cluster.pods_on[node]:
                if pod.phase is Phase.STOPPING and pod.job is not job:
                    yield PodKey(pod.job.name, pod.group, pod.index), job.name


def _evictions(state: ClusterState, waited_for: Mapping[PodKey, str], most_s: int) -> Iterator[Evict]:
    for key, by in waited_for.items():
        gang = state.registry.named.get(key.workload)
        tracked = None if gang is None else gang.pod_at(key)
        if gang is None or tracked is None or not (tracked.deleting and tracked.bound) or tracked.over:
            continue
        grace_s = state.resolver.pod(tracked.key).metadata.deletion_grace_period_seconds
        if grace_s is None or grace_s <= most_s:
            continue
        note = f"{by} waits for its GPUs, so {tracked.name} has {span(most_s)} to stop."
        subject = regarding_pod(gang, tracked)
        yield Evict(
            gang.key.namespace,
            tracked.name,
            tracked.uid,
            most_s,
            EmitEvent(subject, "StopShortened", note, action="Evicting", type="Warning"),
            (tracked, tracked.reported_start, None),
            needed_by=by,
        )
