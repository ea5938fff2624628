"""Engine cache: results kept from one cycle to the next. An empty cache gives the same plan."""

from weir.engine.order.pending_order import PendingOrder
from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility_cache import FeasibilityCache
from weir.engine.placement.node_score_table import NodeScoreTable, score_of_mix
from weir.engine.placement.reservation import Reservation
from weir.engine.plan import Plan
from weir.engine.preemption_cache import PreemptionCache
from weir.engine.refusals.kept_refusals import KeptRefusals
from weir.engine.usage.fair_share import FairShareTree
from weir.model.policy import Policy
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Pod

_LOG_MAX = 1 << 16


class EngineCache:
    """Capacity, node scores and evaluated constraints of one cluster.

    A cache belongs to the first cluster it is used with. Without `bounds`, no search is skipped by a bound.
    The plans are the same, which the tests check.
    """

    def __init__(self, *, bounds: bool = True) -> None:
        self.bounds = bounds
        self._cluster: Cluster | None = None
        self.clear()

    def clear(self) -> None:
        """Forget all results. The cache still belongs to its cluster."""
        self.preemption = PreemptionCache()
        self.refusals = KeptRefusals()
        # Valid until an event other than a checkpoint: pending classes with their reservations
        self.reserved: tuple[list[EquivalenceClass], list[Reservation]] | None = None
        self.awaited: dict[str, Pod] = {}  # by nominated workload: a pod whose capacity isn't free yet
        self._policy: Policy | None = None
        self._static_version = -1
        self._capacity: Capacity | None = None
        self._feasibility: FeasibilityCache | None = None
        self._followed = (0, 0)  # epoch and length of the cluster's log
        self._capacity_followed = 0  # length of the capacity's log
        self._share_tree: FairShareTree | None = None
        self._pending_order: PendingOrder | None = None
        # The cluster's changes at a plan without actions, and the time until which that plan holds
        self._unchanged: tuple[int, float] | None = None
        self._mix = (-1, -1)
        self._scores: NodeScoreTable | None = None

    def branch(self, cluster: Cluster, branched: Cluster, policy: Policy) -> "EngineCache":
        """Return a cache for a branch of the cluster, as warm as this one.

        `weir.state.branch` makes branches. Shapes and classes that a branch adds don't change this cache.
        """
        copy = EngineCache(bounds=self.bounds)
        capacity = self.sync(cluster, policy)
        if not _same_size(capacity, branched):
            return copy
        same_quotas = branched.static_version == cluster.static_version
        copy._cluster, copy._policy, copy._static_version = branched, policy, branched.static_version
        start = capacity.state_ids.log_position if capacity.state_ids is not None else len(capacity.log)
        copy._capacity, copy._followed = capacity.branch(start), (branched.log_epoch, 0)
        copy._capacity_followed = len(capacity.log) - start
        copy._feasibility = self.feasibility.branch(branched, same_quotas=same_quotas)
        if same_quotas:
            copy._share_tree = self.share_tree.branch(branched.ledger)
            copy.preemption = self.preemption.branch()
            if self._pending_order is not None:
                copy._pending_order = self._pending_order.branch(branched, copy._feasibility)
        copy._mix = branched.mix.version, branched.static_version
        copy._scores = self.scores.branch(copy._capacity, copy._feasibility)
        return copy

    @property
    def feasibility(self) -> FeasibilityCache:
        """Return the evaluated constraints of the cluster and the policy."""
        assert self._feasibility is not None, "sync comes first"
        return self._feasibility

    @property
    def share_tree(self) -> FairShareTree:
        """Return the fair shares as they were last computed, to be updated."""
        assert self._share_tree is not None, "sync comes first"
        return self._share_tree

    @property
    def scores(self) -> NodeScoreTable:
        """Return the node scores over the current capacity."""
        assert self._scores is not None, "sync comes first"
        return self._scores

    @property
    def pending_order(self) -> PendingOrder:
        """Return the order of pending workloads as it was last, to be updated."""
        if self._pending_order is None:
            assert self._cluster is not None
            assert self._policy is not None, "sync comes first"
            self._pending_order = PendingOrder(self._cluster, self._policy, self.feasibility)
        return self._pending_order

    def sync(self, cluster: Cluster, policy: Policy) -> Capacity:
        """Return the current capacity of the cluster."""
        if self._cluster is None:
            self._cluster = cluster
        assert self._cluster is cluster, "a cache belongs to one cluster: another needs its own"
        if self._share_tree is None or not self._share_tree.is_of(cluster.ledger):
            self._share_tree = FairShareTree(cluster.ledger)
            self._pending_order = None
        epoch, position = self._followed
        capacity, is_known = self._capacity, self._static_version == cluster.static_version
        if policy is not self._policy:
            is_known, self._unchanged = False, None
        if capacity is None or not is_known or epoch != cluster.log_epoch or len(capacity.log) > _LOG_MAX:
            capacity = self._restart(cluster, policy, is_known=is_known)
        else:
            touched = set(cluster.log[position:])
            touched.update(capacity.log[self._capacity_followed :])
            if touched:
                capacity.refresh(cluster, sorted(touched))
        self._followed = (cluster.log_epoch, len(cluster.log))
        self._capacity_followed = len(capacity.log)
        mix = cluster.mix.version, cluster.static_version
        if self._scores is None or self._mix != mix:
            self._mix = mix
            fragmentation = score_of_mix(cluster, self.feasibility) if cluster.mix.drawn else None
            self._scores = NodeScoreTable(capacity, self.feasibility, fragmentation)
        return capacity

    def _restart(self, cluster: Cluster, policy: Policy, *, is_known: bool) -> Capacity:
        self._capacity = Capacity.of(cluster)
        self._scores = self._scores.over(self._capacity) if is_known and self._scores is not None else None
        if not is_known:
            self._feasibility = FeasibilityCache(cluster, policy)
            self.refusals = KeptRefusals()
            self._pending_order = None
            self.preemption.eligibility = None
            self._static_version = cluster.static_version
            self._policy = policy
        return self._capacity

    # Time and changes

    def is_unchanged(self, cluster: Cluster, now_s: float) -> bool:
        """Return True if only checkpoints happened since a plan without actions.

        Otherwise forget the results that hold only in this case.
        """
        changes, until_s = self._unchanged or (-1, 0.0)
        if cluster.changes == changes and now_s < until_s:
            return True
        self.reserved = None
        self.preemption.forget()
        return False

    def wake_s(self) -> float | None:
        """Return the time at which the last plan could change without an event; None if it never does."""
        assert self._unchanged is not None
        return None if self._unchanged[1] == float("inf") else self._unchanged[1]

    def keep(self, cluster: Cluster, plan: Plan) -> None:
        """Keep a plan without actions until time alone could change it."""
        wake_s = float("inf") if plan.wake_s is None else plan.wake_s
        self._unchanged = None if plan.acts else (cluster.changes, wake_s)


def _same_size(capacity: Capacity, cluster: Cluster) -> bool:
    """Return True if a capacity has the columns of a cluster."""
    own, its = capacity.columns, cluster.free_capacity
    return all(
        one.shape == other.shape
        for one, other in ((own.free, its.free), (own.share, its.share), (own.marks, its.marks))
    )
