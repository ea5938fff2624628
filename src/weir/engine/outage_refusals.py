"""Refusals of work that would run into an outage: a maintenance window, or a drain at a time."""

from weir.engine.outages import NodeOutage
from weir.engine.queue_order import Candidate
from weir.engine.reason_context import ReasonContext
from weir.engine.refusals import OutageRefusal


def outage_refusal(context: ReasonContext, candidate: Candidate, *, fits: bool) -> OutageRefusal | None:
    """Return the outage that keeps a workload waiting; None if none does.

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
    return OutageRefusal(
        context.cluster.node_names[first.node],
        first.outage,
        outages.longest_run_s(job),
        job.preemptible and not first.outage.keeps_running,
    )


def _all_out_of_service(context: ReasonContext, barring: list[NodeOutage]) -> bool:
    """Return True if every node is wholly out of service now."""
    whole = {
        each.node for each in barring if each.outage.devices is None and each.outage.from_s <= context.now_s
    }
    return all(at in whole for at, node in enumerate(context.cluster.nodes) if node is not None)
