"""Claims of a pending workload on capacity that others hold, or the cause why it has none."""

from weir.engine.allocation.allocate import Allocator
from weir.engine.order.queue_order import Candidate
from weir.engine.placement.feasibility_cache import FeasibilityCache
from weir.engine.protection.preemption_rules import PreemptionRules, effective_priority, lowest_priority
from weir.engine.refusals.refusals import QuotaShortfall
from weir.engine.refusals.shortage_refusals import NoClaim, OlderClaims
from weir.engine.usage.quota_overlay import INFINITE
from weir.state.jobs import Job
from weir.state.shapes import GPU_ROW


def no_claim(allocator: Allocator, rules: PreemptionRules) -> NoClaim | OlderClaims | None:
    """Return the cause why a workload may evict nothing; None if it has a claim or lower-priority victims.

    Idle work without protection is open to every request for GPUs.
    """
    job, candidate = rules.job, rules.candidate
    if not job.can_preempt:
        return NoClaim(may_preempt=False, shortfall=None)
    takes_idle = bool(allocator.cluster.unprotected) and candidate.gpu_milli > 0
    if rules.has_claim or takes_idle or _lower_work(allocator, rules):
        return None
    covers = not rules.any_reclaim and allocator.overlay.covers(job.path, candidate.request)
    older = _older_claims(allocator.feasibility, candidate) if covers else []
    if not older:
        return NoClaim(may_preempt=True, shortfall=quota_shortfall(allocator, rules))
    steps = [each.waiting.step.request for each in older if each.waiting is not None]
    claimed = sum(amount for request in steps for row, amount in request if row == GPU_ROW)
    return OlderClaims(job.project, tuple([each.name for each in older]), claimed)


def quota_shortfall(allocator: Allocator, rules: PreemptionRules) -> QuotaShortfall | None:
    """Return the queue whose quota prevents a reclaim; None if it is allowed, or never is."""
    job = rules.job
    if rules.has_claim or not job.can_preempt:
        return None
    over = allocator.checks.shortfall(job, rules.request)
    if over is None:
        return None
    gains_by_waiting = not rules.is_patient and rules.in_share
    claims_s = job.waits_since_s + allocator.policy.reclaim_share_after if gains_by_waiting else None
    return QuotaShortfall(over, claims_s)


def claims_change_s(allocator: Allocator, rules: PreemptionRules) -> float:
    """Return the time at which a workload may gain a claim by waiting; with aging that is at any time."""
    job, policy = rules.job, allocator.policy
    if policy.aging and not job.is_running:
        return allocator.now_s
    if rules.depends_on_share and not rules.is_patient:
        return job.waits_since_s + policy.reclaim_share_after
    return INFINITE


def _lower_work(allocator: Allocator, rules: PreemptionRules) -> bool:
    """Return True if preemptible work of lower priority runs in the project of a workload."""
    job, policy = rules.job, allocator.policy
    if not policy.aging:
        return lowest_priority(allocator.cluster, policy, job.project) < job.priority
    own = effective_priority(job, policy, allocator.now_s)
    return any(priority < own for priority in _own_priorities(allocator, rules))


def _own_priorities(allocator: Allocator, rules: PreemptionRules) -> list[float]:
    """Return the priorities of the preemptible work in the project of a workload."""
    others = allocator.cluster.running.get(rules.job.project, {}).values()
    return [
        effective_priority(other, allocator.policy, allocator.now_s)
        for other in others
        if other.preemptible and other is not rules.job
    ]


def _older_claims(feasibility: FeasibilityCache, candidate: Candidate) -> list[Job]:
    """Return the workloads that claim the project's quota before a candidate, in the order of the project."""
    own = candidate.of.line_key(candidate.at)
    claims = [
        (of.line_key(at), of.members[at][2])
        for of, count in feasibility.owners(candidate.job.project).items()
        for at in range(count)
        if of.line_key(at) < own
    ]
    return [job for _, job in sorted(claims, key=lambda claim: claim[0])]
