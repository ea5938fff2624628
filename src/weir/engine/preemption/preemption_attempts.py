"""Attempts to free capacity for a workload, way by way, without those known to fail.

A way is a kind of preemption, and the protection by quotas that it overrides.
"""

from collections.abc import Iterator, Sequence

from weir.engine.allocation.allocate import Allocator
from weir.engine.order.queue_order import Candidate
from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.placement.topology_placer import TopologyPlacer
from weir.engine.preemption.eviction_bounds import EvictionBounds
from weir.engine.preemption.preemption_eligibility import PreemptionEligibility
from weir.engine.protection.preemption_rules import (
    PreemptionKind,
    PreemptionRules,
    PreemptionWay,
    QuotaProtection,
)
from weir.engine.refusals.refusals import SearchEnd
from weir.engine.victims.move_bounds import MoveBounds, cheapest_moves
from weir.engine.victims.preemption_context import PreemptionContext, PreemptionPlan
from weir.engine.victims.victim_candidates import VictimCandidates
from weir.engine.victims.victim_search import VictimSearch
from weir.state.capacity_columns import Bools

_DOMAINS_MAX = 8
"""Number of domains that may be cleared, those that lack least first."""


class PreemptionAttempts:
    """Attempts to free capacity in one cycle."""

    def __init__(
        self,
        allocator: Allocator,
        context: PreemptionContext,
        moves: MoveBounds,
        eligibility: PreemptionEligibility,
    ) -> None:
        self.context = context
        self._policy = context.policy
        self._cluster = context.cluster
        self._cache = allocator.cache.preemption
        self._moves = moves
        if context.cluster.releasing_on:
            moves.forget(context.placer.capacity)  # it was the capacity before the releases
        self.bounds = EvictionBounds(context, moves)
        self._eligibility = eligibility

    def cleared_or_kept(self, candidate: Candidate, placements: list[NodePlacement]) -> PreemptionPlan:
        """Clear one domain by moves if these placements are scattered; otherwise keep them."""
        context, job, way = self.context, candidate.job, PreemptionWay(PreemptionKind.CONSOLIDATE)
        if (
            context.placement.is_scattered(job, placements)
            and job.can_preempt
            and self._policy.consolidation.enabled
        ):
            with context.transaction.trial() as trial:
                context.transaction.cancel(placements)
                domains, _ = self._domains_to_clear(candidate, way.kind)
                rules = context.checks.rules_of(candidate, context.now_s)
                plan = self._clear_one(domains, rules, way)
                if isinstance(plan, PreemptionPlan):
                    trial.commit()
                    return plan
        return PreemptionPlan(None, placements)

    def first_success(self, rules: PreemptionRules, under_limits: bool) -> PreemptionPlan | None:
        """Free capacity in the first way that succeeds; None if no way does.

        The end of each failed search is cached.
        """
        end: SearchEnd | None = None  # result of the searches with evictions
        is_short = True
        ways = ways_of(rules, self.context, self.bounds, self._eligibility, under_limits=under_limits)
        for way in ways:
            plan = self._search(rules, way)
            if isinstance(plan, PreemptionPlan):
                return plan
            is_short = is_short and plan is SearchEnd.SHORT
            if way.kind is not PreemptionKind.CONSOLIDATE:
                end = plan if end is None else max(end, plan)
        if end is not None:
            self._cache.note_end(self._cluster, (rules.candidate.queued, rules.candidate.index), end)
        if is_short:
            self._eligibility.failures.note(rules)
        return None

    def _search(self, rules: PreemptionRules, way: PreemptionWay) -> PreemptionPlan | SearchEnd:
        """Free capacity in one way, or return the end of the search."""
        candidate = rules.candidate
        domains, anywhere = self._domains_to_clear(candidate, way.kind)
        cleared = self._clear_one(domains, rules, way)
        if isinstance(cleared, PreemptionPlan):
            return cleared
        if not anywhere:
            return SearchEnd.SHORT if cleared is None else cleared
        budget, open_ = self._policy.consolidation.budget, self.context.placement.open_to(candidate)
        cheapest = None
        if way.kind is PreemptionKind.CONSOLIDATE:
            cheapest = cheapest_moves(self.context, rules, self._moves)
        if cheapest is not None:
            victims = VictimCandidates(self.context, rules, way, budget, cheapest=cheapest)
            outcome = VictimSearch(self.context, victims, open_).run()
        if cheapest is None or (cheapest.below is not None and not isinstance(outcome, PreemptionPlan)):
            victims = VictimCandidates(self.context, rules, way, budget)
            outcome = VictimSearch(self.context, victims, open_).run()
        return outcome if isinstance(outcome, PreemptionPlan) or cleared is None else max(outcome, cleared)

    # Topology domains

    def _domains_to_clear(self, candidate: Candidate, kind: PreemptionKind) -> tuple[list[Bools], bool]:
        """Return the domains to clear by the workload's topology, and True if any node may be cleared."""
        context, job = self.context, candidate.job
        asked, open_ = job.topology, context.placement.open_to(candidate)
        if asked is None or (sum(candidate.lacks) == 1 and asked.required is None):
            return [], True
        levels, affinity = context.levels_of(asked.name), context.affinity_of(job)
        placer = TopologyPlacer(context.placer, job, affinity, levels, open_)
        anywhere = asked.required is None and (
            kind is not PreemptionKind.CONSOLIDATE or context.placement.may_scatter(job, candidate.lacks)
        )
        return placer.domains_to_clear(candidate.pods())[:_DOMAINS_MAX], anywhere

    def _clear_one(
        self, domains: Sequence[Bools], rules: PreemptionRules, way: PreemptionWay
    ) -> PreemptionPlan | SearchEnd | None:
        """Free capacity in the cheapest domain, even if other nodes were cheaper; None without domains."""
        if not domains:
            return None
        victims = VictimCandidates(self.context, rules, way, self._policy.topology.budget)
        searches = [VictimSearch(self.context, victims, within) for within in domains]
        if len(searches) > 1:
            searches.sort(key=lambda search: search.nodes.least_price())
        failed = None
        for search in searches:
            outcome = search.run()
            if isinstance(outcome, PreemptionPlan):
                return outcome
            failed = outcome if failed is None else max(failed, outcome)
        return failed


def ways_of(
    rules: PreemptionRules,
    context: PreemptionContext,
    bounds: EvictionBounds,
    eligibility: PreemptionEligibility,
    *,
    under_limits: bool,
) -> Iterator[PreemptionWay]:
    """Yield the ways to free capacity for a workload, in the order in which they are tried.

    Idle workloads without protection go first. Work over quota goes before work within a quota: that of
    other projects by reclaim, and that of its own project, if it is over its quota, by preemption.
    """
    candidate, cluster = rules.candidate, context.cluster
    queued, index = candidate.queued, candidate.index
    owner = context.checks.is_owner(queued, index)
    if eligibility.may_take_idle(queued):
        yield PreemptionWay(PreemptionKind.IDLE)
    if (
        under_limits
        and eligibility.may_consolidate(queued, owner, context.placer.capacity.totals.free_gpu_milli)
        # The bound is of its first step
        and (cluster.releasing_on or candidate.again or eligibility.could_consolidate(queued, index, owner))
    ):
        yield PreemptionWay(PreemptionKind.CONSOLIDATE)
    protections: list[QuotaProtection] = []
    reclaims = rules.any_reclaim
    overrides = reclaims and _may_override(rules, context)
    if reclaims and (cluster.unprotected or bounds.could_help(rules, reclaims=True, overrides=overrides)):
        protections = rules.protections.open_to(is_owner=rules.is_owner)
        yield PreemptionWay(PreemptionKind.RECLAIM)
    preempts = eligibility.has_lower(queued) and bounds.could_help(rules, reclaims=False)
    if preempts and rules.protections.own_over_quota:
        preempts = False
        yield PreemptionWay(PreemptionKind.PREEMPT)
    for most in protections[1:]:
        yield PreemptionWay(PreemptionKind.RECLAIM, most)
    if preempts:
        yield PreemptionWay(PreemptionKind.PREEMPT)
    if protections and overrides:
        yield PreemptionWay(PreemptionKind.OVERRIDE)


def _may_override(rules: PreemptionRules, context: PreemptionContext) -> bool:
    """Return True if budgets no longer protect work over quota from this workload."""
    budgets = context.policy.budgets
    if not context.cluster.budgets or not rules.is_owner:
        return False
    if budgets.borrowed == "grace_period":
        return context.any_lapsed
    return budgets.borrowed == "override" and rules.waited_s >= budgets.grace
