"""Shared results of the reasons of one state: each is computed for the first workload that needs it."""

import numpy as np

from weir.engine.allocate import Allocator
from weir.engine.ineligible_victims import Lacks, RunningHoldings
from weir.engine.node_shortages import PodRuleShortages, node_shortages
from weir.engine.preemption_rules import PreemptionRules
from weir.engine.queue_order import Candidate
from weir.engine.shortage_phrases import shortage_of
from weir.engine.shortage_refusals import Shortage
from weir.model.policy import AffinityRules
from weir.state.shapes import RequestShape


class ReasonContext:
    """The state with its quota checks, shortages and holders of capacity, as an allocator has it."""

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        self.cluster, self.policy, self.now_s = allocator.cluster, allocator.policy, allocator.now_s
        self.cache, self.feasibility = allocator.cache, allocator.feasibility
        self.capacity, self.overlay, self.checks = allocator.capacity, allocator.overlay, allocator.checks
        self._holdings: dict[bytes, RunningHoldings] = {}  # by the mask of the counted nodes
        self._shortages: dict[tuple[tuple[int, ...], AffinityRules], Shortage] = {}

    def rules(self, candidate: Candidate) -> PreemptionRules:
        """Return the rights of a candidate."""
        return self.checks.rules_of(candidate, self.now_s)

    def holdings(self, candidate: Candidate, row: int) -> RunningHoldings:
        """Return the amount of a resource that running work holds on the nodes that a candidate may use."""
        usable = np.zeros(self.cluster.capacity.shape[1], np.bool_)
        for _, matching, _ in self.matching(candidate):
            usable |= matching[: len(usable)]
        nodes = None if usable[self.cluster.capacity[row] > 0].all() else usable
        key = b"" if nodes is None else nodes.tobytes()
        found = self._holdings.get(key)
        if found is None:
            found = self._holdings[key] = RunningHoldings(self.cluster, self.policy, self.now_s, nodes)
        return found

    def lacking(self, candidate: Candidate) -> list[tuple[str, RequestShape, int]]:
        """Return the groups that lack pods: name, shape and number."""
        job = candidate.job
        return [
            (job.spec.groups[at].name, job.shapes[at], lack)
            for at, lack in enumerate(candidate.lacks)
            if lack
        ]

    def matching(self, candidate: Candidate) -> Lacks:
        """Return the shapes that lack pods, with the nodes that match each and the number of pods."""
        affinity = self.feasibility.affinity(candidate.job)
        needs = self.lacking(candidate)
        return [
            (shape, self.feasibility.feasible_nodes(shape, affinity)[0], lack) for _, shape, lack in needs
        ]

    def shortage(self, candidate: Candidate) -> Shortage:
        """Return the capacity that a candidate lacks; workloads with equal shapes share it."""
        cluster, capacity, allocator = self.cluster, self.capacity, self.allocator
        affinity = self.feasibility.affinity(candidate.job)
        shapes = [(shape, lack) for _, shape, lack in self.lacking(candidate)]
        if any(shape.pod_rules for shape, _ in shapes):
            with capacity.trial():
                by_rules = PodRuleShortages(allocator, affinity, candidate.job)
                short = [
                    by_rules.find(shape, lack)
                    if shape.pod_rules
                    else node_shortages(allocator, shape, affinity)
                    for shape, lack in shapes
                ]
                return shortage_of(cluster, capacity, short)
        key = tuple([shape.id for shape, _ in shapes]), affinity
        found = self._shortages.get(key)
        if found is None:
            short = [node_shortages(allocator, shape, affinity) for shape, _ in shapes]
            found = self._shortages[key] = shortage_of(cluster, capacity, short)
        return found
