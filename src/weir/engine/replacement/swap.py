"""Swap: exchange a workload over quota for a pending one when its checkpoint is fresh.

A pending workload of the same size takes its devices if it comes clearly first in the order by predicted run
time. Only work that is borrowed as a whole is stopped. Otherwise its queue would fall below its quota, and
pending work of that queue would reclaim capacity at once.
"""

from collections.abc import Iterator
from heapq import merge

from weir.engine.allocation.allocate import Allocator
from weir.engine.order.pending_order import Peers, PendingOrder
from weir.engine.order.queue_order import Candidate, RuntimeKeyOrder
from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.protection.preemption_rules import effective_priority, is_past_min_runtime
from weir.state.jobs import EquivalenceClass, Job, Size


class SwapPlanner:
    """Finds the workloads that swap in this cycle."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._overlay = allocator.overlay
        self._transaction = allocator.transaction
        self._accounting = allocator.transaction.accounting
        self._served: set[EquivalenceClass] = set()
        self._order: PendingOrder | None = None

    def run(self) -> Iterator[tuple[Candidate, Job, list[NodePlacement]]]:
        """Yield each pending workload with the workload it replaces and the placements."""
        cluster, now_s = self._cluster, self._allocator.now_s
        if not self._policy.swap_at_checkpoint or not cluster.runtimes.version:
            return
        for job in cluster.saved:
            if job.saved_s == now_s and self._may_go(job):
                swapped = self._swap(job)
                if swapped is not None:
                    candidate, placements = swapped
                    self._served.add(candidate.queued)
                    self._pending_order().note_charged((job.project, candidate.job.project))
                    yield candidate, job, placements

    def _may_go(self, job: Job) -> bool:
        """Return True if a workload runs over quota, has just checkpointed, and may be stopped."""
        overlay = self._overlay
        return (
            job.preemptible
            and not job.stopping
            and job.name not in self._cluster.nominated
            and job.name not in self._accounting.coming
            and is_past_min_runtime(job, self._policy, self._allocator.now_s)
            and not any(pod in self._accounting.leaving for group in job.pods for pod in group)
            and overlay.over_any_quota(job.path)
            and self._accounting.disruptions.allows(job.running_pods())
        )

    def _swap(self, job: Job) -> tuple[Candidate, list[NodePlacement]] | None:
        """Swap a job for the first pending workload of its size that is allowed to replace it.

        The pending workload has to precede it by the minimum gain. The answer is None if none may replace it.
        """
        size = tuple([(shape.id, pods) for shape, pods in zip(job.shapes, job.placed, strict=True)])
        groups = self._peers_of(size)
        if not groups:
            return None
        most = self._own_key(job) - self._policy.swap_min_gain
        for key, queued, index in merge(*[_keyed(peers) for peers in groups]):
            if key[0] > most:
                return None
            if not self._counts(queued, index):
                continue
            candidate = Candidate(queued, index)
            if queued.project == job.project and self._priority(candidate.job) < self._priority(job):
                continue
            if self._may_be_where(candidate, job) and self._may_stand(job):
                placements = self._placed_instead(candidate, job)
                if placements is not None:
                    return candidate, placements
        return None

    def _pending_order(self) -> PendingOrder:
        """Return the order of pending workloads with the usage of this plan."""
        if self._order is None:
            allocator = self._allocator
            self._order = allocator.cache.pending_order
            self._order.sync()
            self._order.note_charged({*self._overlay.charged, *allocator.projects_served()})
        return self._order

    def _peers_of(self, size: Size) -> list[Peers]:
        """Return the pending workloads of a size, in groups."""
        pending, allocator = self._pending_order(), self._allocator
        groups: list[Peers] = []
        for line in pending.lines.get(size, {}).values():
            groups += pending.peers_of(line, allocator.runtime_order, allocator.served_of)
        return groups

    def _counts(self, queued: EquivalenceClass, index: int) -> bool:
        """Return True unless a workload of its project and size with a higher priority could start."""
        allocator, size = self._allocator, queued.wants[1]
        if queued in self._served or not allocator.feasibility.could_run(queued):
            return False
        own = self._priority(queued.members[index][2])
        for other in self._cluster.waiting_of[queued.project]:
            if other is queued or other.wants[1] != size or other in self._served:
                continue
            first = allocator.served_of(other)
            could_come = first < len(other.members) and allocator.feasibility.could_run(other)
            if could_come and self._priority(other.members[first][2]) > own:
                return False
        return True

    def _priority(self, job: Job) -> float:
        return effective_priority(job, self._policy, self._allocator.now_s)

    def _own_key(self, job: Job) -> float:
        """Return the key of a running workload, as if it were pending with its run time so far."""
        started_s = self._allocator.now_s if job.started_s is None else job.started_s
        return self._allocator.runtime_order.running_value(job, job.ran_s + self._allocator.now_s - started_s)

    def _may_stand(self, goes: Job) -> bool:
        """Return True if pod affinity allows a candidate on the job's nodes once the job is gone."""
        rules, columns = self._allocator.feasibility.pod_rules(), self._allocator.capacity.columns
        return all(rules.stays(columns, pod.shape, pod.node) for pod in goes.running_pods())

    def _may_be_where(self, candidate: Candidate, goes: Job) -> bool:
        """Return True if the job's nodes satisfy the topology of the pending workload."""
        placement, asked = self._allocator.placement, candidate.job.topology
        if placement.outages:
            places = [NodePlacement(pod, pod.node, pod.devices) for pod in goes.running_pods()]
            if placement.outages.conflicts(candidate.job, places):
                return False
        if asked is not None and asked.required is not None and asked != goes.topology:
            return False
        scattered = placement.is_scattered(candidate.job, goes.running_pods())
        return not scattered or placement.may_scatter(candidate.job, candidate.lacks)

    def _placed_instead(self, candidate: Candidate, goes: Job) -> list[NodePlacement] | None:
        """Place a candidate on the devices of a job that stops for it; None if a quota check refuses that.

        The job uses borrowed quota alone.
        """
        overlay, job, running = self._overlay, candidate.job, goes.running_pods()
        if not job.can_preempt or goes.name in job.stopped_for:
            return None
        pods = iter([pod for some in candidate.pods().values() for pod in some])
        placements = [NodePlacement(next(pods), pod.node, pod.devices) for pod in running]
        with self._transaction.trial() as trial:
            self._accounting.stop(running)
            if self._allocator.checks.placed_refusal(job, placements) is not None:
                return None
            self._accounting.start(placements)
            self._accounting.expect((job.name,))
            if not any(overlay.fills_quota(queue, candidate.request) for queue in goes.path):
                return None
            trial.commit()
        return placements


def _keyed(peers: Peers) -> Iterator[tuple[RuntimeKeyOrder, EquivalenceClass, int]]:
    """Yield peers in their order, with their keys."""
    for entry in peers.entries:
        yield peers.key_of(entry), entry[3], entry[4]
