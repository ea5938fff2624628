"""Ways to free capacity for a workload: kinds of preemption, and how much quota protection each overrides."""

from collections.abc import Iterator

from weir.engine.preemption_context import PreemptionContext
from weir.engine.preemption_eligibility import PreemptionEligibility
from weir.engine.preemption_rules import PreemptionKind, PreemptionRules, PreemptionWay
from weir.engine.quota_protection import QuotaProtection
from weir.engine.reclaim_bounds import ReclaimBounds


class PreemptionWays:
    """Ways of one cycle. Cheap checks exclude ways that can't succeed."""

    def __init__(
        self, context: PreemptionContext, bounds: ReclaimBounds, eligibility: PreemptionEligibility
    ) -> None:
        self._context = context
        self._cluster = context.cluster
        self._bounds = bounds
        self._eligibility = eligibility
        self._lapsed: bool | None = None

    def of(self, rules: PreemptionRules, under_limits: bool) -> Iterator[PreemptionWay]:
        """Yield the ways to free capacity for a workload, in the order in which they are tried.

        Idle workloads without protection go first. Work over quota goes before work within a quota: that of
        other projects by reclaim, and that of its own project, if it is over its quota, by preemption.
        """
        context, candidate, eligibility = self._context, rules.candidate, self._eligibility
        of, at = candidate.of, candidate.at
        owner = context.checks.is_owner(of, at)
        if eligibility.may_take_idle(of):
            yield PreemptionWay(PreemptionKind.IDLE)
        if (
            under_limits
            and eligibility.may_consolidate(of, owner, context.placer.capacity.totals.free_gpu_milli)
            and (
                self._cluster.releasing_on
                or context.accounting.leaving
                or eligibility.could_consolidate(of, at, owner)
            )
        ):
            yield PreemptionWay(PreemptionKind.CONSOLIDATE)
        protections: list[QuotaProtection] = []
        if rules.any_reclaim and (self._cluster.unprotected or self._bounds.could_reclaim(rules, context)):
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
        if protections and self._may_override(rules):
            yield PreemptionWay(PreemptionKind.OVERRIDE)

    def _may_override(self, rules: PreemptionRules) -> bool:
        """Return True if budgets no longer protect work over quota from this workload."""
        budgets = self._context.policy.budgets
        if not self._cluster.budgets or not rules.is_owner:
            return False
        if budgets.borrowed == "grace_period":
            return self._any_lapsed()
        waited_s = self._context.now_s - rules.job.waits_since_s
        return budgets.borrowed == "override" and waited_s >= budgets.grace

    def _any_lapsed(self) -> bool:
        """Return True if budgets no longer protect any running workload."""
        if self._lapsed is None:
            running = self._cluster.running.values()
            self._lapsed = any(job.spec.lapsed for jobs in running for job in jobs.values())
        return self._lapsed
