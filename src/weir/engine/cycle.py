"""The cycle: every step of one decision, in order.

1. Bind the pods whose nominated capacity is free. Choose again for workloads whose victims refused to stop.
2. Serve pending workloads from free room, in order.
3. Clear one domain by moves for each gang that step 2 would scatter, if the moves are cheap enough.
4. Take room for workloads that passed their gates and found none: consolidate, reclaim, preempt.
5. Exchange: a borrower that has just saved its state changes places with a workload clearly before it.
6. Fill, if it is enabled and nothing else is under way.
7. Stop gangs that have run below their minimum for too long.
"""

from collections import Counter

from weir.engine.allocate import Allocator
from weir.engine.cache import EngineCache
from weir.engine.disruption_allowances import DisruptionAllowances
from weir.engine.eviction_reasons import EvictionReasons
from weir.engine.node_scores import NodeScores
from weir.engine.placer import NodePlacement, Placer
from weir.engine.plan import Eviction, NominatedPods, Plan
from weir.engine.preemption import Preemptor
from weir.engine.preemption_context import PreemptionContext
from weir.engine.preemption_rules import PreemptionKind
from weir.engine.quota_overlay import QuotaOverlay, usage_of
from weir.engine.repack import RepackPlanner
from weir.engine.swap import SwapPlanner
from weir.engine.victim_search import PreemptionPlan
from weir.model.policy import AffinityPolicy, Policy
from weir.model.reasons import EvictionCause, EvictionRule
from weir.state.capacity_columns import CapacityColumns, Ints
from weir.state.cluster import Cluster
from weir.state.events import Placement, PodKey
from weir.state.jobs import Job, Phase, Pod
from weir.state.shapes import RequestShape


def decide(cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Plan:
    """Decide what should happen now. `memo` only saves time: an empty one gives the same plan."""
    return Cycle(cluster, policy, now_s, cache).run()


class Cycle:
    """State of one decision while the cycle runs."""

    def __init__(self, cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> None:
        self.cluster = cluster
        self.policy = policy
        self.now_s = now_s
        self.cache = cache
        self.capacity = cache.sync(cluster, policy)
        self.overlay = QuotaOverlay(
            cluster,
            policy,
            usage_of(cluster, policy, now_s),
            cache.known_shares(cluster),
            cache.feasibility.excess,
        )
        self.disruptions = DisruptionAllowances(cluster, policy, now_s)
        self.plan = Plan()
        self.domain_of: Ints | None = None
        self.gone: set[Pod] = set()  # pods stopped or moved in this plan
        self.coming: set[str] = set()  # workloads given room in this plan or before, and not yet on it

    def run(self) -> Plan:
        """Run all steps and return the plan."""
        self._bind_promised()  # 1
        allocator = Allocator(self.cluster, self.policy, self.overlay, self.cache, self.capacity, self.now_s)
        self.domain_of = allocator.domain_of
        if self.cluster.withdrawn and self._retry_refused(allocator):
            return self.plan
        quiet = self.cache.is_unchanged(self.cluster, self.now_s)
        for placements in () if quiet else allocator.serve():  # 2
            self.plan.binds += [self._place(placement) for placement in placements]
        taker = Preemptor(allocator, lambda: self._context(allocator))
        for candidate, taken in taker.gather():  # 3
            if taken.kind is None:
                self.plan.binds += [self._place(placement) for placement in taken.placements]
            else:
                self._promise(candidate.job, taken)
        for candidate, taken in taker.preempt():  # 4
            self._promise(candidate.job, taken)
        self._exchange(allocator)  # 5
        self._fill(allocator)  # 6
        self._stop_broken()  # 7
        self.plan.wake_s = self.cache.wake_s() if quiet else self._wakes_s(allocator)
        self.cache.keep(self.cluster, self.plan, self.overlay.known)
        return self.plan

    def _retry_refused(self, allocator: Allocator) -> bool:
        """Choose other victims after refused evictions; everything else waits for a cycle then."""
        for candidate, taken in Preemptor(allocator, lambda: self._context(allocator)).retry_refused():
            self._promise(candidate.job, taken)
        if not self.plan.nominations:
            return False
        self.plan.wake_s = self.now_s
        self.cache.keep(self.cluster, self.plan, self.overlay.known)
        return True

    def _place(self, placement: NodePlacement) -> Placement:
        return Placement(key_of(placement.pod), self.cluster.node_names[placement.node], placement.devices)

    def _bind_promised(self) -> None:
        """Bind the nominated pods of a workload once all their capacity is free."""
        for name in sorted(self.cluster.nominated):
            job = self.cluster.nominated[name]
            pods = [pod for group in job.pods for pod in group if pod.nomination is not None]
            if all(pod.phase is Phase.NOMINATED and self._is_free(pod) for pod in pods):
                if self._stay(pods, self.cluster.free_capacity):
                    for pod in pods:
                        assert pod.nomination is not None
                        self.plan.binds.append(self._place(NodePlacement(pod, *pod.nomination)))
                elif not self._stay(pods, self.capacity.after_releases(self.cluster).columns):
                    self.plan.drops.append(name)  # others have come since
            elif job.absent_since_s is not None and self._absence_ends_s(job) <= self.now_s:
                self.plan.drops.append(name)

    def _stay(self, pods: list[Pod], columns: CapacityColumns) -> bool:
        """Return True if pod affinity rules still allow the nominated nodes of these pods."""
        rules = self.cache.feasibility.pod_rules()
        return all(
            pod.nomination is not None and rules.stays(columns, pod.shape, pod.nomination[0]) for pod in pods
        )

    def _absence_ends_s(self, job: Job) -> float:
        """Return the time until which a nomination of an absent pod is kept."""
        since_s = self.now_s if job.absent_since_s is None else job.absent_since_s
        return since_s + self.policy.gang_grace

    def _is_free(self, pod: Pod) -> bool:
        """Return True if the nominated capacity of a pod is no longer held by any other pod."""
        assert pod.nomination is not None
        node, devices = pod.nomination
        columns = self.cluster.free_capacity
        return all(columns.free[row, node] >= 0 for row, _ in pod.shape.needs) and all(
            columns.share[node, device] >= 0 and columns.memory[node, device] >= 0 for device in devices
        )

    def _exchange(self, allocator: Allocator) -> None:
        for candidate, goes, placements in SwapPlanner(
            allocator, self.disruptions, self.gone, self.coming
        ).run():
            by = candidate.job.name
            cause = EvictionReasons(self.cluster, self.overlay, candidate.job).of(EvictionRule.SWAP, goes)
            self.plan.evictions += [Eviction(key_of(pod), cause) for pod in goes.running_pods()]
            places = tuple(self._place(placement) for placement in placements)
            self.plan.nominations.append(NominatedPods(by, places, (goes.name,)))

    def _fill(self, allocator: Allocator) -> None:
        if self.plan.nominations or self.cluster.nominated or self.cluster.releasing_on:
            return  # who waits for that room comes first
        for goes, placements in RepackPlanner(allocator, self.disruptions).run():
            names = [placement.pod.job.name for placement in placements]
            self.gone.add(goes)
            cause = EvictionReasons(self.cluster, self.overlay, placements[0].pod.job).of(
                EvictionRule.REPACK, goes.job
            )
            self.plan.evictions.append(Eviction(key_of(goes), cause))
            for name, placement in zip(names, placements, strict=True):
                self.plan.nominations.append(NominatedPods(name, (self._place(placement),), (goes.job.name,)))

    def _stop_broken(self) -> None:
        """Stop gangs that have run below their minimum for too long and aren't completed by this plan."""
        if not self.cluster.incomplete:
            return
        incomplete = self.cluster.incomplete.items()
        late = {name: job for name, job in incomplete if self._grace_ends_s(job) <= self.now_s}
        if not late:
            return
        places = [*self.plan.binds, *(place for promise in self.plan.nominations for place in promise.places)]
        coming = Counter((place.pod.workload, place.pod.group) for place in places)
        for name in sorted(late):
            job = late[name]
            if any(lack > coming[name, group] for group, lack in enumerate(job.lacks())):
                if name in self.cluster.nominated and name not in self.plan.drops:
                    self.plan.drops.append(name)
                needed = sum(job.needed)
                sentence = f"it ran with {len(job.running_pods())} of the {needed} pods it needs for too long"
                cause = EvictionCause(EvictionRule.GANG_BROKEN, None, sentence, {"needed": needed})
                for pod in job.running_pods():
                    if pod not in self.gone and self.disruptions.allows((pod,)):
                        self.disruptions.count((pod,))
                        self.plan.evictions.append(Eviction(key_of(pod), cause))

    def _grace_ends_s(self, job: Job) -> float:
        since_s = self.now_s if job.below_since_s is None else job.below_since_s
        return since_s + self.policy.gang_grace

    def _wakes_s(self, allocator: Allocator) -> float | None:
        """Return the next time at which the plan could change without an event."""
        times = [self._grace_ends_s(job) for job in self.cluster.incomplete.values()]
        times += allocator.times_s()
        times += self.disruptions.ends_s()
        if self.policy.budgets.borrowed == "override" and self.cluster.budgets:
            grace_s = self.policy.budgets.grace
            times += [of.first.waits_since_s + grace_s for of in self.cluster.waiting.values()]
        promised = self.cluster.nominated.values()
        times += [self._absence_ends_s(job) for job in promised if job.absent_since_s is not None]
        return min((time_s for time_s in times if time_s > self.now_s), default=None)

    def _context(self, allocator: Allocator) -> PreemptionContext:
        placer = self._later_placer()
        self.coming.update(self.cluster.nominated, (place.pod.workload for place in self.plan.binds))
        return PreemptionContext(
            self.cluster,
            self.policy,
            self.overlay,
            placer,
            self.cache.feasibility.affinity,
            self.cache.feasibility.levels,
            self.now_s,
            self.disruptions,
            allocator.checks,
            self.cache.bounds,
            self.gone,
            self.coming,
        )

    def _later_placer(self) -> Placer:
        capacity = self.capacity.after_releases(self.cluster)
        rankings: dict[tuple[int, tuple[AffinityPolicy, ...]], NodeScores] = {}

        def ranking_of(shape: RequestShape, affinity: tuple[AffinityPolicy, ...]) -> NodeScores:
            shape = shape.plain or shape
            found = rankings.get((shape.id, affinity))
            if found is None:
                found = self.cache.new_node_scores(capacity, shape, affinity)
                rankings[(shape.id, affinity)] = found
            return found

        rules, steps_most = self.cache.feasibility.pod_rules(), self.policy.search_steps
        return Placer(self.cluster, capacity, ranking_of, steps_most, rules, self.domain_of)

    def _promise(self, job: Job, taken: PreemptionPlan) -> None:
        by, causes = job.name, EvictionReasons(self.cluster, self.overlay, job)
        self.coming.add(by)
        self.coming.update(moved.name for moved, _, _ in taken.moved)
        freed_by = dict.fromkeys(pod.job.name for pod, _ in taken.stopped)
        freed_by.update(dict.fromkeys(moved.name for moved, _, _ in taken.moved))
        for pod, rule in taken.stopped:
            cause, overrides = causes.of(rule, pod.job), taken.kind is PreemptionKind.OVERRIDE
            self.plan.evictions.append(Eviction(key_of(pod), cause, overrides=overrides))
        for moved, placements, rule in taken.moved:
            cause = causes.of(rule, moved)
            self.plan.evictions += [
                Eviction(key_of(placement.pod), cause, moves=True) for placement in placements
            ]
            self.plan.nominations.append(
                NominatedPods(moved.name, tuple(self._place(placement) for placement in placements), ())
            )
        self.plan.nominations.append(
            NominatedPods(
                by, tuple(self._place(placement) for placement in taken.placements), tuple(freed_by)
            )
        )


def key_of(pod: Pod) -> PodKey:
    """Return the key of a pod."""
    return PodKey(pod.job.name, pod.group, pod.index)
