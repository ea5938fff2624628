"""Tiers and prices of victims for one requester: the order of evictions."""

from collections.abc import Sequence

from weir.engine.protection.preemption_rules import PreemptionRules
from weir.engine.victims.eviction_price import price
from weir.engine.victims.preemption_context import PreemptionContext
from weir.engine.victims.victim_sets import ANY_PROJECT, Tier
from weir.model.workloads import WHOLE_MILLI
from weir.state.jobs import Job, Pod, devices_of_charge
from weir.state.shapes import GPU_ROW


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
        """Return the price of pods of a workload; a gang's is divided by the needed nodes that it frees."""
        cost = price(job, pods, self._policy.price, self._now_s, self._needed)
        if len(pods) == 1:
            return cost
        return cost / max(1, min(nodes_needed, len({pod.node for pod in pods})))

    def tier(self, job: Job, pods: Sequence[Pod], minimum: int) -> Tier:
        """Return the tier of a victim, which compares before the price.

        `minimum` is 1 for what a workload can't run without, 0 for an elastic pod, and for a replica of a
        service less than 0: the more replicas above the minimum it has, the less.
        """
        own = job.project
        first = -1 if job.spec.overrun or job.spec.unprotected else int(self._rules.protections.of(job.path))
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
            used[row] - sum(amount for pod in pods for at, amount in pod.amounts if at == row)
            < share[row] - 1e-6
            for row, _ in overlay.ledger.bounded[queue]
            if row in asked
        )
