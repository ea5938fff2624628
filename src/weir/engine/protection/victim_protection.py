"""Protection of running workloads from a requester: one answer for preemption and for its reasons."""

from collections.abc import Sequence

from weir.engine.protection.disruption_allowances import DisruptionAllowances
from weir.engine.protection.preemption_rules import PreemptionRules, cycle_ends_s, is_past_min_runtime
from weir.engine.refusals.holder_phrases import Protection
from weir.model.policy import Policy
from weir.state.jobs import Job, Pod


class VictimProtections:
    """Protections of running workloads in one state."""

    def __init__(self, policy: Policy, now_s: float, disruptions: DisruptionAllowances) -> None:
        self._policy = policy
        self._now_s = now_s
        self._disruptions = disruptions

    def of(self, job: Job, rules: PreemptionRules) -> Protection | None:
        """Return the protection of a workload from a requester; None if any of its pods may be evicted."""
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
    if not any(have > need for have, need in zip(job.placed, job.needed, strict=True)):
        return pods
    stopped = []
    for pod in pods:
        if disruptions.allows((pod,)):
            disruptions.use((pod,))
            stopped.append(pod)
    disruptions.restore(stopped)
    return [pod for pod in pods if pod not in stopped]
