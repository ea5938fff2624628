"""Possible victims of one requester as columns, and lower bounds on the price of freeing capacity.

A whole device is free once every pod on it is gone. So victims that share a device free it together. For
devices a bound needs no search: it is a small knapsack for each node, computed for all nodes at once on
arrays. The search then looks at nodes from the lowest bound up and stops when no other can win.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from weir.engine.placement.capacity import Capacity
from weir.engine.victims.victim_sets import Tier
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import NO_DEVICE, Bools, Floats, Ints
from weir.state.jobs import Pod

Younger = tuple[float, str]
"""Sort key of a workload by age and name; the youngest comes first."""
NO_BOUND = float("-inf")
_STEPS_MAX = 20
"""Number of amounts of a device that bounds distinguish."""


class VictimColumns(NamedTuple):
    """Victims by place: the amount that each frees, the rank of its tier, its price.

    A place is a node or a device. Victims of a `loose` place free this amount together, or less.
    """

    place: Ints
    amount: Ints
    tier: Ints
    price: Floats
    loose: Bools


@dataclass(slots=True)
class VictimEntries:
    """Possible victims, an entry for each victim and node.

    Attributes:
        bare: nodes with a victim that holds no devices there.
        tiers: the tiers of the victims, by rank.
        youngest: the youngest victim by node and rank.
        by_node: victims with the whole devices that they free. Victims that only share one device free it as
            one victim of their highest tier.
    """

    bare: set[int] = field(default_factory=set)
    tiers: list[Any] = field(default_factory=list)
    youngest: dict[tuple[int, int], Younger] = field(default_factory=dict)
    by_node: VictimColumns = field(init=False)
    # Node, pods there, the devices that they hold or share, price, tier and age
    _entries: list[tuple[int, Sequence[Pod], int, float, Tier, Younger]] = field(default_factory=list)
    _in_parts: list[int] = field(default_factory=list)  # positions of entries with parts of devices
    _ranks: list[int] = field(default_factory=list)

    def add(self, on_node: Sequence[Pod], devices: int, price: float, tier: Tier, younger: Younger) -> None:
        """Add a victim with its pods on a node and the devices that they hold; `rank` is that of its tier."""
        for pod in on_node:
            if pod.devices and not pod.shape.whole:
                self._in_parts.append(len(self._entries))
                break
        self._entries.append((on_node[0].node, on_node, devices, price, tier, younger))

    def rank(self, capacity: Capacity) -> None:
        """Turn the entries into columns with their tiers' ranks, and keep the youngest of each."""
        node, _, devices, price, tiers, youngers = (
            zip(*self._entries, strict=True) if self._entries else ((),) * 6
        )
        self.tiers = sorted(set(tiers))
        ranks = {tier: rank for rank, tier in enumerate(self.tiers)}
        self._ranks = [ranks[tier] for tier in tiers]
        youngest = self.youngest
        for place, rank, younger in zip(node, self._ranks, youngers, strict=True):
            key = place, rank
            if key not in youngest or younger < youngest[key]:
                youngest[key] = younger
        self.by_node = VictimColumns(
            np.array(node, np.int64),
            np.array(devices, np.int64),
            np.array(self._ranks, np.int64),
            np.array(price, np.float64),
            np.zeros(len(node), np.bool_),
        )
        if self._in_parts:
            self._join_sharers(capacity)

    def by_device(self, device_memory: Ints, width: int) -> VictimColumns:
        """Return the victims by device, with the thousandths of the device that each frees.

        The place of device d of node n is n * width + d. A device may lack memory as well, so each is loose.
        """
        positions, place, amount = [], [], []
        for position, (node, on_node, *_) in enumerate(self._entries):
            for device, milli in _held(on_node, device_memory.item(node)).items():
                positions.append(position)
                place.append(node * width + device)
                amount.append(milli)
        price = [self._entries[position][3] for position in positions]
        rank = np.array(self._ranks, np.int64)[positions]
        ints = np.array(place, np.int64), np.array(amount, np.int64), rank
        return VictimColumns(*ints, np.array(price, np.float64), np.ones(len(positions), np.bool_))

    def _join_sharers(self, capacity: Capacity) -> None:
        """Join victims that only share one device into the first of them, in the highest of their tiers.

        They free the device together, and only if no other pod holds a part of it. If a victim holds several
        devices, or the device is over-committed, each victim counts on its own.
        """
        share, memory = capacity.columns.share, capacity.device_memory.tolist()
        width, crowded = share.shape[1], ((share < 0) & (share != NO_DEVICE)).any(axis=1).tolist()
        _, devices, rank, price, loose = self.by_node
        several: list[int] = []  # shared devices of victims that hold several devices
        alone: list[int] = []  # entries with a part of one device; next, its device and amount
        device_of: list[int] = []
        milli_of: list[int] = []
        for position in self._in_parts:
            node, on_node, count, *_ = self._entries[position]
            if count == 1 and not crowded[node]:
                ((device, milli),) = _held(on_node, memory[node]).items()
                alone.append(position)
                device_of.append(node * width + device)
                milli_of.append(milli)
            else:
                held = _held([pod for pod in on_node if not pod.shape.whole], memory[node])
                exclusive = sum([len(pod.devices) for pod in on_node if pod.shape.whole])
                devices[position] = len(held) + exclusive
                several += [node * width + device for device in held]
                loose[self.by_node.place == node] = True
        sharer, on = np.array(alone, np.int64), np.array(device_of, np.int64)
        joins = ~np.isin(on, several)
        devices[sharer] = ~joins
        sharer, milli_held = sharer[joins], np.array(milli_of, np.int64)[joins]
        shared, first, index = np.unique(on[joins], return_index=True, return_inverse=True)
        is_freed = share.ravel()[shared] + np.bincount(index, milli_held, len(shared)) >= WHOLE_MILLI
        highest = np.zeros(len(shared), np.int64)
        np.maximum.at(highest, index, rank[sharer])
        # A victim of a lower tier comes first, at any cost
        cost, is_below = price[sharer], rank[sharer] < highest[index]
        together = np.bincount(index, np.where(is_below, np.minimum(cost, 0.0), cost), len(shared))
        price[sharer] = 0.0
        first = sharer[first]
        devices[first], rank[first], price[first] = is_freed, highest, together


def _held(pods: Sequence[Pod], device_memory: int) -> dict[int, int]:
    """Return the thousandths of each device in use by pods, with this device memory."""
    held: dict[int, int] = {}
    if len(pods) == 1 and len(pods[0].devices) == 1:  # the usual case
        return {pods[0].devices[0]: pods[0].shape.share_on(device_memory)}
    for pod in pods:
        milli = pod.shape.share_on(device_memory) if pod.devices else 0
        for device in pod.devices:
            held[device] = held.get(device, 0) + milli
    return held


def cheapest_by_place(need: Ints, victims: VictimColumns) -> list[tuple[int, float, int]]:
    """Return (tier rank, price, place) for each place with enough victims; a search finds no lower price.

    Args:
        need: amount that one pod lacks, by place.
        victims: possible victims.

    The price has a bound if one tier suffices. It is exact, except in a loose place: a set chosen by
    descending size is minimal, since its last victim is the smallest, and without that victim the set falls
    short. In a loose place a set may need more victims than it seems, also those of a price below zero.
    """
    if not len(victims.place):
        return []
    order = np.lexsort((victims.tier, victims.place))
    place, amount, tier = victims.place[order], victims.amount[order], victims.tier[order]
    price, loose = victims.price[order], victims.loose[order]
    places, first, index = np.unique(place, return_index=True, return_inverse=True)
    last, lack = np.append(first[1:], len(place)) - 1, need[places]
    total = np.cumsum(amount)
    reached = total - (total - amount)[first][index]  # cumulative amount of a place, up to each victim
    # First victim of each place that frees anything
    lowest = first + np.bincount(index, reached == 0).astype(np.int64)
    enough = first + np.bincount(index, reached < lack[index]).astype(np.int64)
    rank = np.where(enough <= last, tier[np.minimum(enough, last)], -1)
    rank[lack <= 0] = 0
    single = (rank >= 0) & (lowest <= last) & (tier[np.minimum(lowest, last)] == rank)
    chosen = single[index] & (tier == rank[index])
    chosen_index, below_zero = index[chosen], np.where(loose[chosen], np.minimum(price[chosen], 0.0), 0.0)
    least = _knapsack(
        chosen_index, amount[chosen], price[chosen] - below_zero, np.where(single, lack, 0), len(places)
    )
    least = np.where(single, least + np.bincount(chosen_index, below_zero, len(places)), NO_BOUND)
    ranked = np.flatnonzero(rank >= 0)
    return list(zip(rank[ranked].tolist(), least[ranked].tolist(), places[ranked].tolist(), strict=True))


def in_units(need: Ints, victims: VictimColumns) -> tuple[Ints, VictimColumns]:
    """Return needs and victims of loose places with thousandths of devices in larger units, rounded up.

    Victims that free enough before the rounding do so after it.
    """
    step = max(int(np.gcd.reduce(victims.amount, initial=0)), WHOLE_MILLI // _STEPS_MAX)
    return -(-need // step), victims._replace(amount=-(-victims.amount // step))


def least_prices(free: Ints, wanted: int, node: Ints, devices: Ints, price: Floats) -> Floats:
    """Return by node the least price of entries without which one pod fits; infinite if none suffice.

    Args:
        free: free devices by node.
        wanted: devices one pod needs.
        node: of each entry; all are of one tier.
        devices: of each entry, whole ones.
        price: of each entry.
    """
    need = wanted - free
    least = np.where(need <= 0, 0.0, np.inf)
    enough = (np.bincount(node, devices, len(need)) >= need) & (need > 0)
    if enough.any():
        nodes = np.flatnonzero(enough)
        index = np.cumsum(enough) - 1
        counted = enough[node]
        least[nodes] = _knapsack(
            index[node[counted]], devices[counted], price[counted], need[nodes], len(nodes)
        )
    return least


def _knapsack(index: Ints, devices: Ints, price: Floats, need: Ints, nodes: int) -> Floats:
    """Return the least price of a minimal set of entries with at least `need` devices, for each node."""
    order = np.lexsort((price, -devices, index))
    index, devices, price = index[order], devices[order], price[order]
    first = np.searchsorted(index, np.arange(nodes))
    place = np.arange(len(index)) - first[index]
    most_need = max(1, int(need.max(initial=1)))
    partial = np.full((nodes, most_need), np.inf)
    partial[:, 0] = 0.0
    best = np.full(nodes, np.inf)
    best[need <= 0] = 0.0
    for turn in range(int(place.max(initial=-1)) + 1):
        now = place == turn
        node, size, cost = index[now], devices[now], price[now]
        with_it = partial[node] + cost[:, None]
        reach = np.arange(most_need)[None, :] + size[:, None]
        done = reach >= need[node][:, None]
        best[node] = np.minimum(best[node], np.where(done, with_it, np.inf).min(axis=1))
        line, column = np.nonzero(~done & np.isfinite(with_it))
        target = (node[line], reach[line, column])
        partial[target] = np.minimum(partial[target], with_it[line, column])
    return best
