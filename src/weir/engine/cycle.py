"""The cycle: every step of one decision, in order.

1. Bind pods whose nominated capacity is free. Choose other victims after refused evictions.
2. Allocate free capacity to pending workloads, in order.
3. Clear one domain by moves for each gang that step 2 would scatter, if the moves are cheap enough.
4. Preempt for workloads that passed their quota checks and found no capacity: consolidate, reclaim, preempt.
5. Swap: a workload over quota that has just checkpointed gives way to a clearly better pending one.
6. Repack, if it is enabled and no pod is being evicted or waits for nominated capacity.
7. Stop gangs that have run below their minimum for too long.

The plan carries the refusal of every class of workloads that stays pending.
"""

from weir.engine.allocation.allocate import allocate, new_allocator
from weir.engine.allocation.nominations import Nominations
from weir.engine.cache import EngineCache
from weir.engine.explanation.pending_refusals import PendingRefusals
from weir.engine.incomplete_gangs import IncompleteGangs
from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.plan import Eviction, NominatedPods, Plan, assert_accounted, key_of
from weir.engine.preemption.eviction_reasons import EvictionReasons, choice_sentence
from weir.engine.preemption.preemption import Preemptor
from weir.engine.protection.preemption_rules import PreemptionKind
from weir.engine.replacement.repack import RepackPlanner
from weir.engine.replacement.swap import SwapPlanner
from weir.engine.victims.preemption_context import PreemptionPlan
from weir.model.policy import Policy
from weir.model.reasons import EvictionRule
from weir.state.cluster import Cluster
from weir.state.events import Placement
from weir.state.jobs import Job


def decide(cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Plan:
    """Decide on a plan for this moment. `cache` only saves time: an empty one gives the same plan."""
    try:
        return Cycle(cluster, policy, now_s, cache).run()
    except BaseException:
        cache.clear()  # an exception may have separated capacity from accounting
        raise


class Cycle:
    """State of one decision while the cycle runs."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> None:
        self._cluster = cluster
        self._policy = policy
        self._now_s = now_s
        self._cache = cache
        self._allocator = allocator = new_allocator(cluster, policy, now_s, cache)
        self._overlay = allocator.overlay
        self._accounting = allocator.transaction.accounting
        self._nominations = Nominations(allocator)
        self._gangs = IncompleteGangs(cluster, policy, now_s)
        self._plan = Plan()
        self._nominated_at: dict[str, int] = {}  # positions of nominations in the plan

    def run(self) -> Plan:
        """Run all steps and return the plan."""
        plan = self._run_steps()
        assert_accounted(self._cluster, self._overlay, plan)
        return plan

    def _run_steps(self) -> Plan:
        self._bind_nominated()  # 1
        self._plan.refusals = PendingRefusals(
            self._cluster, self._policy, self._now_s, self._cache, self._allocator
        )
        if self._cluster.withdrawn and self._retry_refused():
            return self._continued_at_once()
        unchanged = self._cache.is_unchanged(self._cluster, self._now_s)
        if not unchanged:
            for placements in allocate(self._allocator):  # 2
                self._bind(placements)
        if self._preempt():  # 3, 4
            return self._continued_at_once()
        self._swap()  # 5
        self._repack()  # 6
        self._gangs.stop(self._plan, self._accounting)  # 7
        if self._plan.drops:  # released nominations: their workloads are pending from now on
            return self._continued_at_once()
        self._plan.wake_s = self._cache.wake_s() if unchanged else self._wakes_s()
        self._cache.keep(self._cluster, self._plan)
        return self._plan

    def _place(self, placement: NodePlacement) -> Placement:
        return Placement(key_of(placement.pod), self._cluster.node_names[placement.node], placement.devices)

    def _bind(self, placements: list[NodePlacement]) -> None:
        self._accounting.expect(placement.pod.job.name for placement in placements)
        self._plan.binds += [self._place(placement) for placement in placements]

    def _nominate(self, name: str, placements: list[NodePlacement], freed_by: tuple[str, ...] = ()) -> None:
        self._accounting.expect((name,))
        places = tuple([self._place(placement) for placement in placements])
        before = self._nominated_at.setdefault(name, len(self._plan.nominations))
        if before == len(self._plan.nominations):
            self._plan.nominations.append(NominatedPods(name, places, freed_by))
            return
        first = self._plan.nominations[before]  # an elastic workload grows by several pods in one plan
        freed_by = tuple(dict.fromkeys((*first.freed_by, *freed_by)))
        self._plan.nominations[before] = NominatedPods(name, (*first.places, *places), freed_by)

    def _bind_nominated(self) -> None:
        outages = self._allocator.placement.outages
        for name, placements in self._nominations.ended():
            if placements is not None and not outages.conflicts(self._cluster.jobs[name], placements):
                self._bind(placements)
            else:
                self._plan.drops.append(name)
        self._plan.blocked = self._nominations.blocked

    def _retry_refused(self) -> bool:
        """Choose other victims after refused evictions; all other steps wait for the next cycle."""
        for candidate, plan in Preemptor(self._allocator).retry_refused():
            self._add(candidate.job, plan)
        return bool(self._plan.nominations)

    def _continued_at_once(self) -> Plan:
        """Return the plan so far; the next cycle follows at once."""
        self._plan.wake_s = self._now_s
        self._cache.keep(self._cluster, self._plan)
        return self._plan

    def _preempt(self) -> bool:
        """Free capacity for workloads; return True if some workloads are left for the next cycle."""
        preemptor = Preemptor(self._allocator)
        for candidate, plan in preemptor.gather():
            if plan.kind is None:
                self._bind(plan.placements)
            else:
                self._add(candidate.job, plan)
        for candidate, plan in preemptor.preempt():
            self._add(candidate.job, plan)
        return preemptor.stopped_early

    def _swap(self) -> None:
        for candidate, victim, placements in SwapPlanner(self._allocator).run():
            cause = self._reasons(candidate.job).reason_of(EvictionRule.SWAP, victim)
            self._plan.evictions += [Eviction(key_of(pod), cause) for pod in victim.running_pods()]
            self._nominate(candidate.job.name, placements, (victim.name,))

    def _repack(self) -> None:
        if self._plan.nominations or self._cluster.nominated or self._cluster.releasing_on:
            return
        for victim, placements in RepackPlanner(self._allocator).run():
            names = [placement.pod.job.name for placement in placements]
            cause = self._reasons(placements[0].pod.job).reason_of(EvictionRule.REPACK, victim.job)
            self._plan.evictions.append(Eviction(key_of(victim), cause))
            for name, placement in zip(names, placements, strict=True):
                self._nominate(name, [placement], (victim.job.name,))

    def _reasons(self, requester: Job, choice: str = "") -> EvictionReasons:
        return EvictionReasons(self._cluster, self._overlay, requester, choice)

    def _add(self, job: Job, plan: PreemptionPlan) -> None:
        """Add the evictions, moves and nominations of one preemption to the plan."""
        choice = choice_sentence(self._cluster, plan, self._policy.price, self._now_s)
        reasons, overrides = self._reasons(job, choice), plan.kind is PreemptionKind.OVERRIDE
        freed_by = dict.fromkeys(pod.job.name for pod, _ in plan.stopped)
        freed_by.update(dict.fromkeys(moved.name for moved, _, _ in plan.moved))
        for pod, rule in plan.stopped:
            cause = reasons.reason_of(rule, pod.job)
            self._plan.evictions.append(Eviction(key_of(pod), cause, overrides=overrides))
        for moved, placements, rule in plan.moved:
            cause = reasons.reason_of(rule, moved)
            self._plan.evictions += [
                Eviction(key_of(placement.pod), cause, moves=True) for placement in placements
            ]
            self._nominate(moved.name, placements)
        self._nominate(job.name, plan.placements, tuple(freed_by))

    def _wakes_s(self) -> float | None:
        """Return the next time at which the plan could change without an event; None without one."""
        times = _patience_times_s(self._cluster, self._policy)
        times += [*self._gangs.times_s(), *self._nominations.times_s()]
        times += self._accounting.disruptions.ends_s()
        if self._policy.budgets.borrowed == "override" and self._cluster.budgets:
            grace_s = self._policy.budgets.grace
            times += [queued.first.waits_since_s + grace_s for queued in self._cluster.waiting.values()]
        return min((time_s for time_s in times if time_s > self._now_s), default=None)


def _patience_times_s(cluster: Cluster, policy: Policy) -> list[float]:
    """Return the ends of minimum run times, and of waits for a reclaim by share or for one domain."""
    pending = [queued.first for queued in cluster.waiting.values()]
    times: list[float] = []
    if policy.reclaim_share_after:
        times += [job.waits_since_s + policy.reclaim_share_after for job in pending]
    if policy.topology.patience:
        patience_s = policy.topology.patience
        times += [job.waits_since_s + patience_s for job in pending if job.topology is not None]
    if policy.min_runtime.any and pending:
        jobs = [job for running in cluster.running.values() for job in running.values()]
        least = policy.min_runtime
        times += [job.started_s + least.for_type(job.type) for job in jobs if job.started_s is not None]
    return times
