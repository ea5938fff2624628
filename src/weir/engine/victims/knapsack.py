"""Lower bounds on the price of freeing capacity, for all nodes at once.

Devices need no search to bound: per node it is a small knapsack, done for all nodes together on arrays. The
search then looks at nodes from the lowest bound up and stops when no other can win.
"""

import numpy as np

from weir.engine.victims.victim_entries import VictimColumns
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Floats, Ints

NO_BOUND = float("-inf")
_STEPS_MOST = 20
"""Number of amounts of a device that bounds distinguish."""


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
    here, first, index = np.unique(place, return_index=True, return_inverse=True)
    last, lack = np.append(first[1:], len(place)) - 1, need[here]
    total = np.cumsum(amount)
    reached = total - (total - amount)[first][index]  # cumulative amount of a place, up to each victim
    # First victim of each place that frees anything
    lowest = first + np.bincount(index, reached == 0).astype(np.int64)
    enough = first + np.bincount(index, reached < lack[index]).astype(np.int64)
    rank = np.where(enough <= last, tier[np.minimum(enough, last)], -1)
    rank[lack <= 0] = 0
    single = (rank >= 0) & (lowest <= last) & (tier[np.minimum(lowest, last)] == rank)
    chosen = single[index] & (tier == rank[index])
    at, below_zero = index[chosen], np.where(loose[chosen], np.minimum(price[chosen], 0.0), 0.0)
    least = _knapsack(at, amount[chosen], price[chosen] - below_zero, np.where(single, lack, 0), len(here))
    least = np.where(single, least + np.bincount(at, below_zero, len(here)), NO_BOUND)
    found = np.flatnonzero(rank >= 0)
    return list(zip(rank[found].tolist(), least[found].tolist(), here[found].tolist(), strict=True))


def in_units(need: Ints, victims: VictimColumns) -> tuple[Ints, VictimColumns]:
    """Return needs and victims of loose places with thousandths of devices in larger units, rounded up.

    Victims that free enough still do.
    """
    step = max(int(np.gcd.reduce(victims.amount, initial=0)), WHOLE_MILLI // _STEPS_MOST)
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
