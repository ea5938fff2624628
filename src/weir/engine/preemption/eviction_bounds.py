"""Upper bounds on the capacity that evictions and cheap moves can free, before any victim is looked at.

Where budgets and minimum run times protect running work, many requests are hopeless alike. So one bound
counts the work that any requester might evict. Only requests within it are checked by their own rights.
"""

import numpy as np

from weir.engine.placement.feasibility import shares_for_memory
from weir.engine.protection.preemption_rules import PreemptionRules
from weir.engine.victims.move_bounds import MoveBounds
from weir.engine.victims.preemption_context import PreemptionContext
from weir.model.policy import AffinityRules
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Bools, Ints
from weir.state.running_pods import held_milli


class EvictionBounds:
    """Bounds of one cycle. Each plan changes the capacity, so it ends them."""

    def __init__(self, context: PreemptionContext, moves: MoveBounds) -> None:
        self._context = context
        self._path = context.cluster.ledger.path
        self._moves = moves
        # Free thousandths of devices by node without all work that any requester might evict, and the pods of
        # a shape that fit there
        self._free: dict[tuple[bool, ...], tuple[Ints, dict[tuple[int, AffinityRules], int]]] = {}

    def forget(self) -> None:
        """Forget the bounds, and those of moves, after a plan."""
        self._moves.forget(self._context.placer.capacity)
        self._free.clear()

    def could_help(self, rules: PreemptionRules, *, reclaims: bool, overrides: bool = False) -> bool:
        """Return True if the request could fit once all eligible victims and cheap moves are gone.

        `reclaims`: they are of other projects. `overrides`: budgets don't protect their work over quota.
        Below a department one victim opens others, so there the victims of any requester count.
        """
        key = reclaims, overrides, rules.is_owner, rules.job.topology is None
        if not self._context.bounds:
            return True
        if key not in self._free or self._context.placement.outages:  # they withhold devices from some
            projects = self._reclaimable() if reclaims else np.ones(len(self._path), np.bool_)
            self._free[key] = self._free_milli(rules, projects, overrides=overrides), {}
        if not self._fits(rules, *self._free[key]):
            return False
        if not reclaims or len(rules.path) > 1:
            return True
        eligible = self._reclaimable()
        for project in np.flatnonzero(eligible).tolist():
            eligible[project] = project != rules.job.project and rules.may_ask(self._path[project])
        return self._fits(rules, self._free_milli(rules, eligible, overrides=overrides), {})

    def _reclaimable(self) -> Bools:
        """Return the projects of which any requester might reclaim work.

        Guarantees that are scaled down may open work within its quota, if the priorities of queues differ.
        """
        one_priority = len(set(self._context.cluster.ledger.priority)) == 1
        return self._moves.over_quota.copy() if one_priority else np.ones(len(self._path), np.bool_)

    def _free_milli(self, rules: PreemptionRules, projects: Bools, *, overrides: bool) -> Ints:
        """Return the free thousandths of devices by node without victims of some projects and cheap moves."""
        cluster, capacity, policy = self._context.cluster, self._context.placer.capacity, self._context.policy
        running, consolidation = cluster.running_pods, policy.consolidation
        may_stop, may_move = self._context.protections.evictable(cluster, overrides=overrides)
        goes, stopped = np.zeros_like(may_stop), running.takeable(projects)
        goes[stopped] = may_stop[stopped]
        if consolidation.enabled:
            budget = consolidation.budget
            if rules.job.topology is not None:
                budget = max(budget, policy.topology.budget)
            spares = consolidation.protect_in_quota and not rules.is_owner
            moved, _ = self._moves.could_move(budget, spares, beside_stops=True)
            goes[moved] |= may_move[moved]
        free = capacity.whole * WHOLE_MILLI
        if any(cluster.ledger.sharing[queue] for queue in cluster.ledger.top):
            free += capacity.partly_free()
        held = held_milli(running, capacity.device_memory)[goes]
        free += np.bincount(running.node[goes], held, len(free)).astype(np.int64)
        return free

    def _fits(
        self, rules: PreemptionRules, free_milli: Ints, pods_max: dict[tuple[int, AffinityRules], int]
    ) -> bool:
        """Return True if the request fits in these free thousandths of devices by node."""
        affinity, memory = self._context.affinity_of(rules.job), self._context.placer.capacity.device_memory
        for shape, lack in zip(rules.job.shapes, rules.candidate.lacks, strict=True):
            key = shape.id, affinity
            if lack and shape.devices and key not in pods_max:
                may, milli = self._context.feasible_nodes(shape, affinity)[0], shape.share_milli
                if shape.gpu_memory:
                    shares = shares_for_memory(shape, memory[may[: len(memory)]])
                    milli = int(shares.min(initial=WHOLE_MILLI))
                pods_max[key] = int((free_milli // (shape.devices * milli))[may].sum())
            if lack and shape.devices and pods_max[key] < lack:
                return False
        return True
