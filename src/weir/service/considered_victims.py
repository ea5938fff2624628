"""Considered victims: running workloads that a requester may evict, and protected ones with the cause."""

from collections.abc import Iterator
from heapq import nsmallest

from weir.api.decision import VictimRow
from weir.engine.protection.preemption_rules import PreemptionKind, PreemptionRules, PreemptionWay
from weir.engine.refusals.holder_phrases import protection_phrase
from weir.engine.victims.eviction_price import lost_work
from weir.engine.victims.preemption_context import PreemptionContext
from weir.engine.victims.victim_candidates import VictimCandidates
from weir.engine.victims.victim_sets import Tier
from weir.model.reasons import EvictionRule
from weir.state.capacity_columns import Bools
from weir.state.jobs import Job

CONSIDERED_MAX = 20
"""Limit of named victims, and of named protected workloads."""


class ConsideredVictims:
    """Running workloads on the `useful` nodes, by the sets that preemption for one requester uses."""

    def __init__(self, context: PreemptionContext, rules: PreemptionRules, useful: Bools) -> None:
        self._context = context
        self._rules = rules
        self._sets = [
            VictimCandidates(context, rules, way, context.policy.consolidation.budget)
            for way in _ways(context, rules)
        ]
        self._eligible: list[tuple[Tier, float, str, Job, bool]] = []  # True for those that may only move
        self._protected: list[Job] = []
        for job in _running_on(context, rules.job, useful):
            entry = self._entry(job)
            if entry is None:
                self._protected.append(job)
            else:
                self._eligible.append(entry)
        self.eligible, self.protected = len(self._eligible), len(self._protected)

    def rows(self) -> list[VictimRow]:
        """Return eligible victims in the order of their eviction, then the largest protected workloads."""
        first = nsmallest(CONSIDERED_MAX, self._eligible, key=lambda entry: entry[:3])
        rest = nsmallest(CONSIDERED_MAX, self._protected, key=lambda job: (-job.devices_held()[0], job.name))
        rows = []
        for _, price, _, job, moves in first:
            rule = EvictionRule.CONSOLIDATE if moves else self._rules.rule_for(job)
            rows.append(self._row(job, price=price, rule=None if rule is None else rule.value))
        return [*rows, *(self._row(job, protected=self._protection(job)) for job in rest)]

    def _entry(self, job: Job) -> tuple[Tier, float, str, Job, bool] | None:
        """Return an eligible victim, from the first kind of preemption that allows it; else None."""
        for candidates in self._sets:
            parts = candidates.victims_of(job, self._context.running(job)) if job in candidates.jobs else []
            if parts:
                tier, price = max(part.tier for part in parts), sum(part.price for part in parts)
                return tier, price, job.name, job, candidates.jobs[job]
        return None

    def _protection(self, job: Job) -> str:
        """Return the protection of a workload that isn't eligible."""
        context, requester = self._context, self._rules.job
        if not requester.can_preempt:
            return f"{requester.name} may not preempt"
        protection = context.protections.protection_of(job, self._rules)
        budgets = context.accounting.disruptions.blocking(job.running_pods())
        return protection_phrase(protection, job, requester, budgets)

    def _row(
        self, job: Job, *, price: float | None = None, rule: str | None = None, protected: str = ""
    ) -> VictimRow:
        gpus = job.devices_held()[0]
        return VictimRow(
            workload=job.name,
            project=job.spec.project,
            gpus=gpus,
            lost=lost_work(job, gpus, self._context.policy.price, self._context.now_s),
            price=price,
            rule=rule,
            protected=protected,
        )


def _running_on(context: PreemptionContext, requester: Job, useful: Bools) -> Iterator[Job]:
    """Yield the other workloads that run on useful nodes."""
    nodes: list[bool] = useful.tolist()
    for jobs in context.cluster.running.values():
        for job in jobs.values():
            if job is not requester and any(nodes[pod.node] for pod in job.running_pods()):
                yield job


def _ways(context: PreemptionContext, rules: PreemptionRules) -> list[PreemptionWay]:
    """Return the kinds of preemption that a requester may use, and the protections that each overrides."""
    ways: list[PreemptionWay] = []
    if not rules.job.can_preempt:
        return ways
    if context.cluster.unprotected:
        ways.append(PreemptionWay(PreemptionKind.IDLE))
    if rules.any_reclaim:
        most = rules.protections.open_to(is_owner=rules.is_owner)[-1]
        ways.append(PreemptionWay(PreemptionKind.RECLAIM, most))
    ways.append(PreemptionWay(PreemptionKind.PREEMPT))
    if context.policy.consolidation.enabled:
        ways.append(PreemptionWay(PreemptionKind.CONSOLIDATE))
    return ways
