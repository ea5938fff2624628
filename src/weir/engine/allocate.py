"""Allocation: place pending workloads on free capacity, in queue order, after quota checks."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import heappop, heappush, heapreplace
from math import log

from weir.engine.cache import EngineCache
from weir.engine.capacity import Capacity
from weir.engine.feasibility import Bools
from weir.engine.gpu_model_limits import nodes_without_models, place_by_pod
from weir.engine.placer import NodePlacement, Placer
from weir.engine.queue_order import Candidate, QueueOrder, RuntimeKeyOrder
from weir.engine.quota_overlay import QuotaOverlay
from weir.engine.reservation import Reservation, expected_runtime_s, reservations
from weir.engine.topology_levels import missing_topology
from weir.engine.topology_placer import TopologyPlacer
from weir.model.policy import AffinityPolicy, Policy
from weir.model.workloads import WHOLE_MILLI
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job, Pod
from weir.state.quota_usage import Amounts
from weir.state.reduce import usage_on
from weir.state.shapes import GPU_ROW

DOMINANT_WEIGHT = 0.3
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
        self._reservations: list[Reservation] | None = None
        self._next: dict[EquivalenceClass, int] = {}  # members of the class served so far
        self._comes_to: dict[Job, list[int]] = {}  # nodes of those with a topology that were served
        self.scattered: list[tuple[Candidate, list[NodePlacement]]] = []  # gangs served in several domains
        finest = cache.finest_domains(cluster) if cluster.topologies else None
        self.domain_of = None if finest is None else finest.of
        self._placer = Placer(
            cluster,
            capacity,
            lambda shape, affinity: cache.ranking(cluster, shape, affinity),
            policy.search_steps,
            cache.pod_rules(cluster),
            self.domain_of,
        )
        self.headroom_milli = cache.headroom_milli

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
            entitled = self.entitled(candidate)
            if learned and not entitled:
                if self._could_borrow(candidate.of):
                    borrowers.append(candidate)
                order.settle()
                continue
            placements = self._try(candidate, entitled)
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
            borrows = all_borrow and not self.cache.owners(self.cluster, project)
            for of in classes:
                if borrows and not self._could_borrow(of):
                    continue
                affinity = self.cache.affinity(self.cluster, of.first)
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
        scattered = self.is_scattered(candidate.job, placements)
        if scattered:
            self.scattered.append((candidate, placements))
        return not scattered

    # Gates and room

    def entitled(self, candidate: Candidate) -> bool:
        """Return True if a workload is in quota, after older workloads of its project."""
        path, asks = candidate.job.path, candidate.asks
        if not self.policy.oldest_first_in_quota:
            return self.overlay.entitled(path, asks)
        owners = self.cache.owners(self.cluster, candidate.job.project)
        if candidate.again or candidate.choice:
            return not owners and self.overlay.entitled(path, asks)
        return candidate.at < owners.get(candidate.of, 0) and self.overlay.entitled(path[:-1], asks)

    def _try(self, candidate: Candidate, entitled: bool) -> list[NodePlacement] | None:
        job, overlay = candidate.job, self.overlay
        if overlay.over_limit(job.path, candidate.asks) is not None:
            return None
        if not job.preemptible and overlay.fixed_over_quota(job.path, candidate.asks) is not None:
            return None
        keeps_some_free = self.headroom_milli and not entitled
        if keeps_some_free and not self.keeps_headroom(candidate, self.capacity.free_gpu_milli()):
            return None
        placements = self.placed(candidate, self._placer)
        if placements is None:
            return None
        if job.topology is not None:
            self._comes_to.setdefault(job, []).extend(placement.node for placement in placements)
        held_back_by = self._held_back_by(candidate) if self._reservations else []
        for pod, node, devices in placements:
            overlay.add(job.path, usage_on(self.cluster, pod.shape, node), not job.preemptible)
            for kept in held_back_by:
                kept.spare[node] -= len(devices)
        if self._reservations:
            self._reservations = [kept for kept in self._reservations if kept.job is not job]
        return placements

    def placed(self, candidate: Candidate, placer: Placer) -> list[NodePlacement] | None:
        """Return placements by its topology; a gang waits for its preferred level before it scatters."""
        job = candidate.job
        affinity = self.cache.affinity(self.cluster, job)
        within = self.open_to(candidate)
        if job.topology is None:
            placements = placer.place(job, candidate.pods(), affinity, within)
            if placements is None and sum(candidate.lacks) > 1 and self.models_shut(candidate):
                left, kept_free = self._models_left(candidate), self._kept_free_of(candidate)
                placements = place_by_pod(placer, job, candidate.pods(), affinity, kept_free, left)
            return placements
        if missing_topology(self.cluster.topologies, job.topology) is not None:
            return None
        levels, comes_to = self.cache.levels(self.cluster, job.topology.name), self._comes_to.get(job, ())
        site = TopologyPlacer(placer, job, affinity, levels, within, comes_to=comes_to)
        return site.place(candidate.pods(), self.may_scatter(job, candidate.lacks))

    def open_to(self, candidate: Candidate) -> Bools | None:
        """Return the nodes that a workload may use now; None for all.

        Not those reserved for others, nor those of a GPU model of which its queues are at their limit.
        """
        within = None if self._reservations == [] else self._kept_free_of(candidate)
        if shut := self.models_shut(candidate):
            mask = nodes_without_models(self.cluster, shut)
            within = mask if within is None else within & mask
        return within

    def _kept_free_of(self, candidate: Candidate) -> Bools | None:
        """Return the nodes without a reservation that it would use; None for all."""
        within = None
        for kept in self._held_back_by(candidate):
            free = kept.spare >= -(-candidate.of.step.gpu_milli // WHOLE_MILLI)
            within = free if within is None else within & free
        return within

    def _held_back_by(self, candidate: Candidate) -> list[Reservation]:
        """Return the reservations of others that apply: none if it is preemptible or ends in time."""
        job = candidate.job
        if job.preemptible and not self.entitled(candidate):
            return []
        kept = [kept for kept in self._reserved() if kept.job is not job]
        ends_s = self.cluster.changed_s + expected_runtime_s(self.cluster, job) if kept else 0.0
        return [each for each in kept if ends_s > each.at_s]

    def models_shut(self, candidate: Candidate) -> set[str]:
        """Return GPU models whose limits don't cover its request."""
        milli = sum(amount for row, amount in candidate.asks if row == GPU_ROW)
        left = self._models_left(candidate) if milli else {}
        return {model for model, have in left.items() if have < milli}

    def _models_left(self, candidate: Candidate) -> dict[str, int]:
        job = candidate.job
        return self.overlay.models_left(job.path, candidate.asks, not job.preemptible)

    def _reserved(self) -> list[Reservation]:
        if self._reservations is None:
            late_s = self.now_s - self.policy.reserve_after
            waiting = self.cluster.waiting.values()
            late = [
                of
                for of in waiting
                if of.first.waits_since_s <= late_s
                and self.entitled(self.candidate(of, 0))
                and self.cache.could_run(self.cluster, of)
            ]
            self._reservations = self._reserved_for(late) if late else []
        return self._reservations

    def _reserved_for(self, late: list[EquivalenceClass]) -> list[Reservation]:
        known = self.cache.reserved
        if known is None or known[0] != late:
            found = reservations(self.cluster, self.cache, self.capacity, late, self.cluster.changed_s)
            known = self.cache.reserved = late, found
        return known[1]

    def may_scatter(self, job: Job, lacks: Sequence[int]) -> bool:
        """Return True if a gang has waited long enough for one domain of its preferred level."""
        waited_s = self.now_s - job.waits_since_s
        return sum(lacks) == 1 or waited_s >= self.policy.topology.patience

    def is_scattered(self, job: Job, places: Iterable[NodePlacement | Pod]) -> bool:
        """Return True if placements are in several domains of the job's preferred level."""
        asked = job.topology
        if asked is None or asked.preferred is None:
            return False
        depth = self.cluster.topologies[asked.name].levels.index(asked.preferred)
        of = self.cache.levels(self.cluster, asked.name)[depth].of
        return len({int(of[place.node]) for place in places}) > 1

    def keeps_headroom(self, candidate: Candidate, free_milli: int) -> bool:
        """Return True if it is in quota, or leaves the reserve free."""
        if not self.headroom_milli or self.entitled(candidate):
            return True
        want = candidate.gpu_milli
        return not want or free_milli - want >= self.headroom_milli

    # Borrowers in the learned order

    def _could_borrow(self, of: EquivalenceClass) -> bool:
        """Return True if the free devices cover one of a class and the reserve."""
        want = 0 if of.step.choices else of.step.gpu_milli
        return not self.headroom_milli or not want or self._free_milli - want >= self.headroom_milli

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
            placements = self._try(candidate, entitled=False)
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
        return DOMINANT_WEIGHT * dominant + log(remaining_s) + log(devices)

    def give_back(self, placements: Sequence[NodePlacement]) -> None:
        """Release the placements of a workload that is placed elsewhere."""
        self._placer.give_back(placements)
        for placement in placements:
            self._comes_to.pop(placement.pod.job, None)

    def note_taken(self, candidate: Candidate) -> None:
        """Count a workload with a nomination as served."""
        self._next[candidate.of] = candidate.at + 1

    def served_of(self, of: EquivalenceClass) -> int:
        """Return the number of members of a class served in this cycle."""
        return self._next.get(of, 0)

    def projects_served(self) -> set[int]:
        """Return the projects with a member served in this cycle."""
        return {of.project for of in self._next}
