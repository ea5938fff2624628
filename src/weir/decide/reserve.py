"""Reservations: whoever is in quota and has waited too long keeps the room that will be free first.

When that is, is judged by maximum run times where they are stated and by learned ones where not. Others
may use what is kept only if they will be gone by then, or can be taken from: preemptible work over quota.
"""

from dataclasses import dataclass

import numpy as np

from weir.cluster.columns import Ints
from weir.cluster.jobs import Job, PendingClass, Phase
from weir.cluster.shapes import Shape
from weir.cluster.state import Cluster
from weir.decide.fit import Bools
from weir.decide.memo import Memo
from weir.decide.room import Room

RESERVATIONS_MOST = 8
"""Workloads that have room reserved at a time, those that waited longest."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Devices kept for one workload, and when all of them will be free for it.

    `spare[node]` are those that will be free by then beside what is kept; others may have them.
    """

    job: Job
    at_s: float
    spare: Ints


def reservations(
    cluster: Cluster, memo: Memo, room: Room, owners: list[PendingClass], now_s: float
) -> list[Reservation]:
    """Room for the first of each of these classes, the longest waiting first, on nodes of their own.

    `now_s` is when the cluster last changed: what is expected doesn't shift while nothing happens.
    """
    taken = np.zeros(len(room.whole), np.bool_)
    ends = _Ends(cluster, now_s)
    found = []
    for of in sorted(owners, key=lambda of: of.members[0][:2])[:RESERVATIONS_MOST]:
        job = of.first
        kept, at_s = np.zeros_like(room.whole), now_s
        for shape, lack in zip(job.shapes, of.step.lacks, strict=True):
            if lack:
                mask = memo.allowed(cluster, shape, memo.affinity(cluster, job))[0] & ~taken
                chosen = ends.soonest(room, shape, mask, kept, lack)
                if len(chosen) < lack:
                    break
                at_s = max(at_s, chosen[-1][0])
                for _, node in chosen:
                    kept[node] += shape.devices
        else:
            if np.isfinite(at_s):
                spare = np.full(len(kept), np.iinfo(np.int64).max, np.int64)
                for node in np.flatnonzero(kept).tolist():
                    spare[node] = ends.free_by(room, node, at_s) - kept[node]
                taken |= kept > 0
                found.append(Reservation(job, at_s, spare))
    return found


class _Ends:
    """When running workloads will have ended, each asked once, and what that frees on each node."""

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        self._cluster = cluster
        self._now_s = now_s
        self._ends_s: dict[Job, float] = {}
        self._coming: dict[int, list[tuple[float, int]]] = {}

    def _of(self, job: Job) -> float:
        found = self._ends_s.get(job)
        if found is None:
            found = self._ends_s[job] = _ends_s(self._cluster, job, self._now_s)
        return found

    def _on(self, node: int) -> list[tuple[float, int]]:
        """When devices of a node become free, and how many."""
        found = self._coming.get(node)
        if found is None:
            pods = self._cluster.pods_on[node]
            found = self._coming[node] = sorted(
                (self._of(pod.job), len(pod.devices)) for pod in pods if pod.phase is Phase.RUNNING
            )
        return found

    def soonest(
        self, room: Room, shape: Shape, mask: Bools, kept: Ints, pods: int
    ) -> list[tuple[float, int]]:
        """When and where there will be room for so many pods beside what is kept, soonest first."""
        found = []
        for node in np.flatnonzero(mask).tolist():
            free, at_s, here = int(room.whole[node] - kept[node]), self._now_s, 0
            coming = iter(self._on(node))
            while here < pods:
                while free < shape.devices:
                    end_s, devices = next(coming, (None, 0))
                    if end_s is None:
                        break
                    free, at_s = free + devices, end_s
                if free < shape.devices:
                    break
                found.append((at_s, node))
                free, here = free - shape.devices, pods if not shape.devices else here + 1
        return sorted(found)[:pods]

    def free_by(self, room: Room, node: int, at_s: float) -> int:
        """Whole devices of a node that will be free by then."""
        return int(room.whole[node]) + sum(devices for end_s, devices in self._on(node) if end_s <= at_s)


def _ends_s(cluster: Cluster, job: Job, now_s: float) -> float:
    started_s = now_s if job.started_s is None else job.started_s
    if job.max_runtime_s is not None:
        return max(now_s, started_s + job.max_runtime_s)
    remaining_s = cluster.runtimes.remaining_s(job.like, job.ran_s + now_s - started_s)
    return now_s + remaining_s if remaining_s is not None else float("inf")


def expected_s(cluster: Cluster, job: Job) -> float:
    """How long a waiting workload will run, at most or as learned."""
    if job.max_runtime_s is not None:
        return job.max_runtime_s
    remaining_s = cluster.runtimes.remaining_s(job.like, job.ran_s)
    return remaining_s if remaining_s is not None else float("inf")
