"""Allocation: place pending workloads on free capacity, in queue order, after quota checks."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from heapq import heappop, heappush, heapreplace
from math import log

from weir.engine.cache import EngineCache
from weir.engine.capacity import Capacity
from weir.engine.placer import NodePlacement, Placer
from weir.engine.queue_order import Candidate, QueueOrder, RuntimeKeyOrder
from weir.engine.quota_checks import QuotaChecks
from weir.engine.quota_overlay import QuotaOverlay
from weir.engine.workload_placer import WorkloadPlacer
from weir.model.policy import AffinityPolicy, Policy
from weir.model.workloads import WHOLE_MILLI
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job
from weir.state.quota_usage import Amounts
from weir.state.reduce import usage_on

_DOMINANT_WEIGHT = 0.3
"""What a borrower's dominant share counts beside the logarithms of its run time and size."""


class Allocator:
    """Places the classes that could fit; counts the placed members of each."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        overlay: QuotaOverlay,
        cache: EngineCache,
        capacity: Capacity,
        now_s: float,
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.overlay = overlay
        self.cache = cache
        self.capacity = capacity
        self.now_s = now_s
        self._next: dict[EquivalenceClass, int] = {}  # members of the class served so far
        self.scattered: list[tuple[Candidate, list[NodePlacement]]] = []  # gangs served in several domains
        self.feasibility = cache.feasibility
        self.checks = QuotaChecks(policy, overlay, self.feasibility)
        self.placement = WorkloadPlacer(cluster, policy, overlay, self.checks, cache, capacity, now_s)
        finest = self.feasibility.finest_domains() if cluster.topologies else None
        self.domain_of = None if finest is None else finest.of
        self._placer = Placer(
            cluster,
            capacity,
            cache.node_scores,
            policy.search_steps,
            self.feasibility.pod_rules(),
            self.domain_of,
        )

    def serve(self) -> Iterator[list[NodePlacement]]:
        """Yield the placements of one workload after another; scattered gangs go to `scattered`."""
        learned = self.policy.over_quota_order == "predicted_runtime" and self.cluster.runtimes.version > 0
        all_borrow = learned and self.policy.oldest_first_in_quota  # where nobody has a claim, in any order
        heads: list[Candidate] = []
        borrowers: list[Candidate] = []
        for of, borrows in self._hopeful(all_borrow):
            (borrowers if borrows else heads).append(self.candidate(of, 0))
        order = QueueOrder(self.overlay, heads) if heads else None
        while order is not None and (candidate := order.next()) is not None:
            in_quota = self.checks.in_quota(candidate)
            if learned and not in_quota:
                if self._could_borrow(candidate.of):
                    borrowers.append(candidate)
                order.settle()
                continue
            placements = self._allocate(candidate, in_quota)
            if placements is None:
                order.settle(self._otherwise(candidate))
            else:
                if self._goes_ahead(candidate, placements):
                    yield placements
                order.settle(self._followers(candidate))
        if borrowers:
            yield from self._lend(borrowers)

    def unserved(self) -> Iterator[tuple[EquivalenceClass, int]]:
        """Yield each class with unplaced members, and the first of them."""
        for of in self.cluster.waiting.values():
            at = self._next.get(of, 0)
            if at < len(of.members):
                yield of, at

    def times_s(self) -> Iterator[float]:
        """Yield the times at which a pending workload gains options by waiting."""
        policy = self.policy
        patience, gang_patience = policy.reclaim_share_after, policy.topology.patience
        for of in self.cluster.waiting.values() if patience or gang_patience else ():
            first = of.first
            if patience:
                yield first.waits_since_s + patience
            if gang_patience and first.topology is not None:
                yield first.waits_since_s + gang_patience
        if policy.min_runtime.any and self.cluster.waiting:
            for running in self.cluster.running.values():
                for job in running.values():
                    if job.started_s is not None:
                        yield job.started_s + policy.min_runtime.of(job.type)

    # Candidates

    def candidate(self, of: EquivalenceClass, at: int) -> Candidate:
        """Return a member of a class as a candidate."""
        found = Candidate(of, at)
        return found.aged(self.now_s, self.policy.aging) if self.policy.aging else found

    def _followers(self, served: Candidate) -> list[Candidate]:
        """Return the candidates after a placed workload: its growth, and the next of its class."""
        followers = []
        grown = served.grown()
        if grown is not None:
            followers.append(grown.aged(self.now_s, self.policy.aging))
        if not served.again:
            self._next[served.of] = served.at + 1
            if served.at + 1 < len(served.of.members):
                followers.append(self.candidate(served.of, served.at + 1))
        return followers

    def _otherwise(self, refused: Candidate) -> list[Candidate]:
        """Return the candidate after a refused workload: itself with another group, if it has one."""
        other = refused.otherwise()
        return [] if other is None else [other.aged(self.now_s, self.policy.aging)]

    def _hopeful(self, all_borrow: bool) -> Iterator[tuple[EquivalenceClass, bool]]:
        """Yield classes whose shapes fit, each by itself, and whether they are over quota.

        A gang needs room for all its pods of each shape, an elastic workload for a pod of one of them. Who
        has none isn't in the order, and doesn't stand for its queue. `all_borrow`: so do all of a project
        in which nobody has a claim.
        """
        known: dict[tuple[object, ...], bool] = {}
        capacity_for: dict[tuple[int, tuple[AffinityPolicy, ...], bool], int] = {}
        for project, classes in self.cluster.waiting_of.items():
            borrows = all_borrow and not self.feasibility.owners(project)
            for of in classes:
                if borrows and not self._could_borrow(of):
                    continue
                affinity = self.feasibility.affinity(of.first)
                key = of.wants, affinity
                has_capacity = known.get(key)
                if has_capacity is None:
                    has_capacity = known[key] = self._has_capacity(of, affinity, capacity_for)
                if has_capacity:
                    yield of, borrows

    def _has_capacity(
        self,
        of: EquivalenceClass,
        affinity: tuple[AffinityPolicy, ...],
        capacity_for: dict[tuple[int, tuple[AffinityPolicy, ...], bool], int],
    ) -> bool:
        elastic = of.step.elastic
        for shape_id in of.shapes:
            shape, pods = self.cluster.shapes.all[shape_id], 1 if elastic else of.lack_of(shape_id)
            if shape.whole and (
                shape.devices > self.capacity.largest_free_blocks()[0]
                or pods * shape.devices > self._free_whole
            ):
                have = 0
            else:
                key = shape_id, affinity, pods > 1  # whether there is any is quicker to say than for how many
                known = capacity_for.get(key)
                if known is None:
                    count = self._placer.capacity_for if pods > 1 else self._placer.has_capacity
                    known = capacity_for[key] = int(count(shape, affinity))
                have = known
            if (have >= pods) is elastic:
                return elastic
        return not elastic

    def _goes_ahead(self, candidate: Candidate, placements: list[NodePlacement]) -> bool:
        """Return True if a workload keeps its placement; a scattered gang may get a cleared domain."""
        scattered = self.placement.is_scattered(candidate.job, placements)
        if scattered:
            self.scattered.append((candidate, placements))
        return not scattered

    def _allocate(self, candidate: Candidate, in_quota: bool) -> list[NodePlacement] | None:
        job = candidate.job
        if self.checks.refusal(candidate, self.capacity, in_quota) is not None:
            return None
        placements = self.placement.place(candidate, self._placer)
        if placements is None:
            return None
        self.placement.note_placed(candidate, placements)
        for pod, node, _ in placements:
            self.overlay.add(job.path, usage_on(self.cluster, pod.shape, node), not job.preemptible)
        return placements

    # Borrowers in the learned order

    def _could_borrow(self, of: EquivalenceClass) -> bool:
        """Return True if the free devices cover one of a class and the reserve."""
        want = 0 if of.step.choices else of.step.gpu_milli
        return (
            not self.checks.headroom_milli
            or not want
            or self._free_milli - want >= self.checks.headroom_milli
        )

    @cached_property
    def _free_milli(self) -> int:
        return self.capacity.free_gpu_milli()

    @cached_property
    def _free_whole(self) -> int:
        return int(self.capacity.whole.sum())

    def _lend(self, borrowers: list[Candidate]) -> Iterator[list[NodePlacement]]:
        """Place workloads over quota of all projects, by predicted run time, size and share."""
        heap: list[tuple[RuntimeKeyOrder, int, Candidate]] = []
        coming, count = borrowers, 0  # those still to be put in order, and how many were
        grown: set[int] = set()  # projects served since, whose keys may have risen
        while heap or coming:
            if not heap and len(coming) == 1:
                candidate = coming[0]  # there is nobody to compare it with
            else:
                for each in coming:
                    heappush(heap, (self.learned_key(each), count, each))
                    count += 1
                coming = []
                key, at, candidate = heap[0]
                if candidate.job.project in grown:
                    now = self.learned_key(candidate)
                    if now > key:
                        heapreplace(heap, (now, at, candidate))
                        continue
                heappop(heap)
            placements = self._allocate(candidate, in_quota=False)
            if placements is not None:
                grown.add(candidate.job.project)
                if self._goes_ahead(candidate, placements):
                    yield placements
            coming = self._otherwise(candidate) if placements is None else self._followers(candidate)

    def learned_key(self, candidate: Candidate) -> RuntimeKeyOrder:
        """Return the key of a pending workload, then age and name."""
        job = candidate.job
        return self.key_of(job, job.ran_s, candidate.asks), job.submitted_s, job.name

    def key_of(self, job: Job, ran_s: float, asks: Amounts) -> float:
        """Return 0.3 · dominant share + ln mean remaining run time + ln devices."""
        remaining_s = self.cluster.runtimes.remaining_s(job.like, ran_s)
        assert remaining_s is not None
        dominant = min(self.overlay.dominant(job.project, asks)[0], 1e9)
        devices = max(job.devices_milli, 1) / WHOLE_MILLI
        return _DOMINANT_WEIGHT * dominant + log(remaining_s) + log(devices)

    def give_back(self, placements: Sequence[NodePlacement]) -> None:
        """Release the placements of a workload that is placed elsewhere."""
        self._placer.give_back(placements)
        for placement in placements:
            self.placement.forget(placement.pod.job)

    def note_nominated(self, candidate: Candidate) -> None:
        """Count a workload with a nomination as served."""
        self._next[candidate.of] = candidate.at + 1

    def served_of(self, of: EquivalenceClass) -> int:
        """Return the number of members of a class served in this cycle."""
        return self._next.get(of, 0)

    def projects_served(self) -> set[int]:
        """Return the projects with a member served in this cycle."""
        return {of.project for of in self._next}
