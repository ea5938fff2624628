"""Results that depend on nodes, queues, topologies and the policy alone, computed on demand."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

import numpy as np

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import empty_capacity, feasible_nodes, pods_that_fit
from weir.engine.placement.pod_affinity import PodAffinityRules
from weir.engine.placement.topology_levels import TopologyLevel, levels_of, missing_topology
from weir.engine.usage.fair_share import Excess, excess_demand
from weir.model.policy import AffinityRules, Policy
from weir.model.reasons import Reason
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Bools, Ints
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job
from weir.state.quota_usage import Amounts
from weir.state.shapes import GPU_ROW, RequestShape

_CLASSES_KEPT = 64


class FeasibilityCache:
    """Evaluated constraints of one cluster and policy; a change of either needs a new cache."""

    def __init__(self, cluster: Cluster, policy: Policy, spread: Bools | None = None) -> None:
        self._cluster = cluster
        self._policy = policy
        self.spread = _spread(cluster, policy) if spread is None else spread
        total = int(cluster.capacity[GPU_ROW].sum()) if policy.reserve_fraction else 0
        self.headroom_milli = int(policy.reserve_fraction * total / WHOLE_MILLI) * WHOLE_MILLI
        self._allowed: dict[tuple[int, AffinityRules], tuple[Bools, Ints]] = {}
        self._affinity: dict[tuple[int, str], AffinityRules] = {}
        self._levels: dict[str, list[TopologyLevel]] = {}
        self._pod_rules: PodAffinityRules | None = None
        self._could_run: dict[tuple[object, ...], bool] = {}
        self._of_class: dict[EquivalenceClass, bool] = {}  # feasibility by class
        self.infeasible: dict[tuple[object, ...], Reason | None] = {}  # reasons by all that they depend on
        self.one_domain: dict[tuple[object, ...], bool] = {}  # gangs with a preferred level
        self._gpus: Ints | None = None
        self._without: dict[frozenset[str], Bools] = {}
        self._empty: Capacity | None = None
        self._owners: dict[int, tuple[int, dict[EquivalenceClass, int]]] = {}  # by project, with its version

    def branch(self, cluster: Cluster, *, same_quotas: bool) -> "FeasibilityCache":
        """Return a cache for a branch of the cluster, which has the same nodes and topologies."""
        copy = FeasibilityCache(cluster, self._policy, self.spread)
        copy._allowed, copy._levels = self._allowed.copy(), self._levels.copy()
        copy._could_run = self._could_run.copy()
        copy._gpus, copy._empty, copy._without = self._gpus, self._empty, self._without.copy()
        if same_quotas:  # else projects may have other positions and departments
            copy._affinity = self._affinity.copy()
            copy.infeasible, copy.one_domain = self.infeasible.copy(), self.one_domain.copy()
            copy._owners = self._owners.copy()
        return copy

    def affinity(self, job: Job) -> AffinityRules:
        """Return the policy's affinity rules for a workload."""
        if not self._policy.affinity:
            return ()
        key = (job.project, job.type.value)
        rules = self._affinity.get(key)
        if rules is None:
            names = {self._cluster.ledger.queues[queue].name for queue in job.path}
            rules = self._affinity[key] = tuple(
                rule
                for rule in self._policy.affinity
                if (not rule.projects or names & set(rule.projects))
                and (not rule.departments or names & set(rule.departments))
                and (not rule.types or job.type in rule.types)
            )
        return rules

    def feasible_nodes(self, shape: RequestShape, affinity: AffinityRules) -> tuple[Bools, Ints]:
        """Return `feasibility.feasible_nodes`, computed once per distinct constraint."""
        key = (shape.constraint, affinity)
        feasible = self._allowed.get(key)
        if feasible is None:
            feasible = self._allowed[key] = feasible_nodes(self._cluster, shape.request, affinity)
        return feasible

    def levels(self, name: str) -> list[TopologyLevel]:
        """Return the levels of a topology."""
        levels = self._levels.get(name)
        if levels is None:
            levels = self._levels[name] = levels_of(self._cluster, self._cluster.topologies[name])
        return levels

    def level(self, topology: str, label: str) -> TopologyLevel:
        """Return one level of a topology by its label."""
        return self.levels(topology)[self._cluster.topologies[topology].levels.index(label)]

    def pod_rules(self) -> PodAffinityRules:
        """Return the pod affinity rules over the current nodes."""
        if self._pod_rules is None:
            self._pod_rules = PodAffinityRules(self._cluster)
        return self._pod_rules

    def finest_domains(self) -> TopologyLevel | None:
        """Return the finest topology level whose domains have several nodes; None without one."""
        for name in self._cluster.topologies:
            for level in reversed(self.levels(name)):
                if level.count < (level.domain_of >= 0).sum():
                    return level
        return None

    def excess(self) -> Excess:
        """Return the requests of pending workloads that no node could ever take."""
        return excess_demand(self._cluster, self.could_run)

    def could_run(self, queued: EquivalenceClass) -> bool:
        """Return True if a workload of this class fits an empty cluster, each group by itself.

        False for a workload that asks for an unknown topology.
        """
        could_run = self._of_class.get(queued)
        if could_run is None:
            if len(self._of_class) > 2 * len(self._cluster.waiting) + _CLASSES_KEPT:
                self._of_class.clear()  # most of these classes are no longer pending
            could_run = self._of_class[queued] = self._could_run_alone(queued)
        return could_run

    def _could_run_alone(self, queued: EquivalenceClass) -> bool:
        cluster, job = self._cluster, queued.first
        topology = job.topology
        if topology is not None and missing_topology(cluster.topologies, topology) is not None:
            return False
        affinity = self.affinity(job)
        key = queued.gang, affinity
        could_run = self._could_run.get(key)
        if could_run is None:
            empty = self.empty_capacity()
            could_run = self._could_run[key] = all(
                int(pods_that_fit(empty, shape)[self.feasible_nodes(shape, affinity)[0]].sum()) >= need
                for shape, need in zip(job.shapes, job.needed, strict=True)
            )
        return could_run

    def gpus_by_node(self) -> Ints:
        """Return the GPUs of every node; 0 for a lost one."""
        if self._gpus is None:
            gpus = [0 if node is None else node.own_gpus for node in self._cluster.nodes]
            self._gpus = np.array(gpus, np.int64)
        return self._gpus

    def nodes_without(self, models: frozenset[str]) -> Bools:
        """Return the nodes without devices of these models."""
        open_nodes, nodes = self._without.get(models), self._cluster.nodes
        if open_nodes is None:
            open_nodes = self._without[models] = np.ones(len(self.spread), np.bool_)
            open_nodes[: len(nodes)] = [node is None or node.gpu_model not in models for node in nodes]
        return open_nodes

    def empty_capacity(self) -> Capacity:
        """Return the capacity of the cluster without its workloads; it never changes."""
        if self._empty is None:
            self._empty = empty_capacity(self._cluster)
        return self._empty

    def owners(self, project: int) -> dict[EquivalenceClass, int]:
        """Return the number of members of each pending class that the project's quota covers.

        The pending workloads of a project claim its quota in the project's order, even those that can't be
        placed now. So small workloads can't use up the quota that a large one waits for. Within a class the
        oldest members have the claim.
        """
        touched = self._cluster.ledger.touched[project]
        kept = self._owners.get(project)
        if kept is not None and kept[0] == touched:
            return kept[1]
        self._owners[project] = touched, _owners(self._cluster, project, self.could_run)
        return self._owners[project][1]


def _owners(
    cluster: Cluster, project: int, could_run: Callable[[EquivalenceClass], bool]
) -> dict[EquivalenceClass, int]:
    ledger = cluster.ledger
    left = {row: most - ledger.allocated[project][row] for row, most in ledger.bounded[project]}
    pending = cluster.waiting_of.get(project, ())
    line = [
        (queued.line_key(0), queued.number, 0, queued)
        for queued in pending
        if _covers(left, queued.step.request)
    ]
    heapify(line)
    owners: dict[EquivalenceClass, int] = {}
    while line:
        _, _, index, queued = heappop(line)
        request = queued.step.request
        if not _covers(left, request) or not could_run(queued):
            continue
        count = 1
        if not line:  # last class: take all members that still fit at once
            most = [left[row] // amount for row, amount in request if amount and row in left]
            count = min([len(queued.members) - index, *most])
        for row, amount in request:
            if row in left:
                left[row] -= amount * count
        owners[queued] = index + count
        if line and index + 1 < len(queued.members):
            heappush(line, (queued.line_key(index + 1), queued.number, index + 1, queued))
    return owners


def _covers(left: dict[int, int], request: Amounts) -> bool:
    """Return True if the remaining quota covers the request; rows without a quota are unlimited."""
    return not [row for row, amount in request if amount > left.get(row, amount)]


def _spread(cluster: Cluster, policy: Policy) -> Bools:
    """Return the nodes that follow `spread`: by their first matching pool, else by the default."""
    spread = np.full(cluster.free_capacity.free.shape[1], policy.placement == "spread", np.bool_)
    for index, node in enumerate(cluster.nodes):
        for pool in policy.node_pools:
            if node is not None and all(node.labels.get(k) == v for k, v in pool.node_labels.items()):
                spread[index] = pool.placement == "spread"
                break
    return spread
