"""Failed preemptions: attempts that are skipped in this cycle, or while nothing changes."""

from collections.abc import Set as AbstractSet

from weir.engine.allocate import Allocator
from weir.engine.preemption_cache import FailedReclaim, Sleeping
from weir.engine.preemption_rules import PreemptionRules
from weir.engine.reclaim_bounds import ReclaimBounds
from weir.engine.refusals import SearchEnd
from weir.state.jobs import Job

ConsolidationAttempt = tuple[object, ...]
"""Properties of a request that moves depend on."""


class FailedPreemptions:
    """Failures of one cycle and of those before it."""

    def __init__(self, allocator: Allocator, bounds: ReclaimBounds) -> None:
        self._allocator = allocator
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._cache = allocator.cache.preemption
        self._bounds = bounds
        # Failed consolidations since capacity was last freed; True if only a checkpoint could help
        self.consolidations: dict[ConsolidationAttempt, bool] = {}

    def consolidation_key(self, rules: PreemptionRules) -> ConsolidationAttempt | None:
        """Return a key of requests for which moves fail alike; None if more than the key matters."""
        candidate, job = rules.candidate, rules.job
        if job.is_running or job.stopped_for:
            return None
        placement = self._allocator.placement
        if placement.open_to(candidate) is not None or (placement.outages and placement.outages.barring(job)):
            return None
        orders, scattered = tuple(group.order for group in job.spec.groups), None
        if job.topology is not None:
            scattered = self._allocator.placement.may_scatter(job, candidate.lacks)
        affinity = self._allocator.feasibility.affinity(job)
        return candidate.of.wants, orders, affinity, rules.is_owner, job.topology, scattered

    def reclaim(self, rules: PreemptionRules, now_s: float) -> FailedReclaim | None:
        """Return the kept failure of a reclaim for this request, unless time has ended it."""
        key = (rules.candidate.of, rules.candidate.at, rules.is_patient)
        known = self._cache.failed_reclaims(self._cluster).get(key)
        return None if known is None or now_s >= known.until_s else known

    def keep_reclaim(self, rules: PreemptionRules, jobs: AbstractSet[Job]) -> None:
        """Keep a failed reclaim if only a state change can make it succeed."""
        candidate = rules.candidate
        if not self.more_by_time:
            until_s = self._cycle_ends_s(candidate.job, self._allocator.now_s)
            known = self._cache.failed_reclaims(self._cluster)
            open_ = self._allocator.placement.open_to(candidate)
            known[candidate.of, candidate.at, rules.is_patient] = FailedReclaim(
                until_s, frozenset(jobs), open_
            )

    def note_end(self, rules: PreemptionRules, end: SearchEnd) -> None:
        """Note the end of the searches for a workload's victims, for its reason."""
        self._cache.note_end(self._cluster, (rules.candidate.of, rules.candidate.at), end)

    @property
    def more_by_time(self) -> bool:
        """Return True if time alone can add victims."""
        return bool(self._policy.min_runtime.any or self._policy.usage.k or self._cluster.refused)

    def _cycle_ends_s(self, job: Job, now_s: float) -> float:
        """Return the time at which the next workload protected by a preemption cycle becomes eligible."""
        ends = (at_s + self._policy.reserve_after for at_s in job.stopped_for.values())
        return min((end_s for end_s in ends if end_s > now_s), default=float("inf"))

    def sleep(self, rules: PreemptionRules, until_s: float) -> None:
        """Put a request to sleep until a time or a checkpoint of a workload that wasn't eligible."""
        self._cache.sleeping[rules.candidate.of, rules.candidate.at] = Sleeping(
            until_s, self._cluster.saves, self._bounds.eligible_projects(rules)
        )
