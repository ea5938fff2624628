"""Nodes where moves for one pod cost least, by bounds over all nodes at once.

Victims are gathered one by one, so a search among a few nodes comes first. If it finds moves that are cheaper
than any others, there is no second one.
"""

from typing import NamedTuple

import numpy as np

from weir.engine.placement.capacity import Capacity
from weir.engine.protection.preemption_rules import PreemptionRules
from weir.engine.victims.knapsack import NO_BOUND
from weir.engine.victims.move_bounds import MoveBounds
from weir.engine.victims.preemption_context import PreemptionContext
from weir.engine.victims.victim_sets import PRICE_DIGITS, Tier
from weir.state.capacity_columns import Floats, Ints
from weir.state.running_pods import RunningColumns

NODES_MOST = 16
"""Nodes that are searched first."""


class CheapestMoves(NamedTuple):
    """Nodes to search, each with a lower bound of the `set_key` of moves there, and the running pods there.

    Moves on other nodes have a `set_key` above `below`; None if there are none.
    """

    rows: Ints
    least: dict[int, Tier]
    below: Tier | None


def cheapest_moves(
    context: PreemptionContext, rules: PreemptionRules, moves: MoveBounds
) -> CheapestMoves | None:
    """Return the nodes to search first for one missing pod; None if no bound is known.

    Outages keep devices from some workloads, which bounds shared by all workloads ignore.
    """
    lacks = rules.candidate.lacks
    if sum(lacks) != 1 or not context.bounds or context.placement.outages:
        return None
    shape = rules.job.shapes[lacks.index(1)]
    if not (shape.whole and shape.devices):
        return None
    running, consolidation = context.cluster.running_pods, context.policy.consolidation
    budget, spares = consolidation.budget, consolidation.protect_in_quota and not rules.is_owner
    rows, _ = moves.could_move(budget, spares)
    least = moves.least_prices(shape.devices, budget, spares)
    price = _clearable(context.placer.capacity, shape.devices, running, rows, least)
    node = running.node[rows]
    youngest_s = np.full(len(price), -np.inf)
    np.maximum.at(youngest_s, node, running.submitted_s[rows])
    nodes, below = price <= budget, None
    known = np.flatnonzero(nodes & (price > 0.0))
    if len(known) > 2 * NODES_MOST:
        last = known[np.lexsort((-youngest_s[known], price[known]))[NODES_MOST]]
        price_most, oldest_s = float(price[last]), float(youngest_s[last])
        nodes = (price < price_most) | ((price == price_most) & (youngest_s > oldest_s))
        below = (price_most, 1, [(-oldest_s, "")])
    rows = rows[nodes[node]]
    keys = {
        at: (price.item(at), 1, [(-youngest_s.item(at), "")]) if price[at] > 0.0 else (NO_BOUND,)
        for at in np.unique(running.node[rows]).tolist()
    }
    return CheapestMoves(rows, keys, below)


def _clearable(
    capacity: Capacity, devices: int, running: RunningColumns, rows: Ints, least: Floats
) -> Floats:
    """Return the least prices by node, infinite where more devices have to move than are idle."""
    idle = capacity.totals.idle_devices
    if idle < devices:
        on = np.where(running.whole[rows] > 0, 0, running.on[rows])  # a part needs no idle device
        freed = np.bincount(running.node[rows], on, len(least))
        least = np.where(devices - capacity.whole - freed > idle, np.inf, least)
    return np.round(least, PRICE_DIGITS)
