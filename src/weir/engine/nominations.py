"""Nominations: bind pods whose nominated capacity is free, and release nominations that no longer hold."""

from collections.abc import Iterator

from weir.engine.allocate import Allocator
from weir.engine.pod_placer import NodePlacement
from weir.state.capacity_columns import CapacityColumns
from weir.state.jobs import Job, Phase, Pod


class Nominations:
    """Nominations of the cluster at one time."""

    def __init__(self, allocator: Allocator) -> None:
        self._cluster = allocator.cluster
        self._grace_s = allocator.policy.gang_grace
        self._capacity = allocator.capacity
        self._rules = allocator.feasibility.pod_rules()
        self._now_s = allocator.now_s
        self._blocked = allocator.cache.blocked

    def ended(self) -> Iterator[tuple[str, list[NodePlacement] | None]]:
        """Yield each workload whose nomination ends, with the placements to bind; None to release it."""
        for name in self._blocked.keys() - self._cluster.nominated.keys():
            del self._blocked[name]
        for name in sorted(self._cluster.nominated):
            job = self._cluster.nominated[name]
            pods = [pod for group in job.pods for pod in group if pod.nomination is not None]
            if self._are_free(name, pods):
                if self._allows(pods, self._cluster.free_capacity):
                    yield (
                        name,
                        [NodePlacement(pod, *pod.nomination) for pod in pods if pod.nomination is not None],
                    )
                elif not self._allows(pods, self._capacity.after_releases(self._cluster).columns):
                    yield name, None  # pods that started since exclude them
            elif job.absent_since_s is not None and self._absence_ends_s(job) <= self._now_s:
                yield name, None

    def times_s(self) -> list[float]:
        """Return the times at which nominations of absent pods end."""
        nominated = self._cluster.nominated.values()
        return [self._absence_ends_s(job) for job in nominated if job.absent_since_s is not None]

    def _absence_ends_s(self, job: Job) -> float:
        since_s = self._now_s if job.absent_since_s is None else job.absent_since_s
        return since_s + self._grace_s

    def _allows(self, pods: list[Pod], columns: CapacityColumns) -> bool:
        """Return True if pod affinity still allows the nominated nodes of these pods."""
        return all(
            pod.nomination is not None and self._rules.stays(columns, pod.shape, pod.nomination[0])
            for pod in pods
        )

    def _are_free(self, name: str, pods: list[Pod]) -> bool:
        """Return True if no other pod holds the nominated capacity of any of these pods any more.

        Each cycle asks until the last node is free, so the pod that waited in the last cycle is asked first.
        """
        before = self._blocked.get(name)
        for pod in pods if before is None or before not in pods else (before, *pods):
            if pod.phase is not Phase.NOMINATED or not self._is_free(pod):
                self._blocked[name] = pod
                return False
        self._blocked.pop(name, None)
        return True

    def _is_free(self, pod: Pod) -> bool:
        """Return True if no other pod holds the nominated capacity of a pod any more."""
        assert pod.nomination is not None
        node, devices = pod.nomination
        columns = self._cluster.free_capacity
        return all(columns.free[row, node] >= 0 for row, _ in pod.shape.needs) and all(
            columns.share[node, device] >= 0 and columns.memory[node, device] >= 0 for device in devices
        )
