"""Failed searches for victims that only an event or a cheaper move could make succeed."""

from collections.abc import Collection

import numpy as np

from weir.engine.allocation.allocate import Allocator
from weir.engine.preemption_cache import Member
from weir.engine.protection.preemption_rules import PreemptionRules, is_past_min_runtime
from weir.engine.victims.move_bounds import MoveBounds
from weir.state.capacity_columns import Ints
from weir.state.jobs import Job

_NO_ROWS: Ints = np.empty(0, np.int64)


class FailedSearches:
    """Workloads for which all possible victims together are too few.

    Victims that may be stopped change by events and at known times only. Work that is cheap to move becomes
    dearer as it runs, and cheaper by a checkpoint.
    """

    def __init__(self, allocator: Allocator, moves: MoveBounds) -> None:
        self._allocator = allocator
        self._moves = moves
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._cache = allocator.cache.preemption

    def note(self, rules: PreemptionRules) -> None:
        """Record a failed search, unless victims may be added merely by the passing of time."""
        by_time = self._policy.aging or self._policy.usage.k or rules.job.stopped_for
        if self._allocator.cache.bounds and not (by_time or self._cluster.releasing_on):
            shapes = zip(rules.job.shapes, rules.candidate.lacks, strict=True)
            devices_min = min(
                [shape.devices if shape.whole else 0 for shape, lack in shapes if lack], default=0
            )
            self._cache.hopeless[rules.candidate.queued, rules.candidate.index] = devices_min

    def still_hopeless(self) -> Collection[Member]:
        """Return the workloads whose searches would fail again."""
        cache = self._cache
        if cache.hopeless:
            jobs = [job for job in self._newly_cheap() if self._may_move(job)]
            nodes = {pod.node for job in jobs for pod in job.running_pods()}
            freed_max = max(map(self._freed_max, nodes), default=-1)
            for member in [member for member, needed in cache.hopeless.items() if needed <= freed_max]:
                del cache.hopeless[member]
        if not cache.hopeless:
            cache.newly_saved(self._cluster.running_pods.since_s, _NO_ROWS)
        return cache.hopeless

    def _newly_cheap(self) -> list[Job]:
        """Return the workloads that have checkpointed since the last cycle and are cheap to move."""
        policy, running = self._policy, self._cluster.running_pods
        if not policy.consolidation.enabled:
            return []
        budget = max(policy.consolidation.budget, policy.topology.budget)
        rows, _ = self._moves.could_move(budget, spares=False, beside_stops=True)
        return running.jobs_of(self._cache.newly_saved(running.since_s, rows))

    def _freed_max(self, node: int) -> int:
        """Return an upper bound of the whole devices of a node that are free, or could be."""
        pods = self._cluster.pods_on[node]
        return int(self._allocator.capacity.whole[node]) + sum(
            len(pod.devices) for pod in pods if pod.job.preemptible
        )

    def _may_move(self, job: Job) -> bool:
        """Return True if neither its minimum run time nor a budget protects all of a workload."""
        disruptions = self._allocator.transaction.accounting.disruptions
        return is_past_min_runtime(job, self._policy, self._allocator.now_s) and any(
            disruptions.allows((pod,)) for pod in job.running_pods()
        )
