"""Reservations: a workload in quota that has waited too long reserves the capacity that becomes free first.

That time is predicted from maximum run times, or from learned ones. Other workloads may use reserved capacity
if they end before it is needed, or if they are preemptible and over quota.
"""

from dataclasses import dataclass

import numpy as np

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility_cache import FeasibilityCache
from weir.state.capacity_columns import Bools, Floats, Ints
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job, Phase
from weir.state.shapes import RequestShape

RESERVATIONS_MOST = 8
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
    found = []
    for of in sorted(owners, key=lambda of: of.members[0][:2])[:RESERVATIONS_MOST]:
        job = of.first
        kept, at_s = np.zeros_like(capacity.whole), now_s
        for shape, lack in zip(job.shapes, of.step.lacks, strict=True):
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
                found.append(Reservation(job, at_s, spare))
    return found


@dataclass(frozen=True, slots=True)
class _FutureReleases:
    """Devices that become free as workloads end, a row each, soonest first: node, time and number.

    `freed` is the number of devices that became free on the node up to this row.
    """

    node: Ints
    end_s: Floats
    devices: Ints
    freed: Ints

    @classmethod
    def of(cls, rows: list[tuple[int, float, int]]) -> "_FutureReleases":
        """Return the columns of rows of node, time and devices."""
        node = np.array([row[0] for row in rows], np.int64)
        end_s = np.array([row[1] for row in rows], np.float64)
        devices = np.array([row[2] for row in rows], np.int64)
        order = np.lexsort((node, end_s))
        node, end_s, devices = node[order], end_s[order], devices[order]
        by_node = np.argsort(node, kind="stable")
        total = np.cumsum(devices[by_node])
        first = np.searchsorted(node[by_node], node[by_node])
        freed = np.empty_like(devices)
        freed[by_node] = total - (total - devices[by_node])[first]
        return cls(node, end_s, devices, freed)


class _ExpectedEnds:
    """Expected ends of running workloads, computed on demand, and the devices they free."""

    def __init__(self, cluster: Cluster, now_s: float) -> None:
        self._cluster = cluster
        self._now_s = now_s
        self._known: _FutureReleases | None = None

    @property
    def _coming(self) -> _FutureReleases:
        if self._known is None:
            ends_s: dict[Job, float] = {}
            rows = []
            for node, pods in enumerate(self._cluster.pods_on):
                for pod in pods:
                    if pod.devices and pod.phase is Phase.RUNNING:
                        end_s = ends_s.get(pod.job)
                        if end_s is None:
                            end_s = ends_s[pod.job] = _ends_s(self._cluster, pod.job, self._now_s)
                        rows.append((node, end_s, len(pod.devices)))
            self._known = _FutureReleases.of(rows)
        return self._known

    def soonest(
        self, capacity: Capacity, shape: RequestShape, mask: Bools, kept: Ints, pods: int
    ) -> list[tuple[float, int]]:
        """Return times and nodes at which this many pods fit beside reservations, soonest first."""
        free, size = capacity.whole - kept, shape.devices
        places = np.where(mask, np.maximum(free, 0) // size if size else 1, 0)
        now = np.repeat(np.arange(len(places)), np.minimum(places, pods))[:pods]
        found = [(self._now_s, node) for node in now.tolist()]
        if len(found) < pods and size:
            coming = self._coming
            freed_by_end = free[coming.node] + coming.freed
            more = np.maximum(freed_by_end, 0) // size - np.maximum(freed_by_end - coming.devices, 0) // size
            rows = np.repeat(np.arange(len(more)), np.where(mask[coming.node], more, 0))[: pods - len(now)]
            found += zip(coming.end_s[rows].tolist(), coming.node[rows].tolist(), strict=True)
        return found

    def free_by(self, capacity: Capacity, at_s: float) -> Ints:
        """Return the idle devices of each node at a time."""
        if at_s <= self._now_s:
            return capacity.whole
        coming = self._coming
        until = np.searchsorted(coming.end_s, at_s, "right")
        freed = np.bincount(coming.node[:until], coming.devices[:until], len(capacity.whole))
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
