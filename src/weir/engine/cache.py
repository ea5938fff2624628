"""Engine cache: results kept from one cycle to the next. An empty cache gives the same plan."""

from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weir.engine.capacity import Capacity
from weir.engine.fair_share import FairShares
from weir.engine.feasibility import Bools, empty_columns, feasible_nodes, pods_that_fit
from weir.engine.fragmentation import FragmentationScore
from weir.engine.never_runs import Excess, NeverRuns
from weir.engine.node_scores import NodeScores
from weir.engine.plan import Plan
from weir.engine.pod_affinity import PodAffinityRules
from weir.engine.topology_levels import TopologyLevel, levels_of, missing_topology
from weir.model.policy import AffinityPolicy, Policy
from weir.model.workloads import WHOLE_MILLI, TopologyRequest
from weir.state.capacity_columns import CapacityColumns, Ints, idle_devices
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job, Size, Wants
from weir.state.quota_usage import Amounts
from weir.state.shapes import GPU_ROW, RequestShape

if TYPE_CHECKING:
    from weir.engine.queue_order import RuntimeKeyOrder
    from weir.engine.reservation import Reservation

_LOG_MOST = 1 << 16
_CLASSES_KEPT = 64


class ConsolidationKey(NamedTuple):
    """Key of the consolidation bound: equal for workloads that the same moves could help."""

    wants: Wants
    topology: TopologyRequest | None
    may_scatter: bool
    is_running: bool
    protect_in_quota: bool


CandidateSets = dict[ConsolidationKey | None, list[tuple[EquivalenceClass, int]]]
"""Waiting workloads for which something may be done: somebody stopped (None), or else others moved."""


class FailedConsolidation(NamedTuple):
    """Consolidation that can't succeed by bounds, with the saves and changes when it failed.

    With these as the two largest holes, and, if only theirs are moved, these projects over quota.
    """

    saves: int
    at: int
    holes: tuple[int, int]
    lenders: frozenset[int]


class Eligibility(NamedTuple):
    """Options of a project's pending workloads, valid while the project's usage doesn't change.

    Some may have others stopped; for some only moves could make room, with so many thousandths of devices
    free. Of those without a claim to more the longest waits since `since_s`, and since `gang_since_s` the
    longest of the gangs that wait for one domain.
    """

    touched: int
    since_s: float
    gang_since_s: float
    takers: list[tuple[EquivalenceClass, int]]
    movers: list[tuple[EquivalenceClass, int, ConsolidationKey, int]]


class FailedReclaim(NamedTuple):
    """Jobs that together don't free enough for a workload on the nodes open to it.

    `until_s` is when time alone makes an end to what keeps two from stopping one another in turn.
    """

    until_s: float
    jobs: frozenset[Job]
    open: Bools | None

    def still(self, jobs: AbstractSet[Job], open_: Bools | None) -> bool:
        """Return True if the failure covers these jobs and nodes, too."""
        if self.open is None or open_ is None:
            return self.open is open_ and jobs <= self.jobs
        return jobs <= self.jobs and bool((self.open == open_).all())


class Sleeping(NamedTuple):
    """A request that no preemption can help by bounds, until a time or a checkpoint.

    Said after so many saves; whose project is among those `asked` counted then already.
    """

    until_s: float
    saves: int
    asked: Bools


class EngineCache:
    """Capacity, node scores and evaluated constraints of one cluster.

    A memo belongs to the first cluster it is used with. With `bounds` off, every search is made that a
    bound would have spared: the plans are the same, which the tests check.
    """

    def __init__(self, *, bounds: bool = True) -> None:
        self.bounds = bounds
        self._cluster: Cluster | None = None
        self.capacity: Capacity | None = None
        self._shares: tuple[int, FairShares] | None = None  # with the changes by then
        self._quiet: tuple[int, float] | None = (
            None  # changes when a plan did nothing, and until when it holds
        )
        self._no_victims: dict[
            tuple[EquivalenceClass, int, bool], FailedReclaim
        ] = {}  # since anything changed
        self._no_victims_version = -1
        self.moves_in_vain: dict[ConsolidationKey, FailedConsolidation] = {}
        self.able: dict[int, Eligibility] = {}  # by project
        # What holds while it stays quiet
        self.hopes: CandidateSets | None = None  # who waited when it began
        self.asleep: dict[
            tuple[EquivalenceClass, int], Sleeping
        ] = {}  # those of them nothing can be done for
        self.reserved: tuple[list[EquivalenceClass], list[Reservation]] | None = None  # and for whom
        self.lines: dict[
            Size, list[tuple[RuntimeKeyOrder, EquivalenceClass, int]]
        ] = {}  # who may change places
        self._could_run: dict[tuple[object, ...], bool] = {}
        self._of_class: dict[EquivalenceClass, bool] = {}  # the same by class
        self._never_runs = NeverRuns()
        self._empty: tuple[CapacityColumns, Ints, Ints] | None = None
        self._owners: dict[
            int, tuple[int, dict[EquivalenceClass, int]]
        ] = {}  # by project, while it is untouched
        self._followed = (0, 0)
        self._room_at = 0
        self._static = -1
        self._policy: Policy | None = None
        self._allowed: dict[tuple[int, tuple[AffinityPolicy, ...]], tuple[Bools, Ints]] = {}
        self._rankings: dict[tuple[int, tuple[AffinityPolicy, ...]], NodeScores] = {}
        self._levels: dict[str, list[TopologyLevel]] = {}
        self._pod_rules: PodAffinityRules | None = None
        self._mix = (-1, -1)
        self._potential: FragmentationScore | None = None
        self._affinity: dict[tuple[int, str], tuple[AffinityPolicy, ...]] = {}
        self._spread: Bools = np.zeros(0, np.bool_)
        self.headroom_milli = 0  # of devices, to stay free of work over quota

    def sync(self, cluster: Cluster, policy: Policy) -> Capacity:
        """Return the capacity as the cluster has it now."""
        if self._cluster is None:
            self._cluster = cluster
        assert self._cluster is cluster, "a memo belongs to one cluster: another needs its own"
        epoch, at = self._followed
        capacity = self.capacity
        if policy is not self._policy:
            self._quiet = self._shares = None
            self._no_victims.clear()
        if (
            capacity is None
            or self._static != cluster.static_version
            or epoch != cluster.log_epoch
            or policy is not self._policy
            or len(capacity.log) > _LOG_MOST
        ):
            capacity = self._restart(cluster, policy)
        else:
            touched = set(cluster.log[at:])
            touched.update(capacity.log[self._room_at :])
            if touched:
                capacity.refresh(cluster, sorted(touched))
        self._followed = (cluster.log_epoch, len(cluster.log))
        self._room_at = len(capacity.log)
        if self._mix != (cluster.mix.version, cluster.static_version):
            self._mix = (cluster.mix.version, cluster.static_version)
            self._potential = self._drawn(cluster) if cluster.mix.drawn else None
            self._rankings.clear()
        return capacity

    def _restart(self, cluster: Cluster, policy: Policy) -> Capacity:
        self.capacity = Capacity.of(cluster)
        self._rankings.clear()
        self.moves_in_vain.clear()
        if self._static != cluster.static_version or policy is not self._policy:
            self._allowed.clear()
            self._affinity.clear()
            self._could_run.clear()
            self._of_class.clear()
            self._never_runs.forget()
            self._empty = None
            self._owners.clear()
            self.able.clear()
            self._levels.clear()
            self._pod_rules = None
            self._static = cluster.static_version
            self._policy = policy
            self._spread = _spread(cluster, policy)
            total = int(cluster.capacity[GPU_ROW].sum()) if policy.reserve_fraction else 0
            self.headroom_milli = int(policy.reserve_fraction * total / WHOLE_MILLI) * WHOLE_MILLI
        return self.capacity

    def _drawn(self, cluster: Cluster) -> FragmentationScore:
        """Return the fragmentation score for the current request mix."""
        assert cluster.mix.free_capacity is not None
        rows, nodes = cluster.free_capacity.free.shape
        capacity = cluster.mix.free_capacity.grown(rows, nodes, cluster.free_capacity.share.shape[1])
        devices = np.array([node.own_gpus if node is not None else 0 for node in cluster.nodes], np.int64)
        return FragmentationScore(
            () if self._devices_alone_count(cluster) else cluster.mix.drawn,
            lambda shape: self.feasible_nodes(cluster, shape, ())[0],
            Capacity(capacity, np.array(cluster.device_memory, np.int64)),
            int(devices.sum()) * WHOLE_MILLI,
        )

    def _devices_alone_count(self, cluster: Cluster) -> bool:
        """Return True if recent requests use exclusive GPUs on any node, and GPUs are the scarcest.

        Then no device is ever stranded beside free ones, and what is left is to keep whole nodes free as
        pods come and go: the fuller node first, which empties the others.
        """
        gpus = np.array([node.own_gpus if node is not None else 0 for node in cluster.nodes], np.int64)
        with_gpus = np.flatnonzero(gpus)
        capacity = cluster.capacity[:, with_gpus]
        for shape, _ in cluster.mix.drawn:
            if not shape.devices:
                continue
            if not shape.whole or not self.feasible_nodes(cluster, shape, ())[0][with_gpus].all():
                return False
            for row, amount in shape.needs:
                if (amount * gpus[with_gpus] > capacity[row] * shape.devices).any():
                    return False
        return True

    def affinity(self, cluster: Cluster, job: Job) -> tuple[AffinityPolicy, ...]:
        """Return the policy's affinity rules for a workload."""
        assert self._policy is not None
        if not self._policy.affinity:
            return ()
        key = (job.project, job.type.value)
        found = self._affinity.get(key)
        if found is None:
            names = {cluster.ledger.queues[queue].name for queue in job.path}
            found = self._affinity[key] = tuple(
                rule
                for rule in self._policy.affinity
                if (not rule.projects or names & set(rule.projects))
                and (not rule.departments or names & set(rule.departments))
                and (not rule.types or job.type in rule.types)
            )
        return found

    def feasible_nodes(
        self, cluster: Cluster, shape: RequestShape, affinity: tuple[AffinityPolicy, ...]
    ) -> tuple[Bools, Ints]:
        """`weir.engine.feasibility.allowed`, once per distinct constraint."""
        key = (shape.constraint, affinity)
        found = self._allowed.get(key)
        if found is None:
            found = self._allowed[key] = feasible_nodes(cluster, shape.request, affinity)
        return found

    def is_quiet(self, cluster: Cluster, now_s: float) -> bool:
        """Return True if nothing but checkpoints happened since a plan without actions.

        Else what holds in quiet times alone is forgotten.
        """
        quiet = self._quiet is not None and cluster.changes == self._quiet[0] and now_s < self._quiet[1]
        if not quiet:
            self.hopes = self.reserved = None
            self.asleep.clear()
            if len(self.moves_in_vain) > 2 * len(cluster.waiting) + _CLASSES_KEPT:
                self.moves_in_vain.clear()  # most of them wait no more
        if not quiet or (self._policy is not None and self._policy.usage.k):
            self.lines.clear()  # shares change with time, too, and the keys with them
        return quiet

    def wake_s(self) -> float | None:
        """Return the time at which the last plan could change by time alone."""
        assert self._quiet is not None
        return None if self._quiet[1] == float("inf") else self._quiet[1]

    def shares_known(self, cluster: Cluster) -> FairShares | None:
        """Return the fair shares if nothing that they depend on has changed."""
        assert self._policy is not None
        if self._shares is None or self._policy.usage.k or self._shares[0] != cluster.changes:
            return None
        return self._shares[1]

    def note(self, cluster: Cluster, plan: Plan, shares: FairShares | None) -> None:
        """Keep the shares, and a plan without actions until time alone could change it."""
        wake_s = float("inf") if plan.wake_s is None else plan.wake_s
        self._quiet = None if plan.acts else (cluster.changes, wake_s)
        if plan.acts:  # who could take from nobody was asked beside what the plan does
            self._no_victims.clear()
        self._shares = None if shares is None else (cluster.changes, shares)

    def no_victims(self, cluster: Cluster) -> dict[tuple[EquivalenceClass, int, bool], FailedReclaim]:
        """Return the failed reclaims by class member and patience, since the last change.

        Not those that only found nobody cheap enough: prices change by time alone.
        """
        if self._no_victims_version != cluster.changes:
            self._no_victims_version = cluster.changes
            self._no_victims.clear()
        return self._no_victims

    def excess(self, cluster: Cluster) -> Excess:
        """Return what pending workloads ask for that no node could ever take."""
        return self._never_runs.excess(cluster, self.could_run)

    def could_run(self, cluster: Cluster, of: EquivalenceClass) -> bool:
        """Return True if a workload of this class fits an empty cluster, each group by itself.

        Never one that asks for a topology there isn't.
        """
        known = self._of_class.get(of)
        if known is not None:
            return known
        if len(self._of_class) > 2 * len(cluster.waiting) + _CLASSES_KEPT:
            self._of_class.clear()  # most of them wait no more
        found = self._of_class[of] = self._could_run_alone(cluster, of)
        return found

    def _could_run_alone(self, cluster: Cluster, of: EquivalenceClass) -> bool:
        job = of.first
        topology = job.topology
        if topology is not None and missing_topology(cluster.topologies, topology) is not None:
            return False
        affinity = self.affinity(cluster, job)
        key = of.gang, affinity
        found = self._could_run.get(key)
        if found is None:
            if self._empty is None:
                empty = empty_columns(cluster)
                self._empty = empty, idle_devices(empty.share), np.array(cluster.device_memory, np.int64)
            found = self._could_run[key] = all(
                int(
                    pods_that_fit(*self._empty, shape)[self.feasible_nodes(cluster, shape, affinity)[0]].sum()
                )
                >= need
                for shape, need in zip(job.shapes, job.needed, strict=True)
            )
        return found

    def owners(self, cluster: Cluster, project: int) -> dict[EquivalenceClass, int]:
        """Return the number of members of each pending class that the project's quota covers.

        The waiting of a project are walked in its own order; whoever still fits into the quota, with
        what those before claim, has a claim too, whether it can be placed or not: so small ones can't
        eat up what a large one waits for. Within a class it is always the first so many.
        """
        ledger = cluster.ledger
        touched = ledger.touched[project]
        kept = self._owners.get(project)
        if kept is not None and kept[0] == touched:
            return kept[1]
        left = {row: most - ledger.allocated[project][row] for row, most in ledger.bounded[project]}
        waiting = cluster.waiting_of.get(project, ())
        line = [(of.line_key(0), of.number, 0, of) for of in waiting if _fits(of.step.asks, left)]
        heapify(line)
        found: dict[EquivalenceClass, int] = {}
        while line:
            _, _, at, of = heappop(line)
            asks = of.step.asks
            if not _fits(asks, left) or not self.could_run(cluster, of):
                continue
            more = 1
            if not line:  # there is no other class: all that still fit at once
                most = [left[row] // amount for row, amount in asks if amount and row in left]
                more = min([len(of.members) - at, *most])
            for row, amount in asks:
                if row in left:
                    left[row] -= amount * more
            found[of] = at + more
            if line and at + 1 < len(of.members):
                heappush(line, (of.line_key(at + 1), of.number, at + 1, of))
        self._owners[project] = (touched, found)
        return found

    def levels(self, cluster: Cluster, name: str) -> list[TopologyLevel]:
        """Return the levels of a topology."""
        found = self._levels.get(name)
        if found is None:
            found = self._levels[name] = levels_of(cluster, cluster.topologies[name])
        return found

    def pod_rules(self, cluster: Cluster) -> PodAffinityRules:
        """Return the pod affinity rules over the current nodes."""
        if self._pod_rules is None:
            self._pod_rules = PodAffinityRules(cluster)
        return self._pod_rules

    def finest_domains(self, cluster: Cluster) -> TopologyLevel | None:
        """Return the finest level with more than one node a domain; small work keeps those whole."""
        for name in cluster.topologies:
            for level in reversed(self.levels(cluster, name)):
                if level.count < (level.of >= 0).sum():
                    return level
        return None

    def ranking(
        self, cluster: Cluster, shape: RequestShape, affinity: tuple[AffinityPolicy, ...] = ()
    ) -> NodeScores:
        """Return the node scores of a shape over the current capacity, without pod affinity."""
        assert self.capacity is not None
        shape = shape.plain or shape
        found = self._rankings.get((shape.id, affinity))
        if found is None:
            found = self.fresh_ranking(cluster, self.capacity, shape, affinity)
            self._rankings[(shape.id, affinity)] = found
        return found

    def fresh_ranking(
        self, cluster: Cluster, capacity: Capacity, shape: RequestShape, affinity: tuple[AffinityPolicy, ...]
    ) -> NodeScores:
        """Return new node scores of a shape over any capacity."""
        mask, wish = self.feasible_nodes(cluster, shape, affinity)
        return NodeScores(capacity, shape, mask, wish, self._spread, self._potential)


def _fits(asks: Amounts, left: dict[int, int]) -> bool:
    """Return True if the remaining quota covers the request; rows without a quota are unlimited."""
    return not [row for row, amount in asks if amount > left.get(row, amount)]


def _spread(cluster: Cluster, policy: Policy) -> Bools:
    """Return the nodes that follow `spread`: by their first matching pool, else by the default."""
    spread = np.full(cluster.free_capacity.free.shape[1], policy.placement == "spread", np.bool_)
    for at, node in enumerate(cluster.nodes):
        for pool in policy.node_pools:
            if node is not None and all(node.labels.get(k) == v for k, v in pool.node_labels.items()):
                spread[at] = pool.placement == "spread"
                break
    return spread
