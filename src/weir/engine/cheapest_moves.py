"""Nodes where moves for one pod cost least, by bounds over all nodes at once.

Victims are gathered one by one, so a search among a few nodes comes first. If it finds moves that are cheaper
than any others, there is no second one.
"""

from typing import NamedTuple

import numpy as np

from weir.engine.move_bounds import least_move_prices
from weir.engine.preemption_context import PreemptionContext
from weir.engine.preemption_rules import PreemptionRules
from weir.engine.victim_sets import PRICE_DIGITS, Tier
from weir.state.capacity_columns import Bools, Floats, Ints

NODES_MOST = 16
"""Nodes that are searched first."""


class CheapestMoves(NamedTuple):
    """Nodes to search. Other nodes have no moves with a `set_key` below `below`; None: no such moves."""

    nodes: Bools
    below: Tier | None


def cheapest_moves(context: PreemptionContext, rules: PreemptionRules) -> CheapestMoves | None:
    """Return the nodes to search first for one missing pod; None if no bound is known."""
    lacks = rules.candidate.lacks
    if sum(lacks) != 1 or not context.bounds:
        return None
    shape = rules.job.shapes[lacks.index(1)]
    if not (shape.whole and shape.devices):
        return None
    rows, price_of_row = _movable(context, rules)
    running = context.cluster.running_pods
    least = least_move_prices(context.placer.capacity, shape.devices, running, rows, price_of_row)
    price = np.round(least, PRICE_DIGITS)
    known = np.flatnonzero((price > 0.0) & (price <= context.policy.consolidation.budget))
    if len(known) <= 2 * NODES_MOST:
        return CheapestMoves(price <= context.policy.consolidation.budget, None)
    youngest_s = np.full(len(price), -np.inf)
    np.maximum.at(youngest_s, running.node[rows], running.submitted_s[rows])
    last = known[np.lexsort((-youngest_s[known], price[known]))[NODES_MOST]]
    price_most, oldest_s = float(price[last]), float(youngest_s[last])
    nodes = (price < price_most) | ((price == price_most) & (youngest_s > oldest_s))
    return CheapestMoves(nodes, (price_most, 1, [(-oldest_s, "")]))


def _movable(context: PreemptionContext, rules: PreemptionRules) -> tuple[Ints, Floats]:
    """Return row and price of each pod that may be moved for a requester, and of some that may not."""
    cluster, capacity, policy = context.cluster, context.placer.capacity, context.policy
    projects = None
    if policy.consolidation.protect_in_quota and not rules.is_owner:
        over_any_quota = context.accounting.overlay.over_any_quota
        projects = np.array([over_any_quota(path) for path in cluster.ledger.path], np.bool_)
    free_blocks = np.full(len(capacity.whole), capacity.totals.largest_free_blocks()[0])
    budget, restart, broken = policy.consolidation.budget, policy.price.restart, cluster.incomplete.values()
    return cluster.running_pods.movable(context.now_s, budget, restart, free_blocks, projects, broken)
