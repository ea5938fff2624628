"""Preemption eligibility: the pending workloads for which preemption could succeed."""

from collections.abc import Collection

from weir.engine.allocation.allocate import Allocator
from weir.engine.order.queue_order import Candidate
from weir.engine.preemption.failed_searches import FailedSearches
from weir.engine.preemption_cache import CandidateSets, ConsolidationKey, Eligibility, KeptEligibility, Member
from weir.engine.protection.preemption_rules import lowest_priority
from weir.engine.usage.quota_overlay import INFINITE
from weir.engine.victims.move_bounds import MoveBounds
from weir.model.workloads import WHOLE_MILLI
from weir.state.jobs import EquivalenceClass, Job


class PreemptionEligibility:
    """Cheap checks of each pending class, kept while their inputs are unchanged."""

    def __init__(self, allocator: Allocator, moves: MoveBounds) -> None:
        self._allocator = allocator
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._now_s = allocator.now_s
        self._checks = allocator.checks
        self._cache = allocator.cache.preemption
        self._moves = moves
        self.failures = FailedSearches(allocator, moves)

    def candidates(self) -> list[Candidate]:
        """Return the pending workloads for which preemption could succeed."""
        sets = self._cache.candidate_sets
        if sets is None:
            sets = self._cache.candidate_sets = self._candidate_sets()
        hopeless = self.failures.still_hopeless()
        candidates: list[Candidate] = []
        moves = self._moves
        for key, members in sets.items():
            if key is None or moves.could_suffice(*members[0], key):
                candidates += [self._allocator.candidate(*one) for one in members if one not in hopeless]
        return candidates

    def _candidate_sets(self) -> CandidateSets:
        """Return the workloads for which preemption might succeed, by a cheap check of each class."""
        waiting_of = self._cluster.waiting_of
        if self._cluster.releasing_on:
            return {None: [one for classes in waiting_of.values() for one in self._unserved(classes)]}
        return self._kept().sets(waiting_of, self._allocator.capacity.totals.free_gpu_milli)

    def _kept(self) -> KeptEligibility:
        """Return the cached options of pending workloads, after an update of those that changed."""
        waiting_of, touched = self._cluster.waiting_of, self._cluster.ledger.touched
        kept, served = self._cache.eligibility, self._allocator.projects_served()
        # Any requester may evict unprotected work
        if kept is None or self._cluster.unprotected or not self._policy.oldest_first_in_quota:
            kept = KeptEligibility(len(touched))
            self._cache.eligibility = None if self._cluster.unprotected else kept
        for project in {*kept.outdated(touched, self._now_s), *served}:
            classes = waiting_of.get(project)
            eligible = None if classes is None else self._new_eligibility(project, classes)
            kept.keep(project, touched[project], eligible)
        kept.forget(served)  # the plan may not be carried out, so these projects are outdated
        return kept

    def _unserved(self, classes: Collection[EquivalenceClass]) -> list[Member]:
        """Return the first unserved member of each class that could run on an empty cluster."""
        allocator, feasibility = self._allocator, self._allocator.feasibility
        first = [(queued, allocator.served_of(queued)) for queued in classes]
        return [
            (queued, index)
            for queued, index in first
            if index < len(queued.members) and feasibility.could_run(queued)
        ]

    def _new_eligibility(self, project: int, classes: Collection[EquivalenceClass]) -> Eligibility:
        preemptors: list[Member] = []
        movers: list[tuple[EquivalenceClass, int, ConsolidationKey, int]] = []
        until_s = INFINITE
        lowest = lowest_priority(self._cluster, self._policy, project)
        for queued, index in self._unserved(classes):
            job = queued.members[index][2]
            if not job.can_preempt:
                continue
            owner = self._checks.is_owner(queued, index)
            if owner or lowest < job.priority or self._has_claim(queued, job) or self.may_take_idle(queued):
                preemptors.append((queued, index))
                continue
            until_s = min(until_s, job.waits_since_s + self._policy.reclaim_share_after)
            free_milli = self._free_to_consolidate(queued, owner)
            if free_milli is not None:
                movers.append((queued, index, self._consolidation_key(queued, index, owner), free_milli))
                if job.topology is not None and not self._allocator.placement.may_scatter(
                    job, queued.step.lacks
                ):
                    until_s = min(until_s, job.waits_since_s + self._policy.topology.patience)
        return Eligibility(until_s, preemptors, movers)

    def may_take_idle(self, queued: EquivalenceClass) -> bool:
        """Return True if unprotected idle work and free capacity have as many devices as the request."""
        idle, needed = self._cluster.unprotected, queued.step.gpu_milli
        if not idle or not needed:
            return False
        held = sum(job.devices_held()[0] for job in idle.values())
        return self._allocator.capacity.totals.free_gpu_milli + held * WHOLE_MILLI >= needed

    def has_lower(self, queued: EquivalenceClass) -> bool:
        """Return True if preemptible work of lower priority runs in its project."""
        return lowest_priority(self._cluster, self._policy, queued.project) < queued.first.priority

    def _has_claim(self, queued: EquivalenceClass, job: Job) -> bool:
        """Return True if a workload may reclaim although its project's quota doesn't cover it."""
        if not job.preemptible or self._now_s - job.waits_since_s >= self._policy.reclaim_share_after:
            return True
        quota = self._cluster.ledger.quota
        return any(
            all(quota[queue][row] for row, amount in queued.step.request if amount) for queue in job.path[:-1]
        )

    # Consolidation

    def may_consolidate(self, queued: EquivalenceClass, owner: bool, free_milli: int) -> bool:
        """Return True if moves are allowed for it and enough devices are free."""
        needed = self._free_to_consolidate(queued, owner)
        return needed is not None and free_milli >= needed

    def could_consolidate(self, queued: EquivalenceClass, index: int, owner: bool) -> bool:
        """Return True if moves within the budget could suffice, by bounds."""
        return self._moves.could_suffice(queued, index, self._consolidation_key(queued, index, owner))

    def _free_to_consolidate(self, queued: EquivalenceClass, owner: bool) -> int | None:
        """Return the free capacity that moves for a workload need; None if they aren't allowed."""
        if not self._policy.consolidation.enabled:
            return None
        if owner:
            return queued.step.gpu_milli
        return queued.step.gpu_milli + self._checks.headroom_milli if queued.first.preemptible else None

    def _consolidation_key(self, queued: EquivalenceClass, index: int, owner: bool) -> ConsolidationKey:
        """Return the key that is equal for workloads that the same moves could help."""
        job = queued.members[index][2]
        protects = job.preemptible and not owner and self._policy.consolidation.protect_in_quota
        topology = job.topology
        if topology is None:
            return ConsolidationKey(queued.wants, None, True, False, protects)
        scattered = self._allocator.placement.may_scatter(job, queued.step.lacks)
        return ConsolidationKey(queued.wants, topology, scattered, job.is_running, protects)
