"""Reservations: a workload in quota that has waited too long reserves the capacity that becomes free first.

That time is predicted from maximum run times, or from learned ones. Other workloads may use reserved capacity
if they end before it is needed, or if they are preemptible and over quota.
"""

from dataclasses import dataclass

import numpy as np

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility_cache import FeasibilityCache
from weir.state.capacity_columns import Bools, Ints
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job
from weir.state.shapes import RequestShape

RESERVATIONS_MAX = 8
"""Reservations at a time, for those that have waited longest."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Devices reserved for one workload, and the time at which all of them will be free.

    `spare[node]` are the devices that will be free at that time beyond the reservation, for other workloads.
    """

    job: Job
    at_s: float
    spare: Ints


def reservations(
    cluster: Cluster,
    feasibility: FeasibilityCache,
    capacity: Capacity,
    owners: list[EquivalenceClass],
    now_s: float,
) -> list[Reservation]:
    """Reserve separate nodes for the first workload of each of these classes, the longest waiting first.

    `now_s` is the time of the last change of the cluster, so that predictions hold while nothing happens.
    """
    taken = np.zeros(len(capacity.whole), np.bool_)
    ends = _ExpectedEnds(cluster, now_s)
    reserved = []
    for queued in sorted(owners, key=lambda owner: owner.members[0][:2])[:RESERVATIONS_MAX]:
        job = queued.first
        kept, at_s = np.zeros_like(capacity.whole), now_s
        for shape, lack in zip(job.shapes, queued.step.lacks, strict=True):
            if lack:
                mask = feasibility.feasible_nodes(shape, feasibility.affinity(job))[0] & ~taken
                chosen = ends.soonest(capacity, shape, mask, kept, lack)
                if len(chosen) < lack:
                    break
                at_s = max(at_s, chosen[-1][0])
                for _, node in chosen:
                    kept[node] += shape.devices
        else:
            if np.isfinite(at_s):
                spare = np.where(kept > 0, ends.free_by(capacity, at_s) - kept, np.iinfo(np.int64).max)
                taken |= kept > 0
                reserved.append(Reservation(job, at_s, spare))
    return reserved


class _ExpectedEnds:
    """Devices that become free as running workloads end, a row for each pod, soonest first.

    `_freed` is the number of devices that became free on the node up to a row.
    """

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        self._now_s = now_s
        rows = [
            (pod.node, end_s, len(pod.devices))
            for jobs in cluster.running.values()
            for job in jobs.values()
            for end_s in (_ends_s(cluster, job, now_s),)
            for pod in job.running_pods()
            if pod.devices
        ]
        columns = np.array(rows, np.float64).reshape(-1, 3)
        columns = columns[np.lexsort((columns[:, 0], columns[:, 1]))]
        self._node, self._end_s = columns[:, 0].astype(np.int64), columns[:, 1]
        self._devices = devices = columns[:, 2].astype(np.int64)
        by_node = np.argsort(self._node, kind="stable")
        total, first = np.cumsum(devices[by_node]), np.searchsorted(self._node[by_node], self._node[by_node])
        self._freed = np.empty_like(devices)
        self._freed[by_node] = total - (total - devices[by_node])[first]

    def soonest(
        self, capacity: Capacity, shape: RequestShape, mask: Bools, kept: Ints, pods: int
    ) -> list[tuple[float, int]]:
        """Return times and nodes at which this many pods fit beside reservations, soonest first."""
        free, size = capacity.whole - kept, shape.devices
        places = np.where(mask, np.maximum(free, 0) // size if size else 1, 0)
        now = np.repeat(np.arange(len(places)), np.minimum(places, pods))[:pods]
        soonest = [(self._now_s, node) for node in now.tolist()]
        if len(soonest) < pods and size:
            after = free[self._node] + self._freed
            gain = np.maximum(after, 0) // size - np.maximum(after - self._devices, 0) // size
            rows = np.repeat(np.arange(len(gain)), np.where(mask[self._node], gain, 0))[: pods - len(now)]
            soonest += zip(self._end_s[rows].tolist(), self._node[rows].tolist(), strict=True)
        return soonest

    def free_by(self, capacity: Capacity, at_s: float) -> Ints:
        """Return the idle devices of each node at a time."""
        if at_s <= self._now_s:
            return capacity.whole
        until = np.searchsorted(self._end_s, at_s, "right")
        freed = np.bincount(self._node[:until], self._devices[:until], len(capacity.whole))
        return capacity.whole + freed.astype(np.int64)


def _ends_s(cluster: Cluster, job: Job, now_s: float) -> float:
    started_s = now_s if job.started_s is None else job.started_s
    if job.max_runtime_s is not None:
        return max(now_s, started_s + job.max_runtime_s)
    remaining_s = cluster.runtimes.remaining_s(job.like, job.ran_s + now_s - started_s)
    return now_s + remaining_s if remaining_s is not None else float("inf")


def expected_runtime_s(cluster: Cluster, job: Job) -> float:
    """Return the run time of a pending workload: its maximum, or the learned one."""
    if job.max_runtime_s is not None:
        return job.max_runtime_s
    remaining_s = cluster.runtimes.remaining_s(job.like, job.ran_s)
    return remaining_s if remaining_s is not None else float("inf")
