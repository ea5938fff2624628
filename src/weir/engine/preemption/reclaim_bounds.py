"""Upper bounds on the capacity that reclaim can free, over all nodes at once, before any search.

These are bounds: what is refused here would be refused in the end, and what isn't may be. Devices are
counted in thousandths: a shared device is free once all parts of it are.
"""

import numpy as np

from weir.engine.allocation.allocate import Allocator
from weir.engine.placement.feasibility import shares_for_memory
from weir.engine.protection.preemption_rules import PreemptionRules
from weir.engine.victims.move_bounds import MoveBounds
from weir.engine.victims.preemption_context import PreemptionContext
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Bools, Ints
from weir.state.shapes import RequestShape


class ReclaimBounds:
    """Bounds of preemption in one cycle."""

    def __init__(self, allocator: Allocator) -> None:
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._feasibility = allocator.feasibility
        self._searches_all = not allocator.cache.bounds
        self._now_s = allocator.now_s
        self.moves = MoveBounds(allocator)

    def could_reclaim(self, rules: PreemptionRules, context: PreemptionContext) -> bool:
        """Return True if the request could fit without all eligible victims and all cheap moves."""
        if self._searches_all:
            return True
        running, capacity = self._cluster.running_pods, context.placer.capacity
        eligible = self._eligible(rules)
        rows = running.takeable(eligible)
        if self._cluster.refused:
            refused = [
                pod.row for pod in self._cluster.refused if context.accounting.disruptions.was_refused(pod)
            ]
            rows = rows[~np.isin(rows, refused)]
        free = capacity.whole * WHOLE_MILLI + self._most_moved(rules, capacity.whole, ~eligible)
        if any(self._cluster.ledger.sharing[queue] for queue in self._cluster.ledger.top):
            free += capacity.partly_free()
        free += np.bincount(running.node[rows], running.milli[rows], len(free)).astype(np.int64)
        affinity = context.affinity_of(rules.job)
        for shape, lack in zip(rules.job.shapes, rules.candidate.lacks, strict=True):
            if lack and shape.devices:
                may = self._feasibility.feasible_nodes(shape, affinity)[0]
                each = shape.devices * _least_milli(
                    shape, capacity.device_memory[may[: len(capacity.device_memory)]]
                )
                if int((free // each)[may].sum()) < lack:
                    return False
        return True

    def _most_moved(self, rules: PreemptionRules, free: Ints, may: Bools) -> Ints:
        """Return by node the thousandths of devices of these projects' pods that are cheap to move."""
        consolidation, price = self._policy.consolidation, self._policy.price
        if not consolidation.enabled:
            return np.zeros_like(free)
        budget = consolidation.budget
        if rules.job.topology is not None:
            budget = max(budget, self._policy.topology.budget)
        if consolidation.protect_in_quota and not rules.is_owner:
            may = may & self.moves.over_quota
        running, free_blocks = self._cluster.running_pods, np.full(len(free), free.max(initial=0))
        broken = self._cluster.incomplete.values()
        rows, _ = running.movable(self._now_s, budget, price.restart, free_blocks, may, broken)
        return np.bincount(running.node[rows], running.milli[rows], len(free)).astype(np.int64)

    def _eligible(self, rules: PreemptionRules) -> Bools:
        """Return the projects that may give; for a requester below a department all, as one opens others."""
        ledger = self._cluster.ledger
        eligible = np.ones(len(ledger.path), np.bool_)
        if len(rules.path) == 1:
            for project in self._cluster.running:
                eligible[project] = project != rules.job.project and rules.may_ask(ledger.path[project])
        return eligible


def _least_milli(shape: RequestShape, device_memory: Ints) -> int:
    """Return the least thousandths of a device that a shape takes on nodes with this memory by device."""
    if not shape.gpu_memory:
        return shape.share_milli
    return int(shares_for_memory(shape, device_memory).min(initial=WHOLE_MILLI))
