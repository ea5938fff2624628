"""Nominations: bind pods whose nominated capacity is free, and release nominations that no longer hold.

The capacity of a pod is blocked if its node refuses the pod now, or if no stopping pod will free it: a device
failed, a node was cordoned, or another scheduler was faster.
"""

from collections.abc import Iterator

from weir.engine.allocation.allocate import Allocator
from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.usage.quota_overlay import INFINITE
from weir.state.capacity_columns import CapacityColumns
from weir.state.jobs import Job, Phase, Pod

BLOCKED_S = 10.0
"""Time for which blocked capacity is tolerated: drivers restart, and claims outlive their pods a little."""


class Nominations:
    """Nominations of the cluster at one time."""

    def __init__(self, allocator: Allocator) -> None:
        self._cluster = allocator.cluster
        self._grace_s = allocator.policy.gang_grace
        self._capacity = allocator.capacity
        self._feasibility = allocator.feasibility
        self._rules = allocator.feasibility.pod_rules()
        self._now_s = allocator.now_s
        self._awaited = allocator.cache.awaited
        # Workloads whose blocked state changes: since when, or None
        self.blocked: dict[str, float | None] = {}

    def ended(self) -> Iterator[tuple[str, list[NodePlacement] | None]]:
        """Yield the ended nominations by workload, with the placements to bind, or None to release it."""
        for name in self._awaited.keys() - self._cluster.nominated.keys():
            del self._awaited[name]
        for name in sorted(self._cluster.nominated):
            job = self._cluster.nominated[name]
            pods = [pod for group in job.pods for pod in group if pod.nomination is not None]
            is_awaited = job.absent_since_s is not None or self._is_being_freed(name, pods)
            is_blocked = not is_awaited and not all(self._is_free(pod) and self._is_open(pod) for pod in pods)
            if is_blocked is (job.blocked_since_s is None):
                self.blocked[name] = self._now_s if is_blocked else None
            if is_awaited or is_blocked:
                if self._ends_s(job) <= self._now_s:
                    yield name, None
            elif self._allows(pods, self._cluster.free_capacity):
                yield (
                    name,
                    [NodePlacement(pod, *pod.nomination) for pod in pods if pod.nomination is not None],
                )
            elif not self._allows(pods, self._capacity.after_releases(self._cluster).columns):
                yield name, None  # the nominated nodes exclude its pods because of pods started since

    def times_s(self) -> list[float]:
        """Return the times at which nominations of absent pods or blocked capacity end."""
        ends_s = (self._ends_s(job) for job in self._cluster.nominated.values())
        return [end_s for end_s in ends_s if end_s < INFINITE]

    def _ends_s(self, job: Job) -> float:
        """Return the time at which a nomination ends if nothing changes; infinite if it is kept."""
        if job.absent_since_s is not None:
            return job.absent_since_s + self._grace_s
        blocked_since_s = self.blocked.get(job.name, job.blocked_since_s)
        return INFINITE if blocked_since_s is None else blocked_since_s + BLOCKED_S

    def _allows(self, pods: list[Pod], columns: CapacityColumns) -> bool:
        """Return True if pod affinity still allows the nominated nodes of these pods."""
        return all(
            pod.nomination is not None and self._rules.stays(columns, pod.shape, pod.nomination[0])
            for pod in pods
        )

    def _is_being_freed(self, name: str, pods: list[Pod]) -> bool:
        """Return True if stopping pods hold the nominated capacity of any of these pods.

        Each cycle repeats this check until the last node is free. So the pod that still waited in the last
        cycle is checked first.
        """
        before = self._awaited.get(name)
        for pod in pods if before is None or before not in pods else (before, *pods):
            is_free = pod.phase is not Phase.STOPPING and self._is_free(pod)
            if not is_free and (pod.phase is Phase.STOPPING or self._is_free(pod, after_releases=True)):
                self._awaited[name] = pod
                return True
        self._awaited.pop(name, None)
        return False

    def _is_free(self, pod: Pod, *, after_releases: bool = False) -> bool:
        """Return True if no other pod holds the nominated capacity of a pod, now or after all releases."""
        assert pod.nomination is not None
        node, devices = pod.nomination
        free, releasing, times = self._cluster.free_capacity, self._cluster.releasing, int(after_releases)
        return all(
            free.free.item(row, node) + times * releasing.free.item(row, node) >= 0
            for row, _ in pod.shape.needs
        ) and all(
            free.share.item(node, device) + times * releasing.share.item(node, device) >= 0
            and free.memory.item(node, device) + times * releasing.memory.item(node, device) >= 0
            for device in devices
        )

    def _is_open(self, pod: Pod) -> bool:
        """Return True if the nominated node still accepts the pod: by its taints, labels and devices."""
        assert pod.nomination is not None
        allowed, _ = self._feasibility.feasible_nodes(pod.shape, self._feasibility.affinity(pod.job))
        return bool(allowed[pod.nomination[0]])
