"""Outages: nodes and devices that a workload may not use, because it would run into a time out of service.

Work with a maximum run time starts only where it ends before an outage begins. Preemptible work without one
starts up to LEAST_RUN_S before the notice to stop. So does preemptible work with a checkpoint, whatever its
maximum run time. Where running work isn't stopped at the beginning, a maximum run time is always needed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.usage.quota_overlay import INFINITE
from weir.model.nodes import Outage
from weir.model.policy import Policy
from weir.model.queues import QueueTimeLimits
from weir.model.run_limits import longest_run_s, stop_grace_s
from weir.state.capacity_columns import Bools
from weir.state.cluster import Cluster
from weir.state.jobs import Job

LEAST_RUN_S = 600.0
"""Time that preemptible work without a maximum run time has at least before its notice."""


@dataclass(frozen=True, slots=True)
class NodeOutage:
    """An outage of a node, by its row."""

    node: int
    outage: Outage


class OutageRules:
    """Outages of the cluster at one time. The object is false if there are none."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self._cluster = cluster
        self._rules = policy.life
        self._now_s = now_s
        self._outages = [
            NodeOutage(index, outage)
            for index in sorted(cluster.outage_nodes)
            for node in (cluster.nodes[index],)
            for outage in (node.outages if node is not None else ())
            if not outage.is_over(now_s)
        ]
        self._cached_bars: dict[tuple[float | None, ...], Bools] = {}  # by the time terms of a workload
        self._nodes = np.array([node_outage.node for node_outage in self._outages], np.int64)
        self._from_s = np.array([node_outage.outage.from_s for node_outage in self._outages], np.float64)
        self._keeps_running = np.array(
            [node_outage.outage.keeps_running for node_outage in self._outages], np.bool_
        )
        self._is_whole = np.array(
            [node_outage.outage.devices is None for node_outage in self._outages], np.bool_
        )

    def __bool__(self) -> bool:
        """Return True if there are present or future outages."""
        return bool(self._outages)

    def barring(self, job: Job, *, moved: bool = False) -> list[NodeOutage]:
        """Return the outages that would interrupt a workload started now.

        Pods that a running workload adds end with it; a workload that is `moved` starts its run again.
        """
        return [self._outages[index] for index in np.flatnonzero(self._bars(job, moved=moved)).tolist()]

    def conflicts(self, job: Job, placements: Iterable[NodePlacement], *, moved: bool = False) -> bool:
        """Return True if any of these placements of a workload would run into an outage."""
        on: dict[int, list[Outage]] = {}
        for node_outage in self.barring(job, moved=moved) if self._outages else ():
            on.setdefault(node_outage.node, []).append(node_outage.outage)
        return bool(on) and any(
            outage.covers(devices) for _, node, devices in placements for outage in on.get(node, ())
        )

    def open_nodes(self, job: Job, *, wholly: bool = False) -> Bools | None:
        """Return the nodes that no outage of the whole node closes to a workload; None for all nodes.

        With `wholly`, nodes where an outage of single devices closes these are excluded, too.
        """
        bars = self._bars(job)
        shut = self._nodes[bars if wholly else bars & self._is_whole]
        if not len(shut):
            return None
        mask = np.ones(self._cluster.free_capacity.free.shape[1], np.bool_)
        mask[shut] = False
        return mask

    def any_node_in_service(self) -> bool:
        """Return True if any node isn't out of service as a whole now."""
        out = set(self._nodes[self._is_whole & (self._from_s <= self._now_s)].tolist())
        return not out or any(
            node is not None and index not in out for index, node in enumerate(self._cluster.nodes)
        )

    @contextmanager
    def withheld(self, capacity: Capacity, job: Job, *, moved: bool = False) -> Iterator[None]:
        """Withhold single devices with such an outage during the placement of a workload."""
        devices = self._barred_devices(job, moved) if self._outages else {}
        for node, some in devices.items():
            capacity.withhold(node, some)
        try:
            yield
        finally:
            for node, some in devices.items():
                capacity.withhold(node, some, -1)

    def longest_run_s(self, job: Job) -> float | None:
        """Return the maximum run time of a workload; None without one."""
        return longest_run_s(job.spec, self._project_times(job), self._rules)

    def _barred_devices(self, job: Job, moved: bool) -> dict[int, Sequence[int]]:
        barred: dict[int, set[int]] = {}
        for index in np.flatnonzero(self._bars(job, moved=moved) & ~self._is_whole).tolist():
            node_outage = self._outages[index]
            node = self._cluster.nodes[node_outage.node]
            if node_outage.outage.devices is not None and node is not None:
                existing = [device for device in node_outage.outage.devices if device < node.gpus]
                barred.setdefault(node_outage.node, set()).update(existing)
        return {node: sorted(devices) for node, devices in barred.items()}

    def _bars(self, job: Job, *, moved: bool = False) -> Bools:
        """Return a mask of these outages, kept by the time terms of a workload."""
        longest_s = self.longest_run_s(job)
        started_s = None if moved or longest_s is None else job.started_s
        has_kept = longest_s is None or job.ran_s > 0
        grace_s = stop_grace_s(job.spec, self._project_times(job), self._rules) if job.preemptible else None
        key = longest_s, started_s, has_kept, grace_s
        mask = self._cached_bars.get(key)
        if mask is None:
            begins_s = self._now_s if started_s is None else started_s
            ends_s = INFINITE if longest_s is None else begins_s + longest_s
            least_s = INFINITE if grace_s is None else self._now_s + LEAST_RUN_S + grace_s
            from_s = min(ends_s, least_s) if has_kept else ends_s
            allowed_s = np.where(self._keeps_running, ends_s, from_s)
            mask = self._cached_bars[key] = (self._from_s <= self._now_s) | (self._from_s < allowed_s)
        return mask

    def _project_times(self, job: Job) -> QueueTimeLimits:
        return self._cluster.ledger.queues[job.project].times
