"""Reasons of work for which capacity is short: on which nodes, and why no victim makes way for it."""

from collections.abc import Sequence

from weir.engine.ineligible_victims import IneligibleVictims, amounts_phrase, names_phrase
from weir.engine.infeasible_gang import group_phrase
from weir.engine.older_claims import older_claims, older_claims_phrase
from weir.engine.preemption_rules import PreemptionRules, lowest_priority
from weir.engine.queue_order import Candidate
from weir.engine.quota_shortfall import quota_shortfall
from weir.engine.reason_context import ReasonContext
from weir.model.reasons import Reason, ReasonCode
from weir.model.resources import GPU, plain_amount, span
from weir.state.jobs import Job
from weir.state.shapes import GPU_ROW

Fitting = Sequence[tuple[str, int, int]]
"""The groups that lack pods: name, pods that fit now, and pods that are lacking."""


def shortage_reason(
    context: ReasonContext, candidate: Candidate, numbers: dict[str, object]
) -> Reason | None:
    """Return why capacity is short for a candidate; None if each of its pods fits. Adds to `numbers`."""
    shortage = context.shortage(candidate)
    fitting = [
        (group, min(lack, fits), lack)
        for (group, _, lack), fits in zip(context.lacking(candidate), shortage.fitting, strict=True)
    ]
    numbers["short"] = dict(shortage.nodes)
    numbers["fitting"] = {group: fits for group, fits, _ in fitting}
    numbers["needed"] = {group: lack for group, _, lack in fitting}
    if all(fits == lack for _, fits, lack in fitting):
        return None
    where = shortage.sentence + _together(candidate.job)
    if shortage.helped or not shortage.nodes:  # else a cause remains that no eviction ends
        resource = shortage.helped[0] if shortage.helped else GPU
        reason = _no_victims(context, candidate, where, resource, numbers)
        if reason is not None:
            return reason
    return _left_out(context, candidate, fitting, where, numbers)


def _together(job: Job) -> str:
    """Return the topology domain that all of it has to share, as the end of a sentence."""
    topology = job.topology
    if topology is None or topology.required is None:
        return ""
    return f"; all of its pods have to share one {topology.required}"


def _no_victims(
    context: ReasonContext, candidate: Candidate, where: str, resource: str, numbers: dict[str, object]
) -> Reason | None:
    """Return why it can't evict what holds the resource; None without a claim on it."""
    rules = context.rules(candidate)
    if older := _older_claims(context, candidate, rules):
        claims = older_claims_phrase(context.cluster, candidate, older, numbers)
        return Reason(ReasonCode.OLDER_CLAIM, f"{where}; {claims}", numbers)
    row = context.cluster.rows.known(resource)
    holdings = context.holdings(candidate, GPU_ROW if row is None else row)
    victims = IneligibleVictims(context.cluster, context.policy, rules, context.now_s, holdings)
    partners = victims.of_preemption_cycle()
    if partners:
        numbers["partners"] = partners
        until_s = max(partners.values()) - context.now_s
        sentence = (
            f"it could stop {names_phrase(sorted(partners))}, for which it was stopped itself: "
            f"left as it is for up to {span(until_s)} more, so that they don't stop one another in turn"
        )
        return Reason(ReasonCode.PREEMPTION_CYCLE, sentence, numbers)
    holders = victims.amounts(resource, numbers)
    if holders:
        numbers["held_by"] = {cause: plain_amount(resource, held) for cause, held in holders.items()}
        numbers["resource"] = resource
        sentence = f"{where}; no eligible victims: {amounts_phrase(resource, holders)}"
        return Reason(ReasonCode.NO_ELIGIBLE_VICTIMS, sentence, numbers)
    if victims.any_eligible():
        sentence = f"{where}; eligible victims don't hold enough"
        return Reason(ReasonCode.NO_ELIGIBLE_VICTIMS, sentence, numbers)
    return None


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


def _left_out(
    context: ReasonContext, candidate: Candidate, fitting: Fitting, where: str, numbers: dict[str, object]
) -> Reason:
    """Return the reason of work without a claim on what others hold, or that evictions wouldn't help."""
    job = candidate.job
    claim = quota_shortfall(context.cluster, context.policy, context.rules(candidate), numbers)
    meek = "" if job.can_preempt else "it may not preempt"
    rest = "".join(f"; {each}" for each in (meek, claim) if each)
    if sum(candidate.lacks) > 1 and any(fits for _, fits, _ in fitting):
        parts = ", ".join(f"{fits} of {lack} pods{group_phrase(job, group)}" for group, fits, lack in fitting)
        return Reason(ReasonCode.GANG_INCOMPLETE, f"only {parts} fit now: {where}{rest}", numbers)
    return Reason(ReasonCode.INSUFFICIENT_CAPACITY, f"insufficient capacity: {where}{rest}", numbers)
