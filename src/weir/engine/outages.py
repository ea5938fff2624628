"""Outages: nodes and devices that a workload may not use, because it would run into a time out of service.

Work with a longest run starts only where it ends before an outage begins. Preemptible work without one starts
up to LEAST_RUN_S before the notice to stop; so does preemptible work that has kept a checkpoint, whatever its
longest run. Where running work isn't stopped at the beginning, a longest run is always needed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from weir.engine.capacity import Capacity
from weir.engine.feasibility import Bools
from weir.engine.pod_placer import NodePlacement
from weir.model.nodes import Outage
from weir.model.policy import Policy
from weir.model.queues import QueueTimeLimits
from weir.model.run_limits import longest_run_s, stop_grace_s
from weir.state.cluster import Cluster
from weir.state.jobs import Job

LEAST_RUN_S = 600.0
"""Time that preemptible work without a longest run has at least before its notice."""


@dataclass(frozen=True, slots=True)
class NodeOutage:
    """An outage of a node, by its row."""

    node: int
    outage: Outage


class OutageRules:
    """Outages of the cluster at one time. It is false if there are none, which costs nothing."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self._cluster = cluster
        self._rules = policy.life
        self._now_s = now_s
        self._outages = [
            NodeOutage(at, outage)
            for at in sorted(cluster.outage_nodes)
            for node in (cluster.nodes[at],)
            for outage in (node.outages if node is not None else ())
            if not outage.is_over(now_s)
        ]

    def __bool__(self) -> bool:
        """Return True if there are present or future outages."""
        return bool(self._outages)

    def barring(self, job: Job, *, moved: bool = False) -> list[NodeOutage]:
        """Return the outages into which a workload would run if it started now.

        Pods that a running workload adds end with it; a workload that is `moved` starts its run again.
        """
        return [each for each in self._outages if not self._may_start(job, each.outage, moved)]

    def conflicts(self, job: Job, placements: Iterable[NodePlacement], *, moved: bool = False) -> bool:
        """Return True if any of these placements of a workload would run into an outage."""
        barring = self.barring(job, moved=moved) if self._outages else []
        return bool(barring) and any(
            each.node == node and each.outage.covers(devices)
            for _, node, devices in placements
            for each in barring
        )

    def open_nodes(self, job: Job, *, wholly: bool = False) -> Bools | None:
        """Return the nodes without an outage of the whole node that bars a workload; None for all.

        With `wholly`, nodes with such an outage of single devices are left out, too.
        """
        shut = [each.node for each in self.barring(job) if wholly or each.outage.devices is None]
        if not shut:
            return None
        mask = np.ones(self._cluster.free_capacity.free.shape[1], np.bool_)
        mask[shut] = False
        return mask

    @contextmanager
    def withheld(self, capacity: Capacity, job: Job, *, moved: bool = False) -> Iterator[None]:
        """Withhold the single devices that outages bar a workload from, while it is placed."""
        devices = self._barred_devices(job, moved) if self._outages else {}
        for node, some in devices.items():
            capacity.withhold(node, some)
        try:
            yield
        finally:
            for node, some in devices.items():
                capacity.withhold(node, some, -1)

    def longest_run_s(self, job: Job) -> float | None:
        """Return the longest run of a workload; None without one."""
        return longest_run_s(job.spec, self._project_times(job), self._rules)

    def _barred_devices(self, job: Job, moved: bool) -> dict[int, Sequence[int]]:
        found: dict[int, set[int]] = {}
        for each in self.barring(job, moved=moved):
            node = self._cluster.nodes[each.node]
            if each.outage.devices is not None and node is not None:
                known = [device for device in each.outage.devices if device < node.gpus]
                found.setdefault(each.node, set()).update(known)
        return {node: sorted(devices) for node, devices in found.items()}

    def _may_start(self, job: Job, outage: Outage, moved: bool) -> bool:
        if outage.from_s <= self._now_s:
            return False
        longest_s = self.longest_run_s(job)
        if longest_s is not None:
            started_s = self._now_s if moved or job.started_s is None else job.started_s
            if started_s + longest_s <= outage.from_s:
                return True
            if not job.ran_s:
                return False
        if not job.preemptible or outage.keeps_running:
            return False
        grace_s = stop_grace_s(job.spec, self._project_times(job), self._rules)
        return self._now_s + LEAST_RUN_S + grace_s <= outage.from_s

    def _project_times(self, job: Job) -> QueueTimeLimits:
        return self._cluster.ledger.queues[job.project].times
