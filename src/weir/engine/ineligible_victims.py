"""Running work that a pending workload may not evict, for its pending reason."""

from collections import Counter
from collections.abc import Mapping, Sequence

from weir.engine.budget_protection import MAX_BUDGETS, BudgetProtection
from weir.engine.disruption_allowances import DisruptionAllowances
from weir.engine.infeasible import amount_phrase
from weir.engine.preemption_rules import PreemptionRules, divergence_level, is_past_min_runtime
from weir.model.policy import Policy
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI
from weir.state.cluster import Cluster
from weir.state.jobs import Job

_NAMED_MOST = 4


class IneligibleVictims:
    """Holders of capacity from the view of one requester."""

    def __init__(self, cluster: Cluster, policy: Policy, rules: PreemptionRules, now_s: float) -> None:
        self._cluster = cluster
        self._policy = policy
        self._rules = rules
        self._job = rules.job
        self._now_s = now_s

    def any_eligible(self) -> bool:
        """Return True if the requester may reclaim from any running project."""
        rules = self._rules
        if not rules.any_reclaim or not self._job.can_preempt:
            return False
        for project, running in self._cluster.running.items():
            path = self._cluster.ledger.path[project]
            level = divergence_level(rules.path, path)
            if running and level < len(rules.path) and rules.rule_from(level, path[level]) is not None:
                return True
        return False

    def of_preemption_cycle(self) -> dict[str, float]:
        """Return victims excluded because they stopped the requester, with the time the exclusion ends."""
        found: dict[str, float] = {}
        for name, at_s in self._job.stopped_for.items() if self._job.can_preempt else ():
            other, until_s = self._cluster.jobs.get(name), at_s + self._policy.reserve_after
            if (
                other is not None
                and until_s > self._now_s
                and other.running_pods()
                and other.preemptible
                and is_past_min_runtime(other, self._policy, self._now_s)
                and (other.project == self._job.project or self._rules.any_reclaim)
                and self._rules.rule_for(other) is not None
            ):
                found[name] = until_s
        return found

    def amounts(self, resource: str, numbers: dict[str, object]) -> dict[str, int]:
        """Return the amounts of a resource that they hold, by cause; empty if the requester can't reclaim.

        Budgets that protect some of it are added to `numbers`.
        """
        row = self._cluster.rows.known(resource)
        if not self._rules.any_reclaim or row is None or not self._job.can_preempt:
            return {}
        held: Counter[str] = Counter()
        protected = BudgetProtection(DisruptionAllowances(self._cluster, self._policy, self._now_s), row)
        for project, running in self._cluster.running.items():
            for other in running.values():
                units = sum(amount for pod in other.running_pods() for at, amount in pod.amounts if at == row)
                cause = self._cause(other, project)
                if not cause or (not other.preemptible and other.spec.project != self._job.spec.project):
                    units -= protected.add(other)
                held[cause] += units
        if protected.names:
            numbers["budgets"] = protected.names[:MAX_BUDGETS]
        amounts = (*protected.holders().items(), *held.items())
        return {cause: units for cause, units in amounts if units and cause}

    def _cause(self, other: Job, project: int) -> str:
        """Return why a running workload isn't eligible; empty if it is."""
        path, name = self._cluster.ledger.path[project], self._cluster.ledger.queues[project].name
        if not other.preemptible:
            return f"non-preemptible work of {name}"
        if project == self._job.project:
            return "" if other.priority < self._job.priority else "its own project at no lower priority"
        level = divergence_level(self._rules.path, path)
        if self._rules.rule_from(level, path[level]) is None:
            return f"{name}, which is not over what it may hold"
        if not is_past_min_runtime(other, self._policy, self._now_s):
            return f"work of {name} within its minimum run time"
        return ""


def amounts_phrase(resource: str, holders: Mapping[str, int]) -> str:
    """Return the amounts by holder as a part of a sentence, the largest first."""
    ordered = sorted(holders.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(
        f"{amount_phrase(resource, units)} {'is' if units == WHOLE_MILLI else 'are'} held by {holder}"
        if resource == GPU
        else f"{amount_phrase(resource, units)} held by {holder}"
        for holder, units in ordered[:_NAMED_MOST]
    )


def names_phrase(names: Sequence[str]) -> str:
    """Return a few of these names and the number of the others."""
    more = len(names) - _NAMED_MOST
    return ", ".join(names[:_NAMED_MOST]) + (f" and {more} more" if more > 0 else "")
