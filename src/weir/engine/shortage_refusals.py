"""Refusals of work for which capacity is short: why no eviction helps it."""

from weir.engine.feasibility_cache import FeasibilityCache
from weir.engine.ineligible_victims import ProtectedHolders
from weir.engine.preemption_rules import PreemptionRules, lowest_priority
from weir.engine.queue_order import Candidate
from weir.engine.reason_context import ReasonContext
from weir.engine.refusals import NoClaim, NoVictims, OlderClaims, PreemptionCycle, TooFewVictims
from weir.model.resources import GPU
from weir.state.jobs import Job
from weir.state.shapes import GPU_ROW


def claimless(context: ReasonContext, candidate: Candidate, rules: PreemptionRules) -> NoClaim | OlderClaims:
    """Return why a workload that may not reclaim has no claim: an older one of its project, or a quota."""
    older = _older_claims(context, candidate, rules)
    if not older:
        return NoClaim(candidate.job.can_preempt, rules.shortfall())
    steps = [job.waiting.step.request for job in older if job.waiting is not None]
    claimed = sum(amount for request in steps for row, amount in request if row == GPU_ROW)
    return OlderClaims(candidate.job.project, tuple([job.name for job in older]), claimed)


def without_victims(
    context: ReasonContext, candidate: Candidate, rules: PreemptionRules, resource: str
) -> NoVictims | None:
    """Return why a workload can't evict what holds a resource; None if it has no claim on any of it."""
    row = context.cluster.rows.known(resource)
    holdings = context.holdings(candidate, GPU_ROW if row is None else row)
    holders = ProtectedHolders(context.cluster, context.policy, rules, context.now_s, holdings)
    partners = holders.of_preemption_cycle()
    if partners:
        return PreemptionCycle(partners)
    return holders.amounts(resource) or (TooFewVictims() if holders.any_eligible() else None)


def first_resource(helped: tuple[str, ...]) -> str:
    """Return the shortage that evictions would have to end first."""
    return helped[0] if helped else GPU


def _older_claims(context: ReasonContext, candidate: Candidate, rules: PreemptionRules) -> list[Job]:
    """Return the older workloads whose claims alone keep it from evicting others."""
    job = candidate.job
    if rules.any_reclaim or not job.can_preempt:
        return []
    if lowest_priority(context.cluster, context.policy, job.project) < job.priority:
        return []
    if not context.overlay.covers(job.path, candidate.request):
        return []
    return older_claims(context.feasibility, candidate)


def older_claims(feasibility: FeasibilityCache, candidate: Candidate) -> list[Job]:
    """Return the workloads that claim the project's quota before a candidate, in the order of the project."""
    own = candidate.of.line_key(candidate.at)
    claims = [
        (of.line_key(at), of.members[at][2])
        for of, count in feasibility.owners(candidate.job.project).items()
        for at in range(count)
        if of.line_key(at) < own
    ]
    return [job for _, job in sorted(claims, key=lambda claim: claim[0])]
