"""Disruption allowances of one cycle, less the planned and tried evictions."""

from collections import Counter
from collections.abc import Iterable, Sequence

from weir.model.policy import Policy
from weir.state.budgets import Budget
from weir.state.cluster import Cluster
from weir.state.jobs import Pod


class DisruptionAllowances:
    """Allowances of one cycle. Without budgets every check is one test."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self._rules = policy.budgets
        self._now_s = now_s
        self._refused = cluster.refused
        self._used: dict[Budget, int] = {}
        self.log: list[tuple[Budget, int]] = []  # budgets used (1) and restored (-1)
        self.any = bool(cluster.budgets or cluster.refused)

    def allows(self, pods: Sequence[Pod], *, overrides: bool = False) -> bool:
        """Return True if all these pods may be evicted at once.

        `overrides`: ignore budgets that protect nothing over quota any more. Pods whose stop was refused a
        moment ago stay in any case.
        """
        if not self.any:
            return True
        if self._refused and any(self.was_refused(pod) for pod in pods):
            return False
        if overrides:
            if self._rules.borrowed == "override":
                return True
            pods = [pod for pod in pods if not pod.job.spec.lapsed]
        if len(pods) == 1:
            return all(self.left(budget) > 0 for budget in pods[0].budgets)
        return not self.blocking(pods)

    def left(self, budget: Budget) -> int:
        """Return how many more pods of a budget may be stopped."""
        return budget.allowed - self._used.get(budget, 0)

    def use(self, pods: Iterable[Pod]) -> None:
        """Count pods as stopped."""
        self._count(pods, 1)

    def restore(self, pods: Iterable[Pod]) -> None:
        """Count pods as not stopped."""
        self._count(pods, -1)

    def _count(self, pods: Iterable[Pod], sign: int) -> None:
        if self.any:
            for pod in pods:
                for budget in pod.budgets:
                    self._used[budget] = self._used.get(budget, 0) + sign
                    self.log.append((budget, sign))

    def rollback(self, position: int) -> None:
        """Restore the allowances at a position of the log."""
        while len(self.log) > position:
            budget, sign = self.log.pop()
            self._used[budget] -= sign

    def blocking(self, pods: Iterable[Pod]) -> list[str]:
        """Return the names of the budgets that forbid to evict these pods at once."""
        wanted = Counter([budget for pod in pods for budget in pod.budgets])
        return sorted(budget.name for budget, number in wanted.items() if self.left(budget) < number)

    def ends_s(self) -> list[float]:
        """Return the times at which a refused eviction may be tried again."""
        return [at_s + self._rules.retry for at_s in self._refused.values()]

    def was_refused(self, pod: Pod) -> bool:
        """Return True if a stop of this pod was refused a moment ago."""
        at_s = self._refused.get(pod)
        return at_s is not None and self._now_s < at_s + self._rules.retry
