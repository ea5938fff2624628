"""Repack: stop a running pod for pending pods of its project that use its node better.

It is for work that waits beside idle devices: the free rest of a node fits no pending pod, but it would
together with the capacity of one running pod. The pool gains, and the stopped pod waits again. So repacking
is off by default, stays within one project and never serves a lower priority. Each repacking uses more
devices than before, so it ends.
"""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np

from weir.engine.allocation.allocate import Allocator
from weir.engine.order.queue_order import Candidate
from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import fits_on
from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.protection.preemption_rules import effective_priority, is_past_min_runtime
from weir.engine.victims.eviction_price import devices_of, price_of_move
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Bools
from weir.state.jobs import EquivalenceClass, Job, Phase, Pod
from weir.state.shapes import GPU_ROW, RequestShape

_NEW_PODS_MAX = 8
"""Limit of pods that may replace one pod."""


class RepackCandidate(NamedTuple):
    """A class of pending workloads that lack one pod each, and the nodes that they may use."""

    queued: EquivalenceClass
    shape: RequestShape
    open: Bools
    priority: float


class RepackQueue:
    """Candidates of one project in order, with their requests as columns."""

    def __init__(self, candidates: Sequence[RepackCandidate], rows: int) -> None:
        self._candidates = candidates
        self._needs = np.zeros((len(candidates), rows), np.int64)
        for index, candidate in enumerate(candidates):
            for row, amount in candidate.shape.needs:
                self._needs[index, row] = amount
        self._devices = np.array([candidate.shape.devices for candidate in candidates])
        self._whole = np.array([candidate.shape.whole for candidate in candidates])
        self._milli = np.array([candidate.shape.share_milli for candidate in candidates])
        self._open = np.array([candidate.open for candidate in candidates])

    def fitting(self, capacity: Capacity, node: int) -> list[RepackCandidate]:
        """Return the candidates that may use a node and fit it, except for fragmentation of devices."""
        free, share = capacity.columns.free[:, node], capacity.columns.share[node]
        devices = np.where(self._whole, capacity.whole[node], (share > 0).sum())
        ok = self._open[:, node] & (self._needs <= free).all(axis=1)
        ok &= (self._devices <= devices) & (self._milli <= share.max(initial=0))
        return [self._candidates[index] for index in np.flatnonzero(ok).tolist()]


def repack_queues(allocator: Allocator) -> dict[int, RepackQueue]:
    """Return the candidates of each project: by priority, then the largest first."""
    by_project: dict[int, list[RepackCandidate]] = {}
    for queued, index in allocator.unserved():
        candidate = allocator.candidate(queued, index)
        job = candidate.job
        if sum(candidate.lacks) != 1 or job.topology is not None or not queued.step.gpu_milli:
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
        by_project.setdefault(queued.project, []).append(RepackCandidate(queued, shape, open_, priority))
    for candidates in by_project.values():
        candidates.sort(
            key=lambda candidate: (
                -candidate.priority,
                -candidate.queued.step.gpu_milli,
                candidate.queued.number,
            )
        )
    rows = len(allocator.cluster.rows)
    return {project: RepackQueue(candidates, rows) for project, candidates in by_project.items()}


class Repacking(NamedTuple):
    """A pod to stop on a node, and the classes of the pods that replace it, one entry for each pod."""

    gain_milli: int
    goes: Pod
    come: tuple[EquivalenceClass, ...]


class RepackPlanner:
    """Finds pods to stop for pending pods of their project, the greatest gain first."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._capacity = allocator.capacity
        self._transaction = allocator.transaction
        self._accounting = allocator.transaction.accounting
        self._gain_milli = max(1, round(allocator.policy.repack.gain * WHOLE_MILLI))
        self._first_unserved: dict[EquivalenceClass, int] = {}  # first unserved member of each class
        self._queues: dict[int, RepackQueue] = {}  # by project

    def run(self) -> Iterator[tuple[Pod, list[NodePlacement]]]:
        """Yield each pod to stop with the placements of the pods that replace it."""
        rules = self._policy.repack
        if not rules.enabled:
            return
        self._queues = repack_queues(self._allocator)
        self._first_unserved = dict(self._allocator.unserved())
        numbers = count()
        free = self._capacity.columns.free[GPU_ROW]
        heap = [
            (key, next(numbers), node, change)
            for node in np.flatnonzero(free >= self._gain_milli).tolist()
            for key, change in self._changes(node)
        ]
        heapify(heap)
        stops = 0
        while heap and stops < rules.max_stops:
            _, _, node, change = heappop(heap)
            if not self._may_still_go(change.goes):
                continue
            placements = self._made(node, change)
            if placements is not None:
                stops += 1
                yield change.goes, placements
            if free[node] >= self._gain_milli:
                for key, other in self._changes(node, change.goes if placements is None else None):
                    if placements is not None or other.come != change.come:
                        heappush(heap, (key, next(numbers), node, other))

    def _changes(
        self, node: int, only: Pod | None = None
    ) -> Iterator[tuple[tuple[float, float, float, str], Repacking]]:
        """Yield each possible repacking of a node, with its sort key."""
        without_gain: set[tuple[object, ...]] = set()
        for pod in self._cluster.pods_on[node] if only is None else (only,):
            job = pod.job
            queue = self._queues.get(job.project)
            alike = (job.project, job.priority, pod.shape.id, pod.devices)
            if queue is None or alike in without_gain or not self._may_go(pod):
                continue
            change = self._change(node, pod, queue)
            if change is None:
                without_gain.add(alike)
            else:
                yield ((-change.gain_milli, self._price(pod), -job.submitted_s, job.name), change)

    def _may_go(self, pod: Pod) -> bool:
        job = pod.job
        return (
            pod.phase is Phase.RUNNING
            and job.preemptible
            and sum(job.placed) == 1
            and not job.stopping
            and job.name not in self._cluster.nominated
            and is_past_min_runtime(job, self._policy, self._allocator.now_s)
            and self._price(pod) <= self._policy.consolidation.budget
            and self._may_still_go(pod)
        )

    def _may_still_go(self, pod: Pod) -> bool:
        """Return True if a pod may still be stopped: the plan gives its workload no other pod."""
        accounting = self._accounting
        if pod in accounting.leaving or pod.job.name in accounting.coming:
            return False
        return accounting.disruptions.allows((pod,))

    def _may_come(self, job: Job) -> bool:
        """Return True if the plan stops no pod of a workload."""
        leaving = self._accounting.leaving
        return not any(pod in leaving for pod in job.running_pods())

    def _price(self, pod: Pod) -> float:
        return price_of_move(pod.job, [pod], self._policy.price, self._allocator.now_s)

    def _change(self, node: int, pod: Pod, queue: RepackQueue) -> Repacking | None:
        """Return the pending pods that would replace a pod; None without a gain."""
        held = round(devices_of([pod]) * WHOLE_MILLI)
        own = effective_priority(pod.job, self._policy, self._allocator.now_s)
        come: list[EquivalenceClass] = []
        total = 0
        capacity, device_memory = self._capacity, int(self._capacity.device_memory[node])
        with capacity.trial():
            capacity.release(node, pod.shape, pod.devices)
            for queued, shape, _, priority in queue.fitting(capacity, node):
                index = self._first_unserved[queued]
                left = len(queued.members) - index
                if not left or priority < own:
                    continue
                comes = queued.members[index][2]
                if comes is pod.job or pod.job.name in comes.stopped_for or not self._may_come(comes):
                    continue
                while left and len(come) < _NEW_PODS_MAX and fits_on(capacity, shape, node):
                    devices = self._allocator.placer.devices_for(shape, node)
                    capacity.allocate(node, shape, devices)
                    come.append(queued)
                    total += len(devices) * shape.share_on(device_memory)
                    left -= 1
        gain = total - held
        return Repacking(gain, pod, tuple(come)) if gain >= self._gain_milli else None

    def _made(self, node: int, change: Repacking) -> list[NodePlacement] | None:
        """Return the placements of the new pods; None, with nothing changed, unless all fit."""
        goes, first = change.goes, {queued: self._first_unserved[queued] for queued in change.come}
        placements: list[NodePlacement] = []
        with self._transaction.trial() as trial:
            self._transaction.stop((goes,))
            for queued in change.come:
                candidate = Candidate(queued, first[queued]) if first[queued] < len(queued.members) else None
                may_come = candidate is not None and self._may_come(candidate.job)
                placement = self._placement(candidate, node) if candidate is not None and may_come else None
                if placement is None:
                    return None
                self._capacity.allocate(node, placement.pod.shape, placement.devices)
                placements.append(placement)
                self._accounting.start((placement,))
                first[queued] += 1
            trial.commit()
        self._first_unserved.update(first)
        return placements

    def _placement(self, candidate: Candidate, node: int) -> NodePlacement | None:
        """Return the placement of a candidate; None if it doesn't fit, or a quota check refuses it."""
        checks, ((pod,),) = self._allocator.checks, candidate.pods().values()
        if not candidate.job.can_preempt or checks.refusal(candidate, self._capacity) is not None:
            return None
        if not fits_on(self._capacity, pod.shape, node):
            return None
        placement = NodePlacement(pod, node, self._allocator.placer.devices_for(pod.shape, node))
        return placement if checks.placed_refusal(candidate.job, (placement,)) is None else None
