"""Price of stopping a pod or a workload, in device seconds, and the tier of a victim before it."""

from collections.abc import Sequence
from math import log

from weir.engine.protection.preemption_rules import PreemptionRules
from weir.engine.victims.preemption_context import PreemptionContext
from weir.engine.victims.victim_sets import ANY_PROJECT, Tier
from weir.model.policy import PricePolicy
from weir.model.workloads import WHOLE_MILLI
from weir.state.jobs import Job, Pod, devices_of_charge
from weir.state.shapes import GPU_ROW


def devices_of(pods: Sequence[Pod]) -> float:
    """Return the number of devices of these pods; a fraction of a device counts as that fraction."""
    return sum([pod.gpu_milli() for pod in pods]) / WHOLE_MILLI


def lost_work(job: Job, devices: float, policy: PricePolicy, now_s: float) -> float:
    """Return the work on these devices since a job's last checkpoint, and its restart, in device seconds."""
    return devices * max(0.0, now_s - job.since_s) + restart_cost(job, policy)


def restart_cost(job: Job, policy: PricePolicy) -> float:
    """Return the device seconds of a restart: the workload's own value, or else the policy's."""
    return policy.restart if job.restart_s is None else job.restart_s


def price(job: Job, pods: Sequence[Pod], policy: PricePolicy, now_s: float, needed: float) -> float:
    """Return the price of stopping these pods: lost work and a restart, less a credit for size.

    The credit prefers one larger victim to many small ones: the rest of its capacity saves later evictions.
    The credit counts the devices on the node where the victim has most. Of a gang at most the `needed`
    devices count: otherwise a gang would be stopped for a single pod.
    """
    is_all = len(pods) == len(job.running_pods())
    devices, most = job.devices_held() if is_all else _held(pods)
    credited = most if len(pods) == 1 else min(most, needed)
    credit = policy.size_credit * log(credited) if credited > 1.0 else 0.0
    return lost_work(job, devices, policy, now_s) - credit


def price_of_move(job: Job, pods: Sequence[Pod], policy: PricePolicy, now_s: float) -> float:
    """Return the price of moving these pods; a broken gang restarts completely."""
    is_all = len(pods) == len(job.running_pods())  # the usual case: all running pods move
    devices = job.devices_held()[0] if is_all or _breaks(job, pods) else devices_of(pods)
    return lost_work(job, devices, policy, now_s)


def _breaks(job: Job, pods: Sequence[Pod]) -> bool:
    """Return True if the gang is incomplete without these pods."""
    left = list(job.placed)
    for pod in pods:
        left[pod.group] -= 1
    return any(have < need for have, need in zip(left, job.needed, strict=True))


def _held(pods: Sequence[Pod]) -> tuple[float, float]:
    """Return the devices of these pods, and the maximum on one node."""
    if len(pods) == 1:
        devices = devices_of(pods)
        return devices, devices
    on_node: dict[int, list[Pod]] = {}
    for pod in pods:
        on_node.setdefault(pod.node, []).append(pod)
    return devices_of(pods), max((devices_of(some) for some in on_node.values()), default=0.0)


class VictimTiers:
    """Order of victims: their tier, which compares first, and their price."""

    def __init__(self, context: PreemptionContext, rules: PreemptionRules) -> None:
        self._policy = context.policy
        self._overlay = context.accounting.overlay
        self._now_s = context.now_s
        self._rules = rules
        charge = sum(amount for row, amount in rules.request if row == GPU_ROW)
        self._needed = devices_of_charge(rules.job, charge) / WHOLE_MILLI  # devices

    def price(self, job: Job, pods: Sequence[Pod], nodes_needed: int) -> float:
        """Return the price of pods of a workload; for a gang, the price per needed node that it frees."""
        cost = price(job, pods, self._policy.price, self._now_s, self._needed)
        if len(pods) == 1:
            return cost
        return cost / max(1, min(nodes_needed, len({pod.node for pod in pods})))

    def tier(self, job: Job, pods: Sequence[Pod], minimum: int) -> Tier:
        """Return the tier of a victim, which compares before the price.

        `minimum` is 1 for the pods that a workload can't run without, and 0 for an elastic pod. For a replica
        of a service it is negative: the more replicas above the minimum the service has, the lower.
        """
        own = job.project
        first = (
            -1
            if job.spec.overrun or job.spec.unprotected
            else int(self._rules.protections.protection_of(job.path))
        )
        if self._policy.victim_policy == "lowest_cost":
            return (first, (), ANY_PROJECT, job.priority, minimum)
        return (first, self.giving(own), own, job.priority, minimum, self._pushes_below(own, pods))

    def giving(self, project: int) -> tuple[object, ...]:
        """Return the order in which projects lose capacity, level by level; smaller first."""
        if project == ANY_PROJECT:
            return ()
        return tuple(self._overlay.giving_key(queue) for queue in self._overlay.ledger.path[project])

    def _pushes_below(self, queue: int, pods: Sequence[Pod]) -> bool:
        """Return True if a queue would fall below its fair share without these pods."""
        overlay = self._overlay
        asked = {row for row, amount in self._rules.request if amount}
        used, share = overlay.used[queue], overlay.share[queue]
        return any(
            used[row] - sum(amount for pod in pods for pod_row, amount in pod.amounts if pod_row == row)
            < share[row] - 1e-6
            for row, _ in overlay.ledger.bounded[queue]
            if row in asked
        )
