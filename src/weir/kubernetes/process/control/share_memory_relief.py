"""Decides as ever, and evicts pods that have used more memory of a GPU than their share for too long."""

from collections.abc import Callable, Iterator

from structlog import get_logger

from weir.engine.cache import EngineCache
from weir.engine.overcommit import stopped_with
from weir.engine.plan import Eviction, Plan
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.crd.scheduler_settings import ShareMemoryRules
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.pods.share_memory import ShareExcess
from weir.kubernetes.writes.statuses.share_memory import MEMORY_EXCEEDED
from weir.model.policy import Policy
from weir.model.reasons import EvictionCause, EvictionRule
from weir.state.cluster import Cluster
from weir.state.events import PodKey
from weir.state.jobs import Job, Phase, Pod

Decide = Callable[[Cluster, Policy, float, EngineCache], Plan]
Placed = tuple[PodKey, ShareExcess]
_LOG = get_logger(__name__)


class ShareMemoryController:
    """Reports pods beyond their share, and evicts them if others share the device."""

    def __init__(self, backend: KubernetesBackend, decide: Decide, needed: Callable[[], bool]) -> None:
        self._backend = backend
        self._decide = decide
        self._needed = needed
        self.rules = ShareMemoryRules()

    def is_needed(self) -> bool:
        """Return True if a pod is beyond its share, or the other decisions are needed."""
        return self._needed() or self._backend.read(lambda state: state.share_memory.is_exceeded)

    def decide(self, cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Plan:
        """Return the plan, with the evictions of pods that use more than their share."""
        plan = self._decide(cluster, policy, now_s, cache)
        fresh, excesses = self._backend.read(_look)
        for pod, excess in fresh:
            _LOG.warning("gpu_memory_exceeded", pod=excess.pod, why=excess.sentence)
            self._backend.note(pod.workload, MEMORY_EXCEEDED, f"{excess.sentence}.")
        if self.rules.on_excess == "evict" and excesses:
            self._evict(plan, cluster, excesses)
        return plan

    def _evict(self, plan: Plan, cluster: Cluster, excesses: list[Placed]) -> None:
        gone = {eviction.pod for eviction in plan.evictions}
        for key, excess in excesses:
            # Reports repeat: only a report after the grace shows that the excess still exists.
            if not excess.endangers or key in gone or excess.lasted_s < self.rules.grace:
                continue
            job = cluster.jobs.get(key.workload)
            pod = None if job is None else _pod_at(job, key)
            if job is None or pod is None or pod.phase is not Phase.RUNNING:
                continue
            numbers = {
                "node": excess.node,
                "device": excess.device,
                "used": excess.used,
                "share": excess.limit,
            }
            cause = EvictionCause(EvictionRule.MEMORY_EXCEEDED, None, f"{excess.sentence}.", numbers)
            for member in stopped_with(job, [pod], gone):
                stopped = PodKey(job.name, member.group, member.index)
                gone.add(stopped)
                plan.evictions.append(Eviction(stopped, cause))


def _pod_at(job: Job, key: PodKey) -> Pod | None:
    pods = job.pods[key.group] if 0 <= key.group < len(job.pods) else []
    return pods[key.index] if 0 <= key.index < len(pods) else None


def _look(state: ClusterState) -> tuple[list[Placed], list[Placed]]:
    """Return the excesses that aren't reported yet, and all of them."""
    memory = state.share_memory
    return list(_placed(state, memory.take_fresh())), list(_placed(state, memory.all()))


def _placed(state: ClusterState, excesses: list[ShareExcess]) -> Iterator[Placed]:
    for excess in excesses:
        tracked = state.pods.by_key.get(excess.pod)
        if tracked is not None and tracked.uid == excess.uid and tracked.gang is not None:
            yield PodKey(tracked.gang.name, tracked.group, tracked.index), excess
