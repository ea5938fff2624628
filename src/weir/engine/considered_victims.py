"""Considered victims: running workloads that a requester may evict, and protected ones with the cause."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import nsmallest

from weir.engine.eviction_price import lost_work
from weir.engine.holder_phrases import protection_phrase
from weir.engine.preemption_context import PreemptionContext
from weir.engine.preemption_rules import PreemptionKind, PreemptionRules, PreemptionWay
from weir.engine.victim_candidates import VictimCandidates
from weir.engine.victim_sets import Tier
from weir.model.reasons import EvictionRule
from weir.state.capacity_columns import Bools
from weir.state.jobs import Job

CONSIDERED_MOST = 20
"""Victims that are named, and protected workloads that are."""


@dataclass(frozen=True, slots=True)
class ConsideredVictim:
    """Running workload whose capacity a requester could use."""

    workload: str
    project: str
    gpus: float
    lost: float  # work since its checkpoint and a restart, in device seconds
    price: float | None = None  # `lost` less a credit for size, to compare victims; None if it is protected
    rule: EvictionRule | None = None  # rule that allows its eviction
    protected: str = ""  # reason for its protection; empty if it may be evicted


@dataclass(frozen=True, slots=True)
class ConsideredVictims:
    """Eligible victims in eviction order, and protected workloads, the largest first.

    `eligible` and `protected` count all of them.
    """

    eligible: int
    protected: int
    named: tuple[ConsideredVictim, ...]


def considered_victims(
    context: PreemptionContext, rules: PreemptionRules, useful: Bools
) -> ConsideredVictims:
    """Return the victims that a requester may evict on the `useful` nodes, and the protected workloads."""
    finder = _Finder(context, rules)
    eligible: list[tuple[Tier, float, ConsideredVictim]] = []
    protected: list[Job] = []
    for job in _running_on(context, rules.job, useful):
        victim = finder.eligible(job)
        if victim is not None:
            eligible.append(victim)
        else:
            protected.append(job)
    first = nsmallest(CONSIDERED_MOST, eligible, key=lambda entry: (entry[0], entry[1], entry[2].workload))
    rest = nsmallest(CONSIDERED_MOST, protected, key=lambda job: (-job.devices_held()[0], job.name))
    named = (*(entry[2] for entry in first), *(finder.protected(job) for job in rest))
    return ConsideredVictims(len(eligible), len(protected), named)


def _running_on(context: PreemptionContext, requester: Job, useful: Bools) -> Iterator[Job]:
    """Yield the other workloads that run on useful nodes."""
    nodes: list[bool] = useful.tolist()
    for jobs in context.cluster.running.values():
        for job in jobs.values():
            if job is not requester:
                for pod in job.running_pods():
                    if nodes[pod.node]:
                        yield job
                        break


class _Finder:
    """Eligibility of running workloads for one requester, by the sets that its preemption uses."""

    def __init__(self, context: PreemptionContext, rules: PreemptionRules) -> None:
        self._context = context
        self._rules = rules
        self._sets = [
            VictimCandidates(context, rules, way, context.policy.consolidation.budget)
            for way in _ways(context, rules)
        ]

    def eligible(self, job: Job) -> tuple[Tier, float, ConsideredVictim] | None:
        """Return an eligible victim with its tier and price; None if it is protected."""
        for candidates in self._sets:
            if job not in candidates.jobs:
                continue
            parts = candidates.victims_of(job, self._context.running(job))
            if not parts:
                continue
            price = sum(part.price for part in parts)
            moves = candidates.jobs[job]
            rule = EvictionRule.CONSOLIDATE if moves else self._rules.rule_for(job)
            victim = replace(self._shown(job), price=price, rule=rule)
            return max(part.tier for part in parts), price, victim
        return None

    def protected(self, job: Job) -> ConsideredVictim:
        """Return a workload that isn't eligible, with its protection."""
        context, requester = self._context, self._rules.job
        if not requester.can_preempt:
            return replace(self._shown(job), protected=f"{requester.name} may not preempt")
        protection = context.protections.of(job, self._rules)
        budgets = context.accounting.disruptions.blocking(job.running_pods())
        return replace(self._shown(job), protected=protection_phrase(protection, job, requester, budgets))

    def _shown(self, job: Job) -> ConsideredVictim:
        prices, now_s = self._context.policy.price, self._context.now_s
        gpus = job.devices_held()[0]
        return ConsideredVictim(job.name, job.spec.project, gpus, lost_work(job, gpus, prices, now_s))


def _ways(context: PreemptionContext, rules: PreemptionRules) -> list[PreemptionWay]:
    """Return the kinds of preemption open to a requester, with the protections each may override."""
    found: list[PreemptionWay] = []
    if not rules.job.can_preempt:
        return found
    if context.cluster.unprotected:
        found.append(PreemptionWay(PreemptionKind.IDLE))
    if rules.any_reclaim:
        most = rules.protections.open_to(is_owner=rules.is_owner)[-1]
        found.append(PreemptionWay(PreemptionKind.RECLAIM, most))
    found.append(PreemptionWay(PreemptionKind.PREEMPT))
    if context.policy.consolidation.enabled:
        found.append(PreemptionWay(PreemptionKind.CONSOLIDATE))
    return found
