"""Protection of running workloads by rules and budgets: the same for preemption and for its reasons."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from weir.engine.protection.preemption_rules import PreemptionRules, cycle_ends_s, is_past_min_runtime
from weir.engine.refusals.holder_phrases import Protection
from weir.model.policy import Policy
from weir.state.budgets import Budget
from weir.state.capacity_columns import Bools
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod


class DisruptionAllowances:
    """Allowances of disruption budgets in one cycle. Without budgets a check costs almost nothing."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self._rules = policy.budgets
        self._now_s = now_s
        self._refused = cluster.refused
        self._used: dict[Budget, int] = {}
        self.log: list[tuple[Budget, int]] = []  # budgets used (1) and restored (-1)
        self.any = bool(cluster.budgets or cluster.refused)

    def allows(self, pods: Sequence[Pod], *, overrides: bool = False) -> bool:
        """Return True if all these pods may be evicted at once.

        `overrides`: ignore budgets whose protection of work over quota has ended. Pods whose stop was refused
        a moment ago stay in any case.
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

    def use(self, pods: Iterable[Pod], sign: int = 1) -> None:
        """Count pods as stopped (sign -1: as not stopped)."""
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


class VictimProtections:
    """Protections of running workloads in one state."""

    def __init__(self, policy: Policy, now_s: float, disruptions: DisruptionAllowances) -> None:
        self._policy = policy
        self._now_s = now_s
        self._disruptions = disruptions
        self._evictable: dict[bool, tuple[Bools, Bools]] = {}

    def protection_of(self, job: Job, rules: PreemptionRules) -> Protection | None:
        """Return the protection of a workload from a requester; None if some of its pods may be evicted."""
        if not job.preemptible:
            return Protection.BUDGETS if job.spec.protected else Protection.FIXED
        if rules.rule_for(job) is None:
            return of_queue(rules, job.path)
        if cycle_ends_s(rules, job.name) is not None:
            return Protection.CYCLE
        if not is_past_min_runtime(job, self._policy, self._now_s):
            return Protection.MIN_RUNTIME
        protected = protected_pods(job, self._disruptions)
        if not protected or len(protected) < len(job.running_pods()):
            return None
        return Protection.BUDGETS if self._disruptions.blocking(protected) else Protection.REFUSED

    def open_to(self, rules: PreemptionRules, jobs: list[Job]) -> list[Job]:
        """Return the workloads protected by neither a preemption cycle nor their minimum run time."""
        if self._policy.min_runtime.any:
            jobs = [job for job in jobs if is_past_min_runtime(job, self._policy, self._now_s)]
        if rules.job.stopped_for:
            jobs = [job for job in jobs if cycle_ends_s(rules, job.name) is None]
        return jobs

    def evictable(self, cluster: Cluster, *, overrides: bool) -> tuple[Bools, Bools]:
        """Return masks of the running pods, by row, that may be stopped and that may be moved.

        They hold for all requesters of a cycle: plans only use up allowances. `overrides` is as in `allows`.
        """
        if overrides not in self._evictable:
            may_stop, may_move = np.ones((2, len(cluster.running_pods.node)), np.bool_)
            self._evictable[overrides] = may_stop, may_move
            has_minimum, allows = self._policy.min_runtime.any, self._disruptions.allows
            running = cluster.running.values() if has_minimum or self._disruptions.any else ()
            for job in [job for jobs in running for job in jobs.values()]:
                pods = job.running_pods()
                if has_minimum and not is_past_min_runtime(job, self._policy, self._now_s):
                    rows = [pod.row for pod in pods]
                    may_stop[rows] = may_move[rows] = False
                elif not allows(pods, overrides=overrides):
                    for pod in pods:  # a workload that needs them all is stopped as a whole
                        may_stop[pod.row] = _has_spare(job) and allows((pod,), overrides=overrides)
                        may_move[pod.row] = allows((pod,))
        return self._evictable[overrides]


def of_queue(rules: PreemptionRules, path: tuple[int, ...]) -> Protection | None:
    """Return the protection of a project's preemptible work; None if the requester may evict some of it."""
    if path == rules.path:
        return Protection.PRIORITY
    if rules.may_ask(path):
        return None
    return Protection.QUEUE if rules.has_claim_on(path) else Protection.CLAIM


def protected_pods(job: Job, disruptions: DisruptionAllowances) -> Sequence[Pod]:
    """Return the running pods of a workload that may not be evicted; all if it needs each of them."""
    pods = job.running_pods()
    if not disruptions.any or disruptions.allows(pods):
        return ()
    if not _has_spare(job):
        return pods
    stopped = []
    for pod in pods:
        if disruptions.allows((pod,)):
            disruptions.use((pod,))
            stopped.append(pod)
    disruptions.use(stopped, -1)
    return [pod for pod in pods if pod not in stopped]


def _has_spare(job: Job) -> bool:
    """Return True if a workload runs more pods of a group than it needs."""
    return any(have > need for have, need in zip(job.placed, job.needed, strict=True))
