"""Pending workloads that may replace a running pod, and one node's free capacity to try them in."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weir.engine.allocation.allocate import Allocator
from weir.engine.placement.capacity import Capacity
from weir.engine.protection.preemption_rules import effective_priority
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Bools
from weir.state.jobs import EquivalenceClass
from weir.state.shapes import RequestShape


class RepackCandidate(NamedTuple):
    """A class of pending workloads that miss one pod each, and the nodes that they may use."""

    of: EquivalenceClass
    shape: RequestShape
    open: Bools
    priority: float


class RepackQueue:
    """Candidates of one project in order, with their requests as columns."""

    def __init__(self, candidates: Sequence[RepackCandidate], rows: int) -> None:
        self._candidates = candidates
        self._needs = np.zeros((len(candidates), rows), np.int64)
        for at, candidate in enumerate(candidates):
            for row, amount in candidate.shape.needs:
                self._needs[at, row] = amount
        self._devices = np.array([candidate.shape.devices for candidate in candidates])
        self._whole = np.array([candidate.shape.whole for candidate in candidates])
        self._milli = np.array([candidate.shape.share_milli for candidate in candidates])
        self._open = np.array([candidate.open for candidate in candidates])

    def fitting(self, space: "NodeSnapshot", node: int) -> list[RepackCandidate]:
        """Return the candidates that may use a node and fit it, except for fragmentation of devices."""
        share = np.array(space.share)
        devices = np.where(self._whole, (share == WHOLE_MILLI).sum(), (share > 0).sum())
        ok = self._open[:, node] & (self._needs <= space.free).all(axis=1)
        ok &= (self._devices <= devices) & (self._milli <= share.max(initial=0))
        return [self._candidates[at] for at in np.flatnonzero(ok).tolist()]


class NodeSnapshot:
    """Copy of one node's free capacity, for trials."""

    def __init__(self, capacity: Capacity, node: int) -> None:
        self.free = capacity.columns.free[:, node].copy()
        self.share: list[int] = capacity.columns.share[node].tolist()
        self.device_memory = int(capacity.device_memory[node])
        self._memory: list[int] = capacity.columns.memory[node].tolist()

    def hold(self, shape: RequestShape, devices: Sequence[int], pods: int) -> None:
        """Allocate devices to a pod (pods -1: release them)."""
        for row, amount in shape.needs:
            self.free[row] -= amount * pods
        milli, each = shape.share_on(self.device_memory), shape.memory_on(self.device_memory)
        for device in devices:
            self.share[device] -= milli * pods
            self._memory[device] -= each * pods

    def devices_for(self, shape: RequestShape) -> tuple[int, ...] | None:
        """Return the fullest devices that fit a pod; None if it doesn't fit."""
        if any(self.free[row] < amount for row, amount in shape.needs):
            return None
        milli = WHOLE_MILLI if shape.whole else shape.share_on(self.device_memory)
        open_ = [
            (left, device)
            for device, left in enumerate(self.share)
            if left >= milli and self._memory[device] >= shape.gpu_memory
        ]
        if len(open_) < shape.devices:
            return None
        return tuple(sorted(device for _, device in sorted(open_)[: shape.devices]))


def repack_queues(allocator: Allocator) -> dict[int, RepackQueue]:
    """Return the candidates of each project: by priority, then the largest first."""
    by_project: dict[int, list[RepackCandidate]] = {}
    for of, at in allocator.unserved():
        candidate = allocator.candidate(of, at)
        job = candidate.job
        if sum(candidate.lacks) != 1 or job.topology is not None or not of.step.gpu_milli:
            continue
        shape = job.shapes[candidate.lacks.index(1)]
        if shape.pod_rules:  # its placement depends on other nodes
            continue
        open_, _ = allocator.feasibility.feasible_nodes(shape, allocator.feasibility.affinity(job))
        within = allocator.placement.open_to(candidate)
        in_service = allocator.placement.outages.open_nodes(job, wholly=True)
        open_ = open_ if in_service is None else open_ & in_service
        open_ = open_ if within is None else open_ & within
        priority = effective_priority(job, allocator.policy, allocator.now_s)
        by_project.setdefault(of.project, []).append(RepackCandidate(of, shape, open_, priority))
    for candidates in by_project.values():
        candidates.sort(key=lambda each: (-each.priority, -each.of.step.gpu_milli, each.of.number))
    rows = len(allocator.cluster.rows)
    return {project: RepackQueue(candidates, rows) for project, candidates in by_project.items()}
