"""Reservations: whoever is in quota and has waited too long keeps the room that will be free first.

When that is, is judged by maximum run times where they are stated and by learned ones where not. Others
may use such nodes only if they will be gone by then, or can be taken from: preemptible work over quota.
"""

from dataclasses import dataclass

import numpy as np

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
    """Nodes kept for one workload, and when they will be free for it."""

    job: Job
    nodes: Bools
    at_s: float


def reservations(
    cluster: Cluster, memo: Memo, room: Room, owners: list[PendingClass], now_s: float
) -> list[Reservation]:
    """Room for the first of each of these classes, the longest waiting first, on nodes of their own.

    `now_s` is when the cluster last changed: what is expected doesn't shift while nothing happens.
    """
    taken = np.zeros(len(room.whole), np.bool_)
    ends_s: dict[Job, float] = {}
    found = []
    for of in sorted(owners, key=lambda of: of.members[0][:2])[:RESERVATIONS_MOST]:
        job = of.first
        nodes, at_s = np.zeros_like(taken), now_s
        for shape, lack in zip(job.shapes, of.step.lacks, strict=True):
            if lack:
                mask = memo.allowed(cluster, shape, memo.affinity(cluster, job))[0] & ~taken
                when = _free_at(cluster, room, shape, mask, now_s, ends_s)
                chosen = when[:lack]
                if len(chosen) < lack:
                    break
                nodes[[node for _, node in chosen]] = True
                at_s = max(at_s, chosen[-1][0])
        else:
            if np.isfinite(at_s):
                taken |= nodes
                found.append(Reservation(job, nodes, at_s))
    return found


def _free_at(
    cluster: Cluster, room: Room, shape: Shape, mask: Bools, now_s: float, ends_s: dict[Job, float]
) -> list[tuple[float, int]]:
    """When each node will have room for one pod of the shape, soonest first; `ends_s` is filled as needed."""
    found = []
    for node in np.flatnonzero(mask).tolist():
        ends = []
        for pod in cluster.pods_on[node]:
            if pod.phase is Phase.RUNNING:
                end_s = ends_s.get(pod.job)
                if end_s is None:
                    end_s = ends_s[pod.job] = _ends_s(cluster, pod.job, now_s)
                ends.append((end_s, len(pod.devices)))
        ends.sort()
        free, at_s = int(room.whole[node]), now_s
        for end_s, devices in ends:
            if free >= shape.devices:
                break
            free, at_s = free + devices, end_s
        if free >= shape.devices:
            found.append((at_s, node))
    return sorted(found)


def _ends_s(cluster: Cluster, job: Job, now_s: float) -> float:
    started_s = now_s if job.started_s is None else job.started_s
    if job.spec.max_runtime_s is not None:
        return max(now_s, started_s + job.spec.max_runtime_s)
    remaining_s = cluster.runtimes.remaining_s(job.likenesses, job.ran_s + now_s - started_s)
    return now_s + remaining_s if remaining_s is not None else float("inf")


def expected_s(cluster: Cluster, job: Job) -> float:
    """How long a waiting workload will run, at most or as learned."""
    if job.spec.max_runtime_s is not None:
        return job.spec.max_runtime_s
    remaining_s = cluster.runtimes.remaining_s(job.likenesses, job.ran_s)
    return remaining_s if remaining_s is not None else float("inf")


def models_mask(cluster: Cluster, barred: set[str], size: int) -> Bools:
    """Nodes whose devices are of none of these models."""
    mask = np.ones(size, np.bool_)
    for at, node in enumerate(cluster.nodes):
        if node is not None and node.gpu_model in barred:
            mask[at] = False
    return mask
