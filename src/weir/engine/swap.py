"""Swap: exchange a workload over quota for a pending one when its checkpoint is fresh.

If a waiting workload of the same size comes clearly before it in the learned order, the two change
places on the same devices. Only what is borrowed as a whole goes: were its queue below its quota
without it, those of its own that wait would take from others at once.
"""

from collections.abc import Iterable, Iterator
from math import inf

from weir.engine.allocate import Allocator
from weir.engine.pod_placer import NodePlacement
from weir.engine.preemption_rules import effective_priority, is_past_min_runtime
from weir.engine.queue_order import Candidate
from weir.engine.swap_order import SwapEntry, SwapOrder
from weir.state.jobs import EquivalenceClass, Job, Phase, Size


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
        self._orders = allocator.cache.swap_orders  # by size

    def run(self) -> Iterator[tuple[Candidate, Job, list[NodePlacement]]]:
        """Yield each pending workload with the workload it replaces and the placements."""
        cluster, now_s = self._cluster, self._allocator.now_s
        if not self._policy.swap_at_checkpoint or not cluster.runtimes.version:
            return
        for job in cluster.saved:
            if job.saved_s == now_s and self._may_go(job):
                found = self._better(job)
                if found is not None:
                    pods = iter(pod for some in found.pods().values() for pod in some)
                    running = [pod for group in job.pods for pod in group if pod.phase is Phase.RUNNING]
                    placements = [NodePlacement(next(pods), pod.node, pod.devices) for pod in running]
                    self._accounting.stop(running)
                    self._note_swapped(found.of, job)
                    yield found, job, placements

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
            and any(overlay.over_quota(queue) for queue in job.path)
            and self._accounting.disruptions.allows(job.running_pods())
        )

    def _better(self, job: Job) -> Candidate | None:
        """Return the first pending workload of its size, if it precedes the job by the minimum gain."""
        line = self._in_order(job)
        most = self._own_key(job) - self._policy.swap_min_gain if line else 0.0
        for key, of, at in line:
            if key[0] > most:
                return None
            candidate = Candidate(of, at)
            if (
                not self._is_lower(candidate.job, job)
                and self._may_be_where(candidate, job)
                and self._may_come(candidate, job)
                and self._may_stand(job)
            ):
                return candidate
        return None

    def _in_order(self, like: Job) -> list[SwapEntry]:
        """Return the next of each unserved class of a job's size, by predicted run time."""
        size = tuple([(shape.id, pods) for shape, pods in zip(like.shapes, like.placed, strict=True)])
        order = self._orders.get(size)
        if order is None:
            by_project: dict[int, list[EquivalenceClass]] = {}
            for of in self._cluster.waiting_by_shape.get(size[0][0], ()):
                by_project.setdefault(of.project, []).append(of)
            order = self._orders[size] = SwapOrder(
                {project: self._entries(classes, size) for project, classes in by_project.items()}
            )
        return order.entries

    def _note_swapped(self, of: EquivalenceClass, goes: Job) -> None:
        """Update the orders after a swap: only the keys of its two projects have changed."""
        self._served.add(of)
        for size, order in self._orders.items():
            for project in {of.project, goes.project}:
                classes = self._cluster.waiting_of.get(project, ())
                pending = [each for each in classes if size[0][0] in each.shapes]
                order.replace(project, self._entries(pending, size))

    def _entries(self, classes: Iterable[EquivalenceClass], size: Size) -> list[SwapEntry]:
        """Return the entries of a project's classes; only those of the highest priority count."""
        allocator, members = self._allocator, []
        highest = -inf
        for of in classes:
            at = allocator.served_of(of)
            if of.wants[1] == size and of not in self._served and at < len(of.members):
                if not allocator.feasibility.could_run(of):
                    continue
                priority = self._priority(of.members[at][2])
                members.append((priority, of, at))
                highest = max(priority, highest)
        entries: list[SwapEntry] = []
        for priority, of, at in members:
            if priority == highest:
                submitted_s, name, job = of.members[at]
                value = allocator.runtime_order.pending_value(of, job)
                entries.append(((value, submitted_s, name), of, at))
        return entries

    def _priority(self, job: Job) -> float:
        return effective_priority(job, self._policy, self._allocator.now_s)

    def _is_lower(self, requester: Job, goes: Job) -> bool:
        """Return True if it is of the same project as the other and has a lower priority."""
        return requester.project == goes.project and self._priority(requester) < self._priority(goes)

    def _own_key(self, job: Job) -> float:
        """Return the key of a running workload, as if it were pending with its run time so far."""
        started_s = self._allocator.now_s if job.started_s is None else job.started_s
        return self._allocator.runtime_order.running_value(job, job.ran_s + self._allocator.now_s - started_s)

    def _may_stand(self, goes: Job) -> bool:
        """Return True if pod affinity allows the job's nodes without the job."""
        rules, columns = self._allocator.feasibility.pod_rules(), self._allocator.capacity.columns
        return all(rules.stays(columns, pod.shape, pod.node) for pod in goes.running_pods())

    def _may_be_where(self, candidate: Candidate, goes: Job) -> bool:
        """Return True if the nodes satisfy the topology of the pending workload."""
        placement, asked = self._allocator.placement, candidate.job.topology
        if placement.outages:
            places = [NodePlacement(pod, pod.node, pod.devices) for pod in goes.running_pods()]
            if placement.outages.conflicts(candidate.job, places):
                return False
        if asked is not None and asked.required is not None and asked != goes.topology:
            return False
        scattered = placement.is_scattered(candidate.job, goes.running_pods())
        return not scattered or placement.may_scatter(candidate.job, candidate.lacks)

    def _may_come(self, candidate: Candidate, goes: Job) -> bool:
        """Return True if it passes all quota checks without the other, which uses borrowed quota."""
        overlay, job, request = self._overlay, candidate.job, candidate.request
        if not job.can_preempt or goes.name in job.stopped_for:
            return False
        with self._transaction.trial():
            self._accounting.release(goes.running_pods())
            if overlay.refusal(job, request) is not None:
                return False
            self._accounting.charge_request(job, request)
            return any(overlay.fills_quota(queue, request) for queue in goes.path)
