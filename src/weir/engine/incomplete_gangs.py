"""Incomplete gangs: stop those that have run below their minimum for too long."""

from collections import Counter
from collections.abc import Iterator

from weir.engine.plan import Eviction, Plan, key_of
from weir.engine.transaction import Accounting
from weir.model.policy import Policy
from weir.model.reasons import EvictionCause, EvictionRule
from weir.state.cluster import Cluster
from weir.state.jobs import Job


class IncompleteGangs:
    """Gangs that run below their minimum at one time."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float) -> None:
        self._cluster = cluster
        self._grace_s = policy.gang_grace
        self._now_s = now_s

    def times_s(self) -> list[float]:
        """Return the times at which they are evicted."""
        return [self._grace_ends_s(job) for job in self._cluster.incomplete.values()]

    def stop(self, plan: Plan, accounting: Accounting) -> None:
        """Add the evictions of gangs that the plan doesn't complete, and release their nominations."""
        for job in self._late(plan):
            if job.name in self._cluster.nominated and job.name not in plan.drops:
                plan.drops.append(job.name)
            needed, running = sum(job.needed), job.running_pods()
            sentence = f"it ran with {len(running)} of its {needed} required pods for too long"
            cause = EvictionCause(EvictionRule.GANG_BROKEN, None, sentence, {"needed": needed})
            for pod in running:
                if pod not in accounting.leaving and accounting.disruptions.allows((pod,)):
                    accounting.stop((pod,))
                    plan.evictions.append(Eviction(key_of(pod), cause))

    def _late(self, plan: Plan) -> Iterator[Job]:
        """Yield gangs that are still incomplete after their grace."""
        incomplete = self._cluster.incomplete
        late = sorted(name for name, job in incomplete.items() if self._grace_ends_s(job) <= self._now_s)
        if not late:
            return
        places = [*plan.binds, *(place for nominated in plan.nominations for place in nominated.places)]
        coming = Counter((place.pod.workload, place.pod.group) for place in places)
        for name in late:
            missing = enumerate(incomplete[name].lacks())
            if any(pods > coming[name, group] for group, pods in missing):
                yield incomplete[name]

    def _grace_ends_s(self, job: Job) -> float:
        since_s = self._now_s if job.below_since_s is None else job.below_since_s
        return since_s + self._grace_s
