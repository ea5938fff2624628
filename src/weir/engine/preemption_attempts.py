"""Attempts to free capacity for a workload, way by way, without those known to fail."""

from weir.engine.allocate import Allocator
from weir.engine.cheapest_moves import cheapest_moves
from weir.engine.domain_clearing import DomainClearing
from weir.engine.failed_preemptions import FailedPreemptions
from weir.engine.pod_placer import NodePlacement
from weir.engine.preemption_context import PreemptionContext
from weir.engine.preemption_eligibility import PreemptionEligibility
from weir.engine.preemption_plan import PreemptionPlan
from weir.engine.preemption_rules import PreemptionKind, PreemptionRules, PreemptionWay
from weir.engine.preemption_ways import PreemptionWays
from weir.engine.queue_order import Candidate
from weir.engine.quota_overlay import INFINITE
from weir.engine.reclaim_bounds import ReclaimBounds
from weir.engine.refusals import FailedSearch, SearchEnd
from weir.engine.victim_candidates import VictimCandidates
from weir.engine.victim_search import VictimSearch

_NEVER_KEPT = (PreemptionKind.CONSOLIDATE, PreemptionKind.OVERRIDE, PreemptionKind.IDLE)
"""Kinds whose failures don't predict those of a reclaim."""


class PreemptionAttempts:
    """Attempts of one cycle. Failures are kept until capacity is freed, or longer."""

    def __init__(
        self,
        allocator: Allocator,
        context: PreemptionContext,
        bounds: ReclaimBounds,
        eligibility: PreemptionEligibility,
    ) -> None:
        self.context = context
        self._policy = context.policy
        self._eligibility = eligibility
        self._ways = PreemptionWays(context, bounds, eligibility)
        self._failed = FailedPreemptions(allocator, bounds)
        self._domains = DomainClearing(context)

    def cleared_or_kept(self, candidate: Candidate, placements: list[NodePlacement]) -> PreemptionPlan:
        """Clear one domain by moves if these placements are scattered; otherwise keep them."""
        context, job, way = self.context, candidate.job, PreemptionWay(PreemptionKind.CONSOLIDATE)
        self._domains.forget()
        if (
            context.placement.is_scattered(job, placements)
            and job.can_preempt
            and self._policy.consolidation.enabled
        ):
            with context.transaction.trial() as trial:
                context.transaction.cancel(placements)
                domains, _ = self._domains.find(candidate, way.kind)
                rules = context.checks.rules_of(candidate, context.now_s)
                plan = self._domains.clear_one(domains, rules, way)
                if isinstance(plan, PreemptionPlan):
                    trial.commit()
                    self._failed.consolidations.clear()
            self._domains.forget()
            if isinstance(plan, PreemptionPlan):
                return plan
        return PreemptionPlan(None, placements)

    def first_success(self, rules: PreemptionRules, under_limits: bool) -> PreemptionPlan | None:
        """Free capacity in the first way that succeeds; keep lasting failures, and the end of searches."""
        failed = self._failed.consolidations
        end: SearchEnd | None = None  # result of the searches with evictions
        until_s = INFINITE  # time until which every way fails
        for way in self._ways.of(rules, under_limits):
            failing_until_s = self._failing_until_s(rules, way)
            if failing_until_s is not None:
                until_s = min(until_s, failing_until_s)
                continue
            moves = way.kind is PreemptionKind.CONSOLIDATE
            key = self._failed.consolidation_key(rules) if moves else None
            if key is not None and key in failed:
                until_s = until_s if failed[key] else -INFINITE
                continue
            plan = self._search(rules, way)
            if isinstance(plan, PreemptionPlan):
                failed.clear()
                self._domains.forget()
                return plan
            if not moves:
                end = plan.end if end is None else max(end, plan.end)
            if key is None or not plan.is_final:
                until_s = -INFINITE
            if key is not None:
                failed[key] = plan.is_final
        if end is not None:
            self._failed.note_end(rules, end)
        is_freeing = self.context.accounting.leaving or self.context.cluster.releasing_on
        if until_s > self.context.now_s and not is_freeing:
            self._failed.sleep(rules, until_s)
        return None

    def _failing_until_s(self, rules: PreemptionRules, way: PreemptionWay) -> float | None:
        """Return the time until which a kept failure holds; None if a search is needed."""
        if way.kind in _NEVER_KEPT or self.context.accounting.leaving:
            return None
        failure = self._failed.reclaim(rules, self.context.now_s)
        if failure is None:
            return None
        victims = self._domains.candidates(rules, way, self._policy.consolidation.budget)
        open_ = self.context.placement.open_to(rules.candidate)
        return failure.until_s if failure.covers(victims.jobs.keys(), open_) else None

    def _search(self, rules: PreemptionRules, way: PreemptionWay) -> PreemptionPlan | FailedSearch:
        """Free capacity in one way, or return the failure."""
        candidate = rules.candidate
        domains, anywhere = self._domains.find(candidate, way.kind)
        cleared = self._domains.clear_one(domains, rules, way)
        if isinstance(cleared, PreemptionPlan):
            return cleared
        if not anywhere:
            return FailedSearch(SearchEnd.SHORT if cleared is None else cleared.end, is_final=False)
        budget, open_ = self._policy.consolidation.budget, self.context.placement.open_to(candidate)
        cheapest = cheapest_moves(self.context, rules) if way.kind is PreemptionKind.CONSOLIDATE else None
        if cheapest is not None:
            victims = VictimCandidates(self.context, rules, way, budget, cheapest=cheapest)
            found = VictimSearch(self.context, victims, open_).run()
        if cheapest is None or (cheapest.below is not None and not isinstance(found, PreemptionPlan)):
            victims = self._domains.candidates(rules, way, budget)
            found = VictimSearch(self.context, victims, open_).run()
        if isinstance(found, PreemptionPlan):
            return found
        fell_short = not domains and found.end is SearchEnd.SHORT
        alone = not self.context.accounting.leaving and not self._eligibility.has_lower(candidate.of)
        if fell_short and way.kind is PreemptionKind.RECLAIM and alone:
            self._failed.keep_reclaim(rules, victims.jobs.keys())
        is_final = found.is_final and not domains and not self._failed.more_by_time
        return FailedSearch(found.end if cleared is None else max(found.end, cleared.end), is_final)
