"""Ways to free capacity for a workload: kinds of preemption, and how much quota protection each overrides."""

from collections.abc import Iterator

from weir.engine.preemption.preemption_eligibility import PreemptionEligibility
from weir.engine.preemption.reclaim_bounds import ReclaimBounds
from weir.engine.protection.preemption_rules import PreemptionKind, PreemptionRules, PreemptionWay
from weir.engine.protection.quota_protection import QuotaProtection
from weir.engine.victims.preemption_context import PreemptionContext


def ways_of(
    rules: PreemptionRules,
    context: PreemptionContext,
    bounds: ReclaimBounds,
    eligibility: PreemptionEligibility,
    *,
    under_limits: bool,
) -> Iterator[PreemptionWay]:
    """Yield the ways to free capacity for a workload, in the order in which they are tried.

    Idle workloads without protection go first. Work over quota goes before work within a quota: that of
    other projects by reclaim, and that of its own project, if it is over its quota, by preemption.
    """
    candidate, cluster = rules.candidate, context.cluster
    of, at = candidate.of, candidate.at
    owner = context.checks.is_owner(of, at)
    if eligibility.may_take_idle(of):
        yield PreemptionWay(PreemptionKind.IDLE)
    if (
        under_limits
        and eligibility.may_consolidate(of, owner, context.placer.capacity.totals.free_gpu_milli)
        # The bound is of its first step
        and (cluster.releasing_on or candidate.again or eligibility.could_consolidate(of, at, owner))
    ):
        yield PreemptionWay(PreemptionKind.CONSOLIDATE)
    protections: list[QuotaProtection] = []
    if rules.any_reclaim and (cluster.unprotected or bounds.could_reclaim(rules, context)):
        protections = rules.protections.open_to(is_owner=rules.is_owner)
        yield PreemptionWay(PreemptionKind.RECLAIM)
    preempts = eligibility.has_lower(of)
    if preempts and rules.protections.own_over_quota:
        preempts = False
        yield PreemptionWay(PreemptionKind.PREEMPT)
    for most in protections[1:]:
        yield PreemptionWay(PreemptionKind.RECLAIM, most)
    if preempts:
        yield PreemptionWay(PreemptionKind.PREEMPT)
    if protections and _may_override(rules, context):
        yield PreemptionWay(PreemptionKind.OVERRIDE)


def _may_override(rules: PreemptionRules, context: PreemptionContext) -> bool:
    """Return True if budgets no longer protect work over quota from this workload."""
    budgets = context.policy.budgets
    if not context.cluster.budgets or not rules.is_owner:
        return False
    if budgets.borrowed == "grace_period":
        return context.any_lapsed
    return budgets.borrowed == "override" and rules.waited_s >= budgets.grace
