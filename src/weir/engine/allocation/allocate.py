"""Allocation: place pending workloads on free capacity, in queue order, after quota checks."""

from collections.abc import Iterable, Iterator, Sequence

from weir.engine.allocation.workload_placer import WorkloadPlacer
from weir.engine.cache import EngineCache
from weir.engine.order.pending_order import Peers, PendingOrder
from weir.engine.order.queue_order import Candidate, QueueOrder
from weir.engine.order.runtime_order import BorrowerOrder, KeyedLine, RuntimeOrder
from weir.engine.placement.feasibility_cache import FeasibilityCache
from weir.engine.placement.placer import Placer
from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.protection.preemption_rules import PreemptionRules
from weir.engine.protection.victim_protection import DisruptionAllowances
from weir.engine.quota.quota_checks import QuotaChecks
from weir.engine.transaction import Accounting, Transaction
from weir.engine.usage.quota_overlay import QuotaOverlay, usage_of
from weir.model.policy import AffinityRules, Policy
from weir.state.capacity_columns import Bools
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Wants
from weir.state.shapes import RequestShape

Lacks = Sequence[tuple[RequestShape, Bools, int]]
"""For each shape with missing pods: the shape, the nodes that match it, and the number of missing pods."""
FEW_CLASSES = 64
"""Number of classes up to which sorting on demand is cheaper than keeping the order."""


class Allocator:
    """Places the classes that fit; counts the placed members of each."""

    def __init__(
        self, cluster: Cluster, policy: Policy, transaction: Transaction, cache: EngineCache, now_s: float
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.transaction = transaction
        self._accounting = transaction.accounting
        self.overlay = transaction.accounting.overlay
        self.capacity = transaction.capacity
        self.cache = cache
        self.now_s = now_s
        self.feasibility = cache.feasibility
        self.checks = QuotaChecks(cluster, policy, self.overlay, self.feasibility)
        self.placement = WorkloadPlacer(cluster, policy, self.checks, cache, self.capacity, now_s)
        self.runtime_order = RuntimeOrder(cluster, self.overlay, policy.share_weight)
        self.scattered: list[tuple[Candidate, list[NodePlacement]]] = []  # gangs placed in several domains
        finest = self.feasibility.finest_domains() if cluster.topologies else None
        self.domain_of = None if finest is None else finest.domain_of
        self.placer = Placer(
            cluster,
            self.capacity,
            cache.scores.scores_of,
            policy.search_steps,
            self.feasibility.pod_rules(),
            self.domain_of,
        )
        self._served: dict[EquivalenceClass, int] = {}  # number of members placed or nominated

    def place(self, candidate: Candidate, in_quota: bool) -> list[NodePlacement] | None:
        """Place a candidate; None, with nothing changed, if a check refuses it or it doesn't fit."""
        if self.checks.refusal(candidate, self.capacity, in_quota) is not None:
            return None
        placements = self.placement.place(candidate, self.placer)
        if placements is not None:  # all pods have capacity: a trial around the charge would only cost time
            self.placement.note_placed(candidate, placements)
            self._accounting.start(placements)
        return placements

    def keeps(self, candidate: Candidate, placements: list[NodePlacement]) -> bool:
        """Return True if a placement is kept; False for a scattered gang: moves may clear a domain for it."""
        scattered = self.placement.is_scattered(candidate.job, placements)
        if scattered:
            self.scattered.append((candidate, placements))
        return not scattered

    # Candidates

    def candidate(self, queued: EquivalenceClass, index: int) -> Candidate:
        """Return a member of a class as a candidate."""
        return Candidate(queued, index).aged(self.now_s, self.policy.aging)

    def rules_of(self, candidate: Candidate) -> PreemptionRules:
        """Return the rights of a candidate to evict others."""
        return self.checks.rules_of(candidate, self.now_s)

    def matching(self, candidate: Candidate) -> Lacks:
        """Return the shapes with missing pods, the nodes that match each, and the number of missing pods."""
        affinity = self.feasibility.affinity(candidate.job)
        return [
            (shape, self.feasibility.feasible_nodes(shape, affinity)[0], lack)
            for _, shape, lack in candidate.lacking()
        ]

    def following(self, candidate: Candidate, placed: bool) -> list[Candidate]:
        """Return the candidates that follow a candidate.

        After a workload that was placed: its next elastic pods, and the next member of its class. After one
        that wasn't: the same workload with another elastic group, if it has one.
        """
        if not placed:
            other = candidate.otherwise()
            return [] if other is None else [other.aged(self.now_s, self.policy.aging)]
        followers = []
        grown = candidate.grown()
        if grown is not None:
            followers.append(grown.aged(self.now_s, self.policy.aging))
        if not candidate.again:
            self._served[candidate.queued] = candidate.index + 1
            if candidate.index + 1 < len(candidate.queued.members):
                followers.append(self.candidate(candidate.queued, candidate.index + 1))
        return followers

    # Results

    def unserved(self) -> Iterator[tuple[EquivalenceClass, int]]:
        """Yield each class with unplaced members, and the first of them."""
        for queued in self.cluster.waiting.values():
            index = self._served.get(queued, 0)
            if index < len(queued.members):
                yield queued, index

    def served_of(self, queued: EquivalenceClass) -> int:
        """Return the number of members of a class placed or nominated in this cycle."""
        return self._served.get(queued, 0)

    def projects_served(self) -> set[int]:
        """Return the projects with a member placed or nominated in this cycle."""
        return {queued.project for queued in self._served}

    def note_nominated(self, candidate: Candidate) -> None:
        """Count a workload with a nomination as served."""
        self._served[candidate.queued] = candidate.index + 1

    def withdraw(self, placements: Sequence[NodePlacement]) -> None:
        """Release the capacity of a workload that will be placed elsewhere."""
        for placement in placements:
            self.capacity.release(placement.node, placement.pod.shape, placement.devices)
            self.placement.forget(placement.pod.job)


def new_allocator(cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Allocator:
    """Return an allocator over a state, with accounting of its own."""
    capacity, excess = cache.sync(cluster, policy), cache.feasibility.excess
    overlay = QuotaOverlay(cluster, policy, usage_of(cluster, policy, now_s), cache.share_tree, excess)
    accounting = Accounting(cluster, overlay, DisruptionAllowances(cluster, policy, now_s))
    return Allocator(cluster, policy, Transaction(capacity, accounting), cache, now_s)


def allocate(allocator: Allocator) -> Iterator[list[NodePlacement]]:
    """Yield the placements of one workload after another; scattered gangs go to `scattered`."""
    cluster, checks, placer = allocator.cluster, allocator.checks, allocator.placer
    by_runtime = allocator.policy.over_quota_order == "predicted_runtime" and cluster.runtimes.version > 0
    classes = FittingClasses(cluster, allocator.feasibility, placer, checks.headroom_milli)
    claiming, borrowing, pending = _projects(allocator, by_runtime)
    candidates = [allocator.candidate(queued, 0) for queued in classes.of_projects(claiming)]
    over_quota: list[Candidate] = []
    order = QueueOrder(allocator.overlay, candidates) if candidates else None
    least_block = _least_block(candidates)
    while order is not None and (candidate := order.next()) is not None:
        if not _may_fit(allocator, least_block):
            break
        in_quota = checks.in_quota(candidate)
        if by_runtime and not in_quota:
            if classes.leaves_headroom(candidate.queued):
                over_quota.append(candidate)
            order.settle()
            continue
        placements = allocator.place(candidate, in_quota)
        if placements is not None and allocator.keeps(candidate, placements):
            yield placements
        order.settle(allocator.following(candidate, placements is not None))
    over_quota += [
        allocator.candidate(queued, 0)
        for queued in classes.of_projects(borrowing)
        if classes.leaves_headroom(queued)
    ]
    peers: list[Peers] = []
    if pending is not None:
        for line in pending.all_lines():
            if classes.leaves_headroom(line.queued) and classes.fits(line.queued):
                peers += pending.peers_of(line, allocator.runtime_order, allocator.served_of)
    if over_quota or peers:
        yield from _allocate_by_runtime(allocator, over_quota, peers)


def _projects(
    allocator: Allocator, by_runtime: bool
) -> tuple[Iterable[int], Iterable[int], PendingOrder | None]:
    """Return projects that may be in quota, projects sure to borrow, and the cached order of others."""
    waiting_of = allocator.cluster.waiting_of
    if not by_runtime or not allocator.policy.oldest_first_in_quota:
        return waiting_of, (), None
    if len(allocator.cluster.waiting) > FEW_CLASSES:
        pending = allocator.cache.pending_order
        pending.sync()
        return sorted(pending.claiming), sorted(pending.ranked - pending.claiming), pending
    claiming = {project: bool(allocator.feasibility.owners(project)) for project in waiting_of}
    owners = [project for project, claims in claiming.items() if claims]
    return owners, [project for project, claims in claiming.items() if not claims], None


def _allocate_by_runtime(
    allocator: Allocator, candidates: list[Candidate], peers: list[Peers]
) -> Iterator[list[NodePlacement]]:
    """Place workloads over quota of all projects, by predicted run time, size and share.

    `peers` have those of projects whose quota covers none of their workloads.
    """
    some = [*candidates, *[allocator.candidate(group.queued, 0) for group in peers]]
    least_block, least_milli = _least_block(some), _least_milli(some)
    lines = [_line(allocator, group) for group in peers]
    order = BorrowerOrder(allocator.runtime_order, candidates, lines)
    while _may_fit(allocator, least_block, least_milli) and (candidate := order.next()) is not None:
        placements = allocator.place(candidate, in_quota=False)
        if placements is not None and allocator.keeps(candidate, placements):
            yield placements
        order.settle(candidate, allocator.following(candidate, placements is not None))


def _line(allocator: Allocator, peers: Peers) -> KeyedLine:
    """Yield the keyed candidates of peers in order, of projects with one priority and no quota left."""
    pending = allocator.cache.pending_order
    for entry in peers.entries:
        queued = entry[3]
        if queued.project not in pending.claiming and queued.project not in pending.ranked:
            yield peers.key_of(entry), allocator.candidate(queued, 0)


def _may_fit(allocator: Allocator, least_block: int, least_milli: int = 0) -> bool:
    """Return True if a block of this many devices might fit on a node and leave the headroom free."""
    largest, _ = allocator.capacity.totals.largest_free_blocks()
    return least_block <= largest and allocator.checks.leaves_headroom(least_milli, allocator.capacity)


def _least_block(candidates: Iterable[Candidate]) -> int:
    """Return the least number of exclusive devices on one node that a step of these candidates needs."""
    shapes = (shape for candidate in candidates for shape in candidate.job.shapes)
    return min([shape.devices if shape.whole else 0 for shape in shapes], default=0)


def _least_milli(candidates: Iterable[Candidate]) -> int:
    """Return the least thousandths of devices that a step of these candidates needs."""
    steps = (0 if candidate.job.is_elastic else candidate.gpu_milli for candidate in candidates)
    return min(steps, default=0)


class FittingClasses:
    """Classes that fit the free capacity at the beginning of an allocation.

    `headroom_milli` thousandths of devices stay free of workloads over quota.
    """

    def __init__(
        self, cluster: Cluster, feasibility: FeasibilityCache, placer: Placer, headroom_milli: int
    ) -> None:
        self._cluster = cluster
        self._feasibility = feasibility
        self._placer = placer
        self._totals = placer.capacity.totals
        self._headroom_milli = headroom_milli
        self._free_milli = self._totals.free_gpu_milli if headroom_milli else 0
        self._free_whole = self._totals.idle_devices
        self._fitting: dict[tuple[int, AffinityRules, bool], int] = {}  # pods by shape
        self._cached_fits: dict[tuple[Wants, AffinityRules], bool] = {}

    def of_projects(self, projects: Iterable[int]) -> Iterator[EquivalenceClass]:
        """Yield the fitting classes of some projects; only these compete in the queue order."""
        for project in projects:
            for queued in self._cluster.waiting_of[project]:
                if self.fits(queued):
                    yield queued

    def fits(self, queued: EquivalenceClass) -> bool:
        """Return True if the shapes of a class fit, each by itself.

        A gang needs capacity for all its pods of each shape, an elastic workload for one pod of any of them.
        """
        affinity = self._feasibility.affinity(queued.first)
        key = queued.wants, affinity
        fits = self._cached_fits.get(key)
        if fits is None:
            fits = self._cached_fits[key] = self._fits(queued, affinity)
        return fits

    def leaves_headroom(self, queued: EquivalenceClass) -> bool:
        """Return True if a workload of the class leaves the headroom free."""
        want = 0 if queued.step.choices else queued.step.gpu_milli
        return not self._headroom_milli or not want or self._free_milli - want >= self._headroom_milli

    def _fits(self, queued: EquivalenceClass, affinity: AffinityRules) -> bool:
        elastic = queued.step.elastic
        for shape_id in queued.shapes:
            shape, pods = self._cluster.shapes.all[shape_id], 1 if elastic else queued.lack_of(shape_id)
            if shape.whole and (
                shape.devices > self._totals.largest_free_blocks()[0]
                or pods * shape.devices > self._free_whole
            ):
                fitting = 0
            else:
                key = shape_id, affinity, pods > 1  # one pod is a quicker check than several
                cached = self._fitting.get(key)
                if cached is None:
                    count = self._placer.capacity_for if pods > 1 else self._placer.has_capacity
                    cached = self._fitting[key] = int(count(shape, affinity))
                fitting = cached
            if (fitting >= pods) is elastic:
                return elastic
        return not elastic
