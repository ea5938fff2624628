"""Scores of every node for one request shape, kept up to date as nodes change."""

from typing import Final

import numpy as np

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import fits, fits_on
from weir.engine.placement.fragmentation import (
    COST_BITS,
    NO_DEVICE,
    TIE_BITS,
    FragmentationScore,
    plain_costs,
    tie_breaker,
    tie_breakers,
)
from weir.state.capacity_columns import Bools, Ints
from weir.state.shapes import RequestShape

INFEASIBLE: Final = (1 << 63) - 1
"""Rank of a node on which the shape doesn't fit."""
PREFERENCE_BITS = 63 - TIE_BITS - COST_BITS
"""Bits of a rank for the preference of a node; the bits below decide among equal preferences."""
_PREFERENCE_MIDDLE = 1 << (PREFERENCE_BITS - 1)
_FEW = 4
"""Number of nodes up to which ranking them one by one is fastest."""
_UNKNOWN = -1, -1
"""Placeholder for an unknown best node: no rank is lower than this one."""


class NodeScores:
    """`rank[node]`: lower is better, INFEASIBLE where the shape does not fit or is not allowed.

    `device[node]` is the device a pod that shares a single one should take there, if the score says.
    """

    __slots__ = (
        *("_any_spread", "_base", "_best", "_best_rank", "_fragmentation", "_spread"),
        *("device", "log_position", "mask", "rank", "shape"),
    )

    def __init__(
        self,
        capacity: Capacity,
        shape: RequestShape,
        mask: Bools,
        preference: Ints,
        spread: Bools,
        potential: FragmentationScore | None,
    ) -> None:
        self.shape = shape
        self._fragmentation = potential
        self._any_spread = bool(spread.any())
        self.device: Ints = np.full(len(mask), NO_DEVICE, np.int64)
        self.mask = mask
        self._spread = spread
        granted = np.clip(_PREFERENCE_MIDDLE - 1 - preference, 0, (1 << PREFERENCE_BITS) - 1)
        self._base = granted << (TIE_BITS + COST_BITS)
        self.rank: Ints = np.full(len(mask), INFEASIBLE, np.int64)
        self._best, self._best_rank = _UNKNOWN
        self._compute(capacity, np.flatnonzero(mask))
        self.log_position = len(capacity.log)

    def follow(self, capacity: Capacity) -> Ints:
        """Return the ranks, updated for every node that changed since the last call."""
        log = capacity.log
        if self.log_position < len(log):
            changed = set(log[self.log_position :])
            self.log_position = len(log)
            if len(changed) <= _FEW:
                for node in changed:
                    self._compute_one(capacity, node)
            else:
                self._compute(capacity, np.array(sorted(changed), np.intp))
        return self.rank

    def best(self) -> int:
        """Return the first of the best nodes by the last update; -1 if the shape fits no node.

        It is remembered between changes: mostly a placed pod makes the best node better still.
        """
        if self._best < 0:
            if not len(self.rank):
                return -1
            self._best = int(self.rank.argmin())
            self._best_rank = int(self.rank[self._best])
        return -1 if self._best_rank == INFEASIBLE else self._best

    def parts(self, node: int) -> tuple[int, float | None]:
        """Return the preference for a node, and the loss of score there in devices.

        The loss is None without a request mix, and on nodes where pods are spread.
        """
        rank = self.rank.item(node)
        preference = _PREFERENCE_MIDDLE - 1 - (rank >> (TIE_BITS + COST_BITS))
        if self._fragmentation is None or (self._any_spread and self._spread[node]):
            return preference, None
        return preference, self._fragmentation.loss((rank >> TIE_BITS) & ((1 << COST_BITS) - 1))

    def _compute_one(self, capacity: Capacity, node: int) -> None:
        """Update one node without arrays: the usual case."""
        if not self.mask[node] or not fits_on(capacity, self.shape, node):
            rank = INFEASIBLE
        elif self._fragmentation is None or (self._any_spread and self._spread[node]):
            self._compute(capacity, np.array([node], np.intp))
            return
        else:
            cost, self.device[node] = self._fragmentation.cost_on(capacity, self.shape, node)
            rank = self._base.item(node) + tie_breaker(capacity, self.shape, node) + (cost << TIE_BITS)
        self.rank[node] = rank
        if (rank, node) <= (self._best_rank, self._best):
            self._best, self._best_rank = node, rank
        elif node == self._best:
            self._best, self._best_rank = _UNKNOWN

    def _compute(self, capacity: Capacity, nodes: Ints) -> None:
        self._best, self._best_rank = _UNKNOWN
        self.rank[nodes] = INFEASIBLE
        open_ = nodes[self.mask[nodes] & fits(capacity, self.shape, nodes)]
        if not len(open_):
            return
        self.rank[open_] = self._base[open_]
        spread = self._spread[open_] if self._any_spread else None
        packed = open_ if spread is None else open_[~spread]
        if len(packed):
            self.rank[packed] += tie_breakers(capacity, self.shape, packed, False) + (
                self._costs(capacity, packed) << TIE_BITS
            )
        if spread is not None:
            apart = open_[spread]
            self.rank[apart] += tie_breakers(capacity, self.shape, apart, True)
            self.device[apart] = NO_DEVICE

    def _costs(self, capacity: Capacity, nodes: Ints) -> Ints:
        if self._fragmentation is None:
            return plain_costs(capacity, self.shape, nodes)
        cost, self.device[nodes] = self._fragmentation.costs(capacity, self.shape, nodes)
        return cost
