"""Eviction reasons, as data and as one sentence, with the numbers that the rule compared."""

from dataclasses import replace

from weir.engine.protection.preemption_rules import divergence_level
from weir.engine.refusals.holder_phrases import names_phrase
from weir.engine.usage.quota_overlay import QuotaOverlay
from weir.engine.victims.eviction_price import devices_of, lost_work, restart_cost
from weir.engine.victims.preemption_context import PreemptionPlan
from weir.model.policy import PricePolicy
from weir.model.reasons import EvictionCause, EvictionRule, rule_phrase
from weir.model.resources import GPU, plain_amount, written
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod
from weir.state.shapes import GPU_ROW
from weir.state.usage_history import HOUR_S

_SAME_S = 18.0
"""Difference in device seconds below which two choices cost the same: half a hundredth of a GPU-hour."""
_ROUND_FROM = 10.0
"""GPU-hours from which numbers are shown without decimals."""
_RECLAIM = (EvictionRule.RECLAIM_QUOTA, EvictionRule.RECLAIM_SHARE)


class EvictionReasons:
    """Reasons of the evictions for one workload in one cycle. `choice` is the same for all of them."""

    def __init__(self, cluster: Cluster, overlay: QuotaOverlay, requester: Job, choice: str = "") -> None:
        self._cluster = cluster
        self._overlay = overlay
        self._requester = requester
        self._choice = choice
        self._causes: dict[tuple[EvictionRule, int, int], EvictionCause] = {}

    def reason_of(self, rule: EvictionRule, victim: Job) -> EvictionCause:
        """Return the reason of a victim; one object for all equal victims."""
        key = (rule, victim.project, victim.priority)
        reason = self._causes.get(key)
        if reason is None:
            cause = replace(self._made(rule, victim), choice=self._choice)
            reason = self._causes[key] = cause
        return reason

    def _made(self, rule: EvictionRule, victim: Job) -> EvictionCause:
        by = self._requester.name
        head = f"stopped for {by} ({rule_phrase(rule)})"
        if rule in _RECLAIM:
            return self._by_queues(rule, victim, head)
        if rule is EvictionRule.PREEMPT:
            theirs, own = victim.priority, self._requester.priority
            numbers = {"priority": theirs, "by_priority": own}
            return EvictionCause(rule, by, f"{head}: its priority is {theirs}, that of {by} {own}", numbers)
        return EvictionCause(rule, by, head)

    def _by_queues(self, rule: EvictionRule, victim: Job, head: str) -> EvictionCause:
        """Return the reason with the usage and the quota or share of both queues."""
        ledger, by = self._cluster.ledger, self._requester.name
        path, other = ledger.path[self._requester.project], ledger.path[victim.project]
        level = divergence_level(path, other)
        if level >= min(len(path), len(other)):
            return EvictionCause(rule, by, head)
        noun, bounds = (
            ("quota", ledger.quota) if rule is EvictionRule.RECLAIM_QUOTA else ("share", self._overlay.share)
        )
        (name, have, most), (own, own_have, own_max) = (
            (ledger.queues[queue].name, ledger.allocated[queue][GPU_ROW], int(bounds[queue][GPU_ROW]))
            for queue in (other[level], path[level])
        )
        sentence = (
            f"{head}: {name} holds {written('gpu', have)} GPUs with a {noun} of {written('gpu', most)}, "
            f"{own} {written('gpu', own_have)} with {written('gpu', own_max)}"
        )
        if rule is EvictionRule.RECLAIM_QUOTA and have <= most:
            sentence += ": the quotas exceed the capacity, and the higher priority comes first"
        amounts = {"have": have, noun: most, "by_have": own_have, f"by_{noun}": own_max}
        numbers = {name: plain_amount(GPU, amount) for name, amount in amounts.items()}
        return EvictionCause(rule, by, sentence, {"queue": name, "by_queue": own, **numbers})


def choice_sentence(cluster: Cluster, plan: PreemptionPlan, prices: PricePolicy, now_s: float) -> str:
    """Return the cost of a plan's evictions and of the next choice of victims; empty without evictions."""
    stopped: dict[Job, list[Pod]] = {}
    for pod, _ in plan.stopped:
        stopped.setdefault(pod.job, []).append(pod)
    if not stopped:
        return ""
    lost = sum(lost_work(job, devices_of(pods), prices, now_s) for job, pods in stopped.items())
    subject = "The eviction costs" if len(stopped) == 1 else f"The {len(stopped)} evictions cost"
    restarts = sum(restart_cost(job, prices) for job in stopped)
    cost = f"{subject} {cost_phrase(lost, restarts, len(stopped))}."
    following = plan.runner_up
    if following is None:
        return cost
    named = f"to stop {names_phrase(following.workloads)} instead" if following.workloads else ""
    choice = f"The next choice, {named or 'on ' + cluster.node_names[following.node]},"
    if following.dearer is None:
        return f"{cost} {choice} comes later by quota, fair share or priority."
    if following.dearer < _SAME_S:
        return f"{cost} {choice} costs at least as much."
    return f"{cost} {choice} costs at least {_gpu_hours(following.dearer)} more."


def cost_phrase(lost: float, restarts: float, workloads: int) -> str:
    """Return the cost of stopping workloads: `lost` device seconds, with the restarts among them."""
    checkpoint, restart = ("checkpoint", "restart") if workloads == 1 else ("checkpoints", "restarts")
    work = f"of work since the last {checkpoint}"
    if restarts == 0:
        return f"{_gpu_hours(lost)} {work}"
    return f"{_gpu_hours(lost)}: {_hours(lost - restarts)} {work}, and the rest for the {restart}"


def _gpu_hours(seconds: float) -> str:
    return f"{_hours(seconds)} GPU-hours"


def _hours(seconds: float) -> str:
    hours = seconds / HOUR_S
    return f"{hours:,.0f}" if hours >= _ROUND_FROM else f"{hours:.2f}"
