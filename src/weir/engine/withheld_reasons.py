"""Reasons of work that fits free capacity and may not use it, or not all of it at once."""

from weir.engine.infeasible_gang import best_domain, domain_name
from weir.engine.queue_order import Candidate
from weir.engine.quota_shortfall import quota_shortfall
from weir.engine.reason_context import ReasonContext
from weir.model.reasons import Reason, ReasonCode
from weir.model.resources import GPU, plain_amount, span, written


def withheld_reason(context: ReasonContext, candidate: Candidate, numbers: dict[str, object]) -> Reason:
    """Return why work may not use the capacity that it fits, or not at once. Adds to `numbers`."""
    job, placement = candidate.job, context.allocator.placement
    shut = placement.models_shut(candidate)
    if shut:
        models = ", ".join(sorted(shut))
        fixed = not job.preemptible
        why = ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA if fixed else ReasonCode.OVER_LIMIT
        what = "quota for non-preemptible work" if fixed else "limit"
        numbers["models"] = sorted(shut)
        return Reason(
            why,
            f"the free GPUs are {models}, and its queues are at their {what} for these models",
            numbers,
        )
    if placement.open_to(candidate) is not None:
        return Reason(
            ReasonCode.CAPACITY_RESERVED,
            "the free capacity is reserved for work that has waited longer",
            numbers,
        )
    refusal = context.checks.refusal(candidate, context.capacity)
    if refusal is not None:
        amounts = {"free": refusal.have, "kept": refusal.most, "want": refusal.want}
        numbers.update((name, plain_amount(GPU, amount)) for name, amount in amounts.items())
        sentence = (
            f"it would go over quota, and of {written('gpu', refusal.have)} free GPUs "
            f"{written('gpu', refusal.most)} are kept for owners"
        )
        return Reason(ReasonCode.CAPACITY_RESERVED, sentence, numbers)
    topology = job.topology
    scattered = placement.may_scatter(job, candidate.lacks)
    if topology is not None and topology.preferred is not None and not scattered:
        until_s = context.policy.topology.patience - (context.now_s - job.waits_since_s)
        sentence = (
            f"it would fit only scattered and waits up to {span(until_s)} more for one {topology.preferred}"
        )
        return Reason(ReasonCode.CAPACITY_RESERVED, sentence, numbers)
    return _not_together(context, candidate, numbers)


def _not_together(context: ReasonContext, candidate: Candidate, numbers: dict[str, object]) -> Reason:
    """Return the reason of a gang each of whose pods fits now, but not all of them at once."""
    job, cluster = candidate.job, context.cluster
    topology = job.topology
    claim = quota_shortfall(cluster, context.policy, context.rules(candidate), numbers)
    rest = f"; {claim}" if claim else ""
    if topology is None or topology.required is None:
        return Reason(
            ReasonCode.GANG_INCOMPLETE,
            f"each of its pods fits, but not all of them at once{rest}",
            numbers,
        )
    depth = cluster.topologies[topology.name].levels.index(topology.required)
    level = context.feasibility.levels(topology.name)[depth]
    runs_in = {int(level.of[pod.node]) for pod in job.running_pods()} - {-1}
    needs = context.lacking(candidate)
    pods = sum(lack for _, _, lack in needs)
    numbers.update(level=topology.required, pods=pods)
    if runs_in:
        names = " and ".join(domain_name(cluster, level, domain) for domain in sorted(runs_in))
        those = "one more pod" if pods == 1 else f"{pods} more pods"
        sentence = f"its pods share one {topology.required} and run in {names}, which can't take {those}"
        return Reason(ReasonCode.GANG_INCOMPLETE, f"{sentence}{rest}", numbers)
    best = best_domain(
        cluster, context.cache, context.capacity, level, needs, context.feasibility.affinity(job)
    )
    numbers.update(best=best.name, fitting_there=best.pods)
    sentence = (
        f"no {topology.required} has capacity for all {pods} pods that have to share one: "
        f"the best, {best.name}, takes {best.pods} now"
    )
    return Reason(ReasonCode.GANG_INCOMPLETE, f"{sentence}{rest}", numbers)
