"""Shared results of the reasons of one state: each is computed for the first workload that needs it."""

from collections.abc import Sequence

import numpy as np

from weir.engine.allocate import Allocator
from weir.engine.cache import EngineCache
from weir.engine.disruption_allowances import DisruptionAllowances
from weir.engine.ineligible_victims import RunningHoldings
from weir.engine.node_shortages import NodeShortages, PodRuleShortages, node_shortages
from weir.engine.preemption_rules import PreemptionRules
from weir.engine.queue_order import Candidate
from weir.engine.quota_checks import QuotaChecks
from weir.engine.quota_overlay import QuotaOverlay
from weir.engine.refusals import Shortage
from weir.engine.shortage_phrases import ShortagePhrases
from weir.engine.transaction import Accounting, Transaction
from weir.engine.usage_overlay import usage_of
from weir.model.policy import AffinityPolicy, Policy
from weir.state.cluster import Cluster
from weir.state.shapes import RequestShape


class ReasonContext:
    """The state with its quota checks, shortages and holders of capacity."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        now_s: float,
        cache: EngineCache,
        allocator: Allocator | None = None,
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.now_s = now_s
        self.cache = cache
        if allocator is None:
            self.capacity = cache.sync(cluster, policy)
            usage, excess = usage_of(cluster, policy, now_s), cache.feasibility.excess
            self.overlay = QuotaOverlay(cluster, policy, usage, cache.share_tree, excess)
            self.checks = QuotaChecks(policy, self.overlay, cache.feasibility)
        else:
            self.capacity, self.overlay, self.checks = allocator.capacity, allocator.overlay, allocator.checks
        self.feasibility = cache.feasibility
        self._holdings: dict[bytes, RunningHoldings] = {}  # by the nodes that count
        self._shortages: dict[tuple[tuple[int, ...], tuple[AffinityPolicy, ...]], Shortage] = {}
        self._allocator = allocator

    @property
    def allocator(self) -> Allocator:
        """Return an allocator over this state, to ask what it would refuse."""
        if self._allocator is None:
            disruptions = DisruptionAllowances(self.cluster, self.policy, self.now_s)
            accounting = Accounting(self.cluster, self.overlay, disruptions)
            transaction = Transaction(self.capacity, accounting)
            self._allocator = Allocator(self.cluster, self.policy, transaction, self.cache, self.now_s)
        return self._allocator

    def rules(self, candidate: Candidate) -> PreemptionRules:
        """Return the rights of a candidate."""
        return self.checks.rules_of(candidate, self.now_s)

    def holdings(self, candidate: Candidate, row: int) -> RunningHoldings:
        """Return what running work holds of a resource on the nodes that a candidate may use."""
        affinity = self.feasibility.affinity(candidate.job)
        usable = np.zeros(self.cluster.capacity.shape[1], np.bool_)
        for _, shape, _ in self.lacking(candidate):
            usable |= self.feasibility.feasible_nodes(shape, affinity)[0][: len(usable)]
        nodes = None if usable[self.cluster.capacity[row] > 0].all() else usable
        key = b"" if nodes is None else nodes.tobytes()
        found = self._holdings.get(key)
        if found is None:
            found = RunningHoldings(self.cluster, self.policy, self.now_s, nodes)
            self._holdings[key] = found
        return found

    def lacking(self, candidate: Candidate) -> list[tuple[str, RequestShape, int]]:
        """Return the groups that lack pods: name, shape and number."""
        job = candidate.job
        return [
            (job.spec.groups[at].name, job.shapes[at], lack)
            for at, lack in enumerate(candidate.lacks)
            if lack
        ]

    def shortage(self, candidate: Candidate) -> Shortage:
        """Return the capacity that a candidate lacks; workloads with equal shapes share it."""
        affinity = self.feasibility.affinity(candidate.job)
        shapes = [(shape, lack) for _, shape, lack in self.lacking(candidate)]
        if any(shape.pod_rules for shape, _ in shapes):
            return self._shortage_by_pod_rules(candidate, shapes, affinity)
        key = tuple([shape.id for shape, _ in shapes]), affinity
        found = self._shortages.get(key)
        if found is None:
            each = [
                node_shortages(self.cluster, self.cache, self.capacity, shape, affinity)
                for shape, _ in shapes
            ]
            found = self._shortages[key] = self._written(each)
        return found

    def _shortage_by_pod_rules(
        self,
        candidate: Candidate,
        shapes: Sequence[tuple[RequestShape, int]],
        affinity: tuple[AffinityPolicy, ...],
    ) -> Shortage:
        """Return the shortage of a workload some of whose pods have affinity rules."""
        cluster, capacity = self.cluster, self.capacity
        capacity.begin()
        by_rules = PodRuleShortages(cluster, self.policy, self.cache, capacity, affinity, candidate.job)
        found = self._written(
            [
                by_rules.find(shape, lack)
                if shape.pod_rules
                else node_shortages(cluster, self.cache, capacity, shape, affinity)
                for shape, lack in shapes
            ]
        )
        capacity.rollback()
        return found

    def _written(self, found: Sequence[NodeShortages]) -> Shortage:
        phrases = ShortagePhrases(self.cluster, self.capacity, found)
        fitting = tuple([shortages.fitting for shortages in found])
        return Shortage(fitting, dict(phrases.short), phrases.sentence(), tuple(phrases.helped))
