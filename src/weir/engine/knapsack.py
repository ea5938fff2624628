"""Lower bounds on the price of freeing capacity, for all nodes at once.

Whole devices need no search to bound: per node it is a small knapsack, done for all nodes together
on arrays. The search then looks at nodes from the lowest bound up and stops when no other can win.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weir.state.capacity_columns import Bools, Floats, Ints

NO_BOUND = float("-inf")
Younger = tuple[float, str]
"""Key of a workload that is less for the younger, then by name."""


@dataclass(slots=True)
class VictimEntries:
    """Possible victims, an entry for each victim and node: devices, the rank of its tier, its price.

    `moves` says whether it needs whole devices elsewhere. A part of a device counts as that device: what a
    unit frees on a node of `parts` is less than its entry says, or as much.
    """

    entries: list[tuple[int, int, float, bool]] = field(default_factory=list)
    bare: set[int] = field(default_factory=set)  # nodes where something could be taken that holds no devices
    spans: bool = False  # some that may be stopped leave holes on other nodes as well
    parts: set[int] = field(default_factory=set)  # nodes where some hold parts of devices
    tiers: list[Any] = field(default_factory=list)  # the tiers themselves, by rank
    node: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    devices: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    tier: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    price: Floats = field(default_factory=lambda: np.zeros(0))
    moves: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    youngest: dict[tuple[int, int], Younger] = field(default_factory=dict)  # by node and rank
    bounds: dict[int, list[tuple[int, float, int]]] = field(
        default_factory=dict
    )  # `cheapest_by_node` by devices

    def add(self, node: int, devices: int, price: float, moves: bool) -> None:
        """Add an entry; `rank` adds its tier later."""
        self.entries.append((node, devices, price, moves))

    def rank(self, tiers: Sequence[Any], youngers: Sequence[Younger]) -> None:
        """Turn the entries into columns, with the ranks of their tiers, and keep the youngest of each."""
        self.tiers = sorted(set(tiers))
        ranks = {tier: rank for rank, tier in enumerate(self.tiers)}
        of_entries = [ranks[tier] for tier in tiers]
        youngest = self.youngest
        for entry, rank, younger in zip(self.entries, of_entries, youngers, strict=True):
            key = entry[0], rank
            if key not in youngest or younger < youngest[key]:
                youngest[key] = younger
        self.tier = np.array(of_entries, np.int64)
        node, devices, price, moves = zip(*self.entries, strict=True) if self.entries else ((),) * 4
        self.node, self.devices = np.array(node, np.int64), np.array(devices, np.int64)
        self.price, self.moves = np.array(price, np.float64), np.array(moves, np.bool_)


def min_devices_to_move(free: Ints, wanted: int, takeable: VictimEntries) -> Ints:
    """Return by node the least devices to move so that one pod fits; -1 if it can't fit.

    Victims that may be stopped are gone first. Moved victims need free devices elsewhere.

    Args:
        free: free devices by node.
        wanted: devices one pod needs.
        takeable: entries; a part of a device counts as that device.
    """
    node, devices, moves = takeable.node, takeable.devices, takeable.moves
    size = len(free)
    stop = np.bincount(node[~moves], devices[~moves], size).astype(np.int64)
    move = np.bincount(node[moves], devices[moves], size).astype(np.int64)
    lack = np.maximum(wanted - free - stop, 0)
    return np.where(lack <= np.minimum(move, free.sum()), lack, -1)


def cheapest_by_node(free: Ints, wanted: int, takeable: VictimEntries) -> list[tuple[int, float, int]]:
    """Return (tier rank, price, node) for each node with enough victims; a search finds no lower price.

    Args:
        free: free devices by node.
        wanted: devices one pod needs.
        takeable: entries; a part of a device counts as that device.

    The price is exact if one tier suffices. A set chosen by descending size is minimal: its last victim is
    the smallest, and without that victim the set falls short. Otherwise the price has no bound.
    """
    node, devices, tier, price = takeable.node, takeable.devices, takeable.tier, takeable.price
    here, index = np.unique(node, return_inverse=True)
    need = wanted - free[here]
    tiers = int(tier.max()) + 1 if len(tier) else 0
    rank = np.full(len(here), -1, np.int64)
    reached = np.zeros(len(here), np.int64)
    bound = np.full(len(here), NO_BOUND)
    for at in range(tiers):
        of_tier = tier == at
        reached += np.bincount(index[of_tier], weights=devices[of_tier], minlength=len(here)).astype(np.int64)
        rank[(rank < 0) & (reached >= need)] = at
    lowest = np.full(len(here), tiers, np.int64)
    np.minimum.at(lowest, index, tier)
    single = (rank >= 0) & (lowest == rank)
    if single.any():
        chosen = single[index] & (tier == rank[index])
        bound[single] = _knapsack(index[chosen], devices[chosen], price[chosen], need, len(here))[single]
    if takeable.parts:
        bound[np.isin(here, list(takeable.parts))] = NO_BOUND
    found = np.flatnonzero(rank >= 0)
    return list(zip(rank[found].tolist(), bound[found].tolist(), here[found].tolist(), strict=True))


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
        here = np.flatnonzero(enough)
        index = np.cumsum(enough) - 1
        there = enough[node]
        least[here] = _knapsack(index[node[there]], devices[there], price[there], need[here], len(here))
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
        at, size, cost = index[now], devices[now], price[now]
        with_it = partial[at] + cost[:, None]
        reach = np.arange(most_need)[None, :] + size[:, None]
        done = reach >= need[at][:, None]
        best[at] = np.minimum(best[at], np.where(done, with_it, np.inf).min(axis=1))
        line, column = np.nonzero(~done & np.isfinite(with_it))
        target = (at[line], reach[line, column])
        partial[target] = np.minimum(partial[target], with_it[line, column])
    return best
