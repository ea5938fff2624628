"""Lower bounds on the cost of freeing capacity for pods of one shape, node by node, before any search."""

import numpy as np

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import pods_that_fit, shares_for_memory
from weir.engine.victims.victim_candidates import LAST, VictimCandidates
from weir.engine.victims.victim_entries import (
    NO_BOUND,
    VictimColumns,
    VictimEntries,
    cheapest_by_place,
    in_units,
)
from weir.engine.victims.victim_sets import PRICE_DIGITS, Tier
from weir.state.capacity_columns import Bools
from weir.state.shapes import RequestShape


class NodeBounds:
    """Bounds over the open nodes.

    Attributes:
        entries: highest tier that has to be touched, least key of the victims in it, and node, of nodes with
            such a bound.
        unknown: nodes with a possible victim and without a bound.
        pods_max: number of pods that would fit without all possible victims.
    """

    def __init__(
        self, capacity: Capacity, candidates: VictimCandidates, shape: RequestShape, open_: Bools
    ) -> None:
        self._capacity = capacity
        self._shape = shape
        self._open = open_
        self.entries: list[tuple[Tier, Tier, int]] = []
        self.unknown: list[int] = []
        self._least: list[float] = []  # least prices of the entries
        self.pods_max = 0
        if candidates.cheapest is not None:
            self._bound_moves(candidates, candidates.cheapest.least)
            return
        if shape.whole:
            self._bound_whole(candidates.takeable(), candidates.price_max)
        self._least.sort()
        if not shape.whole or not candidates.bounds:
            self._bound_any(candidates)
        if shape.devices == 1 and not shape.whole and not shape.pod_rules and candidates.bounds:
            self._bound_part(candidates.takeable(), candidates.price_max)

    def least_price(self, pods: int) -> float:
        """Return a lower bound of the price of capacity for this many pods; free nodes cost 0."""
        free = 0
        if self._shape.whole:
            free = int((self._capacity.whole // self._shape.devices)[self._open].sum())
        missing = max(0, pods - free)
        return float(sum(self._least[:missing])) if len(self._least) >= missing else 0.0

    def _bound_moves(self, candidates: VictimCandidates, least: dict[int, Tier]) -> None:
        """Copy the bounds of the nodes that have a movable pod."""
        nodes = {pod.node for job in candidates.jobs for pod in candidates.running(job)}
        open_ = (node for node in least if node in nodes and self._open[node])
        self.entries = [(LAST, least[node], node) for node in open_]
        self.pods_max = len(self.entries)

    def _bound_whole(self, takeable: VictimEntries, price_max: float) -> None:
        whole, devices = self._capacity.whole, self._shape.devices
        taken = np.bincount(takeable.by_node.place, takeable.by_node.amount, len(whole))
        self.pods_max = int(((whole + taken.astype(np.int64)) // devices)[self._open].sum())
        for rank, price, node in self._cheapest(takeable):
            if self._open[node] and price <= price_max:
                key = _least_key(takeable, rank, price, node) if whole[node] < devices else (NO_BOUND,)
                self.entries.append((takeable.tiers[rank], key, node))
                self._least.append(price)
        bare = takeable.bare.difference(takeable.by_node.place.tolist()) if takeable.bare else ()
        # Nodes with enough devices that lack another resource
        self.unknown = [node for node in sorted(bare) if self._open[node] and whole[node] >= devices]

    def _cheapest(self, takeable: VictimEntries) -> list[tuple[int, float, int]]:
        """Return (tier rank, price, node row) for each node on which victims free enough whole devices."""
        shape, victims = self._shape, takeable.by_node
        if victims.price.min(initial=0.0) < 0.0:
            # If another resource is short, a larger set of victims may be cheaper
            short = np.full(len(self._capacity.whole), bool(shape.pod_rules))
            for row, amount in shape.needs:
                short |= self._capacity.columns.free[row] < amount
            if short[victims.place].any():
                victims = victims._replace(loose=victims.loose | short[victims.place])
        return cheapest_by_place(shape.devices - self._capacity.whole, victims)

    def _bound_any(self, candidates: VictimCandidates) -> None:
        """List every node with a possible victim, without price bounds."""
        self.entries.clear()
        columns, memory = self._capacity.columns.copy(), self._capacity.device_memory
        held = set()
        for job in candidates.jobs:
            for pod in candidates.running(job):
                held.add(pod.node)
                columns.hold(pod.node, pod.shape, pod.devices, int(memory[pod.node]), -1)
        count = np.where(self._open, pods_that_fit(Capacity(columns, memory), self._shape), 0)
        self.pods_max = int(count.sum())
        self.unknown = [node for node in sorted(held) if count[node]]

    def _bound_part(self, takeable: VictimEntries, price_max: float) -> None:
        """Bound nodes that lack only a part of a device, by the cheapest device to free."""
        columns, memory, shape = self._capacity.columns, self._capacity.device_memory, self._shape
        share, milli = columns.share[: len(memory)], np.full(len(memory), shape.share_milli)
        if shape.gpu_memory:
            milli = shares_for_memory(shape, memory)
        need = milli[:, None] - share
        lacks_part = np.zeros(len(memory), np.bool_)
        lacks_part[self.unknown] = True
        lacks_part &= (need > 0).all(axis=1)
        for row, amount in shape.needs:
            lacks_part &= columns.free[row, : len(memory)] >= amount
        victims = takeable.by_device(memory, share.shape[1])
        counted = lacks_part[victims.place // share.shape[1]]
        victims = VictimColumns(*[column[counted] for column in victims])
        least: dict[int, tuple[int, float]] = {}
        for rank, price, place in cheapest_by_place(*in_units(need.ravel(), victims)):
            node = place // share.shape[1]
            least[node] = min(least.get(node, (rank, price)), (rank, price))
        self.unknown = [node for node in self.unknown if node not in least]
        for node, (rank, price) in least.items():
            if price <= price_max:
                self.entries.append((takeable.tiers[rank], _least_key(takeable, rank, price, node), node))


def _least_key(takeable: VictimEntries, rank: int, price: float, node: int) -> Tier:
    """Return a lower bound of `set_key` over the victims of a tier that free devices on a node.

    Of nodes that cost the same, only that with the youngest victim is then searched.
    """
    return round(price, PRICE_DIGITS), 1, [takeable.youngest[node, rank]]
