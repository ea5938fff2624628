"""Bounds on the capacity that moves can free, from all running pods and the largest free blocks.

For one missing pod they also name the nodes where moves cost least. Victims are gathered one by one, so a
search among a few nodes comes first. If it finds moves that are cheaper than any others, there is no second
one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weir.engine.allocation.allocate import Allocator
from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import pods_that_fit
from weir.engine.placement.topology_levels import TopologyLevel
from weir.engine.preemption_cache import ConsolidationKey
from weir.engine.protection.preemption_rules import PreemptionRules
from weir.engine.victims.preemption_context import PreemptionContext
from weir.engine.victims.victim_entries import NO_BOUND, least_prices
from weir.engine.victims.victim_sets import PRICE_DIGITS, Tier
from weir.model.resources import GPU_MODEL_PREFIX
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Bools, Floats, Ints
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass, Job
from weir.state.running_pods import RunningColumns, held_milli
from weir.state.shapes import GPU_ROW, RequestShape

_PARTS = 4
"""Number of parts of a device that bounds distinguish."""
NODES_MAX = 16
"""Nodes that are searched first."""


class MoveBounds:
    """Possible moves, with their prices, and projects whose workloads may always be moved.

    They are valid for the capacity at the beginning of a cycle, and then for the capacity after each plan.
    """

    def __init__(self, allocator: Allocator) -> None:
        self._cluster = allocator.cluster
        self._policy = allocator.policy
        self._overlay = allocator.overlay
        self._feasibility = allocator.feasibility
        self._now_s = allocator.now_s
        self._outages = allocator.placement.outages
        self._searches_all = not allocator.cache.bounds
        self.forget(allocator.capacity)

    def forget(self, capacity: Capacity) -> None:
        """Forget all possible moves and prices. `capacity` is the capacity after the last plan."""
        self._capacity = capacity
        if self._outages:  # they withhold devices during a search for one workload; bounds hold for all
            self._capacity = Capacity(capacity.columns.copy(), capacity.device_memory)
        self._suffice: dict[ConsolidationKey, bool] = {}
        self._movable: dict[tuple[float, bool, bool], tuple[Ints, Floats]] = {}
        self._prices: dict[tuple[int, float, bool], Floats] = {}
        self._over_quota: Bools | None = None

    def could_suffice(self, queued: EquivalenceClass, index: int, moves: ConsolidationKey) -> bool:
        """Return True if moves within the budget could free enough, assuming places for all of them."""
        if moves not in self._suffice:
            job, lacks = queued.members[index][2], queued.step.lacks
            self._suffice[moves] = self._searches_all or self._could_free(job, lacks, moves)
        return self._suffice[moves]

    @property
    def over_quota(self) -> Bools:
        """Return for each project whether a queue of its path is over quota; such work is always movable."""
        if self._over_quota is None:
            over_any_quota = self._overlay.over_any_quota
            self._over_quota = np.array(
                [over_any_quota(path) for path in self._cluster.ledger.path], np.bool_
            )
        return self._over_quota

    def _could_free(self, job: Job, lacks: Sequence[int], moves: ConsolidationKey) -> bool:
        """Return True if all moves within the budget together could free enough."""
        asked, spares, budget = moves.topology, moves.protect_in_quota, self._policy.consolidation.budget
        whole = ((shape, lack) for shape, lack in zip(job.shapes, lacks, strict=True) if shape.whole)
        wants = [(shape.devices, lack) for shape, lack in whole if shape.devices and lack]
        if asked is None or sum(lacks) == 1:
            return self._bound_anywhere(wants, budget, spares) and (
                not spares or sum(lacks) == 1 or self._bound_beside(job, lacks, budget)
            )
        may_scatter = moves.may_scatter and asked.required is None
        if may_scatter and self._bound_anywhere(wants, budget, spares):
            return True
        budget = self._policy.topology.budget
        if job.is_running or not self._bound_anywhere(wants, budget, spares):
            return job.is_running  # pods beside running ones aren't bounded here
        levels = self._cluster.topologies[asked.name].levels
        depth = max(levels.index(level) for level in (asked.required, asked.preferred) if level is not None)
        return self._bound_in_one(self._feasibility.levels(asked.name)[depth], wants, budget, spares)

    def _bound_anywhere(self, wants: Sequence[tuple[int, int]], budget: float, spares: bool) -> bool:
        for devices, lack in wants:
            needed = _nodes_for(self._cluster, devices, lack)
            missing = needed - int((self._capacity.whole >= devices).sum())
            if missing <= 0:
                continue
            _, price = self.could_move(budget, spares)
            if not len(price) or missing * float(price.min()) > budget:
                return False
            prices = self.least_prices(devices, budget, spares)
            prices = np.sort(prices[prices <= budget])[:needed]
            if len(prices) < needed or float(prices.sum()) > budget:
                return False
        return True

    def _bound_beside(self, job: Job, lacks: Sequence[int], budget: float) -> bool:
        """Return True if enough nodes could be cleared for a gang over quota that fills the free nodes.

        Its pods go to the free nodes before any node is cleared. So pods of their size find no place to move
        to, if no node holds two of them.
        """
        groups = [group for group, lack in enumerate(lacks) if lack]
        shape, lack = job.shapes[groups[0]], lacks[groups[0]]
        devices, whole = shape.devices, self._capacity.whole
        if len(groups) > 1 or not (shape.whole and devices) or _nodes_for(self._cluster, devices, 2) == 1:
            return True
        free = whole >= devices
        missing = lack - int(free.sum())
        if missing <= 0:
            return True
        rows, price = self.could_move(budget, spares=True)
        small = self._cluster.running_pods.whole[rows] < devices
        prices = least_move_prices(
            self._capacity, devices, self._cluster.running_pods, rows[small], price[small]
        )[~free]
        # If gangs move as a whole, clearing one node may clear others
        least = np.sort(prices)[: 1 if self._cluster.topologies else missing]
        return float(least.sum()) <= budget or not self._fills(shape, free)

    def _fills(self, shape: RequestShape, free: Bools) -> bool:
        """Return True if pods of a shape may use all these nodes, in any project."""
        capacity, names = self._capacity, self._cluster.rows.names
        limited = [names[row] for limits in self._cluster.ledger.limited for row, _ in limits]
        by_model = any(name.startswith(GPU_MODEL_PREFIX) for name in limited)
        if self._policy.affinity or shape.pod_rules or self._outages or by_model:
            return False
        mask, _ = self._feasibility.feasible_nodes(shape, ())
        count = pods_that_fit(capacity, shape)
        return bool((mask & (count > 0))[free].all())

    def _bound_in_one(
        self, level: TopologyLevel, wants: Sequence[tuple[int, int]], budget: float, spares: bool
    ) -> bool:
        """Return True if any domain could be cleared for the request."""
        enough = np.ones(level.count, np.bool_)
        for devices, lack in wants:
            prices = np.where(level.domain_of >= 0, self.least_prices(devices, budget, spares), np.inf)
            order = np.lexsort((prices, level.domain_of))
            order = order[np.isfinite(prices[order])]
            domains, needed = level.domain_of[order], _nodes_for(self._cluster, devices, lack)
            # The cheapest nodes of each domain
            first = np.arange(len(domains)) - np.searchsorted(domains, domains) < needed
            total = np.bincount(domains[first], prices[order][first], level.count)
            enough &= (np.bincount(domains, minlength=level.count) >= needed) & (total <= budget)
        return bool(enough.any())

    def least_prices(self, devices: int, budget: float, spares: bool) -> Floats:
        """Return by node the least price of moves that free capacity for one pod."""
        key = (devices, budget, spares)
        prices = self._prices.get(key)
        if prices is None:
            rows, price = self.could_move(budget, spares)
            running = self._cluster.running_pods
            prices = self._prices[key] = least_move_prices(self._capacity, devices, running, rows, price)
        return prices

    def could_move(self, budget: float, spares: bool, *, beside_stops: bool = False) -> tuple[Ints, Floats]:
        """Return row and price of each pod that is cheap to move and fits, perhaps where others stop."""
        key = budget, spares, beside_stops
        if key not in self._movable:
            running, restart = self._cluster.running_pods, self._policy.price.restart
            borrowers, broken = self.over_quota if spares else None, self._cluster.incomplete.values()
            # Outages withhold devices from some workloads only
            first, second = (1 << 30,) * 2 if self._outages else self._capacity.totals.largest_free_blocks()
            beside = first if beside_stops or self._cluster.topologies else second  # gangs open their nodes
            free_blocks = np.where(self._capacity.whole == first, beside, first)
            self._movable[key] = running.movable(self._now_s, budget, restart, free_blocks, borrowers, broken)
        return self._movable[key]


def _nodes_for(cluster: Cluster, devices: int, pods: int) -> int:
    """Return the least number of nodes for pods of this many devices."""
    per_node = int(cluster.capacity[GPU_ROW].max(initial=0)) // WHOLE_MILLI // devices
    return -(-pods // max(1, per_node))


def least_move_prices(
    capacity: Capacity, devices: int, running: RunningColumns, rows: Ints, price: Floats
) -> Floats:
    """Return by node the least price of moves that free this many devices; infinite if none suffice.

    Each missing device of a node is in use, at least as much as the node's least used shared device. A pod
    that holds less than that frees only a part of a device.

    Args:
        capacity: what is free now.
        devices: devices that one pod needs.
        running: the running pods.
        rows: those that may be moved.
        price: the price of each of them.
    """
    share, node = capacity.columns.share, running.node[rows]
    used = WHOLE_MILLI - np.where(share < WHOLE_MILLI, share, 0).max(axis=1, initial=0)[node]
    held = held_milli(running, capacity.device_memory)[rows]
    freed = np.minimum(held, running.on[rows] * used)
    parts = -(-freed * _PARTS // used)
    return least_prices(capacity.whole * _PARTS, devices * _PARTS, node, parts, price)


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
    priced = np.flatnonzero(nodes & (price > 0.0))
    if len(priced) > 2 * NODES_MAX:
        last = priced[np.lexsort((-youngest_s[priced], price[priced]))[NODES_MAX]]
        price_max, oldest_s = float(price[last]), float(youngest_s[last])
        nodes = (price < price_max) | ((price == price_max) & (youngest_s > oldest_s))
        below = (price_max, 1, [(-oldest_s, "")])
    rows = rows[nodes[node]]
    keys = {
        index: (price.item(index), 1, [(-youngest_s.item(index), "")]) if price[index] > 0.0 else (NO_BOUND,)
        for index in np.unique(running.node[rows]).tolist()
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
