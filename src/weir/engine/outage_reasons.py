"""Reasons of work that would run into an outage: a maintenance window, or a drain at a time."""

from weir.engine.outages import NodeOutage, OutageRules
from weir.engine.queue_order import Candidate
from weir.engine.reason_context import ReasonContext
from weir.model.nodes import Outage
from weir.model.reasons import Reason, ReasonCode
from weir.model.resources import span
from weir.state.jobs import Job


def outage_reason(context: ReasonContext, candidate: Candidate, *, fits: bool) -> Reason | None:
    """Return why an outage keeps work waiting; None if none does.

    `fits` is True if each of its pods fits the capacity that is free, in service or not.
    """
    placement, job = context.allocator.placement, candidate.job
    outages = placement.outages
    barring = outages.barring(job) if outages else []
    if not barring or not (fits or _all_out_of_service(context, barring)):
        return None
    depth = context.capacity.begin()
    try:
        if fits and placement.place(candidate, context.allocator.placer) is not None:
            return None
    finally:
        context.capacity.rollback_to(depth)
    first = min(barring, key=lambda each: (each.outage.until_s or float("inf"), each.outage.from_s))
    return _reason(context, job, first, outages)


def _all_out_of_service(context: ReasonContext, barring: list[NodeOutage]) -> bool:
    """Return True if every node is wholly out of service now."""
    whole = {
        each.node for each in barring if each.outage.devices is None and each.outage.from_s <= context.now_s
    }
    return all(at in whole for at, node in enumerate(context.cluster.nodes) if node is not None)


def _reason(context: ReasonContext, job: Job, first: NodeOutage, outages: OutageRules) -> Reason:
    outage, node, now_s = first.outage, context.cluster.node_names[first.node], context.now_s
    numbers: dict[str, object] = {"node": node, "from_s": outage.from_s}
    if outage.devices is not None:
        numbers["gpus"] = list(outage.devices)
    if outage.until_s is not None:
        numbers["until_s"] = outage.until_s
    what = f"{_which(outage, node)}: {outage.sentence}"
    left_s = outage.from_s - now_s
    if left_s <= 0:
        return Reason(ReasonCode.MAINTENANCE, f"{what}{_after(outage, now_s)}", numbers)
    longest_s = outages.longest_run_s(job)
    numbers["left_s"] = left_s
    if longest_s is not None:
        numbers["max_runtime_s"] = longest_s
        why = f"it may run {span(longest_s)}, and that begins in {span(left_s)}"
    elif job.preemptible and not outage.keeps_running:
        why = f"that begins in {span(left_s)}, too soon to start it before"
    else:
        why = f"that begins in {span(left_s)}, and it has no longest run (--max-runtime) that ends before"
    return Reason(ReasonCode.MAINTENANCE, f"{what}; {why}{_after(outage, now_s)}", numbers)


def _which(outage: Outage, node: str) -> str:
    if outage.devices is None:
        return f"node {node} goes out of service"
    indices = ", ".join([str(device) for device in outage.devices])
    return f"GPU{'' if len(outage.devices) == 1 else 's'} {indices} of {node} go{_es(outage)} out of service"


def _es(outage: Outage) -> str:
    return "es" if outage.devices is not None and len(outage.devices) == 1 else ""


def _after(outage: Outage, now_s: float) -> str:
    if outage.until_s is None:
        return ""
    return f"; it could start after the end, in {span(outage.until_s - now_s)}"
