"""Upper bounds on the capacity that reclaim can free, over all nodes at once, before any search.

These are bounds: what is refused here would be refused in the end, and what isn't may be. Devices are
counted in thousandths: a shared device is free once all parts of it are.
"""

import numpy as np

from weir.engine.placement.feasibility import shares_for_memory
from weir.engine.protection.preemption_rules import PreemptionRules
from weir.engine.victims.move_bounds import MoveBounds
from weir.engine.victims.preemption_context import PreemptionContext
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Bools, Ints
from weir.state.cluster import Cluster
from weir.state.shapes import RequestShape


def could_reclaim(rules: PreemptionRules, context: PreemptionContext, moves: MoveBounds) -> bool:
    """Return True if the request could fit without all eligible victims and all cheap moves."""
    if not context.bounds:
        return True
    cluster, capacity = context.cluster, context.placer.capacity
    running, eligible = cluster.running_pods, _eligible(rules, cluster)
    rows = running.takeable(eligible)
    if cluster.refused:
        refused = [pod.row for pod in cluster.refused if context.accounting.disruptions.was_refused(pod)]
        rows = rows[~np.isin(rows, refused)]
    free = capacity.whole * WHOLE_MILLI + _most_moved(rules, context, moves, ~eligible)
    if any(cluster.ledger.sharing[queue] for queue in cluster.ledger.top):
        free += capacity.partly_free()
    free += np.bincount(running.node[rows], running.milli[rows], len(free)).astype(np.int64)
    affinity, memory = context.affinity_of(rules.job), capacity.device_memory
    for shape, lack in zip(rules.job.shapes, rules.candidate.lacks, strict=True):
        if lack and shape.devices:
            may = context.feasible_nodes(shape, affinity)[0]
            each = shape.devices * _least_milli(shape, memory[may[: len(memory)]])
            if int((free // each)[may].sum()) < lack:
                return False
    return True


def _most_moved(rules: PreemptionRules, context: PreemptionContext, moves: MoveBounds, may: Bools) -> Ints:
    """Return by node the thousandths of devices of these projects' pods that are cheap to move."""
    consolidation, free = context.policy.consolidation, context.placer.capacity.whole
    if not consolidation.enabled:
        return np.zeros_like(free)
    budget = consolidation.budget
    if rules.job.topology is not None:
        budget = max(budget, context.policy.topology.budget)
    if consolidation.protect_in_quota and not rules.is_owner:
        may = may & moves.over_quota
    running, restart = context.cluster.running_pods, context.policy.price.restart
    free_blocks, broken = np.full(len(free), free.max(initial=0)), context.cluster.incomplete.values()
    rows, _ = running.movable(context.now_s, budget, restart, free_blocks, may, broken)
    return np.bincount(running.node[rows], running.milli[rows], len(free)).astype(np.int64)


def _eligible(rules: PreemptionRules, cluster: Cluster) -> Bools:
    """Return the projects that may give; for a requester below a department all, as one opens others."""
    eligible = np.ones(len(cluster.ledger.path), np.bool_)
    if len(rules.path) == 1:
        for project in cluster.running:
            eligible[project] = project != rules.job.project and rules.may_ask(cluster.ledger.path[project])
    return eligible


def _least_milli(shape: RequestShape, device_memory: Ints) -> int:
    """Return the least thousandths of a device that a shape takes on nodes with this memory by device."""
    if not shape.gpu_memory:
        return shape.share_milli
    return int(shares_for_memory(shape, device_memory).min(initial=WHOLE_MILLI))
