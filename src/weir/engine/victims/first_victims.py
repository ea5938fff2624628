"""Victims that are stopped before any capacity is searched: under limits, and large ones for a gang."""

from weir.engine.refusals.refusals import QuotaRefusal
from weir.engine.victims.eviction_price import devices_of
from weir.engine.victims.victim_candidates import VictimCandidates
from weir.engine.victims.victim_sets import Tier, Victim
from weir.model.reasons import EvictionRule
from weir.state.jobs import Job

_FIRSTS_MOST = 4
"""Large victims with which a failed gang search is repeated."""


def first_under_limit(
    candidates: VictimCandidates, over: QuotaRefusal
) -> list[tuple[Victim, EvictionRule]] | None:
    """Return the first victim that frees the amount a limit is short of; None without one.

    With it goes the rest of its workload, if the workload can't run without it.
    """
    best: tuple[Tier, Victim, EvictionRule] | None = None
    for job in candidates.jobs:
        if over.queue in job.path:
            for victim in candidates.victims_of(job, candidates.running(job)):
                rule = candidates.order.rule(victim)
                key = (*victim.tier, victim.price, victim.younger)
                if (
                    rule is not None
                    and not victim.moves  # a moved workload stays under the limit
                    and (best is None or key < best[0])
                    and any(row == over.row for pod in victim.pods for row, _ in pod.amounts)
                ):
                    best = (key, victim, rule)
    if best is None:
        return None
    _, first, rule = best
    if not first.whole:
        return [(first, rule)]
    return [(one, rule) for one in candidates.victims_of(first.job, candidates.running(first.job))]


def largest_victims(candidates: VictimCandidates) -> list[Job]:
    """Return workloads that each free capacity for several pods of a gang, the largest first.

    Of its queue smaller ones may go first until it is over no more, and leave the gang without.
    """
    pods = candidates.rules.candidate.pods().values()
    each = max((pod.shape.devices for some in pods for pod in some), default=0)
    sizes = {
        job: devices_of(candidates.running(job))
        for job, only_moves in candidates.jobs.items()
        if not only_moves
    }
    large = [job for job, devices in sizes.items() if devices > each]
    large.sort(key=lambda job: (-sizes[job], -job.submitted_s, job.name))
    return large[:_FIRSTS_MOST]
