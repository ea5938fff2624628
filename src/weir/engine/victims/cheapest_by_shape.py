"""Searches for the cheapest nodes of one requester, one for each shape of its pods."""

from weir.engine.usage.quota_overlay import INFINITE
from weir.engine.victims.cheapest_node import CheapestNode
from weir.engine.victims.preemption_context import PreemptionContext
from weir.engine.victims.victim_candidates import VictimCandidates
from weir.state.capacity_columns import Bools
from weir.state.shapes import RequestShape


class CheapestByShape:
    """Cheapest nodes by shape, `within` some nodes or anywhere, and bounds over all pods that lack one."""

    def __init__(
        self, context: PreemptionContext, candidates: VictimCandidates, within: Bools | None
    ) -> None:
        self._placer = context.placer
        self._candidates = candidates
        self._candidate = candidates.rules.candidate
        self._affinity = context.affinity_of(self._candidate.job)
        self._within = within
        self._by_shape: dict[int, CheapestNode] = {}

    @property
    def gave_up(self) -> bool:
        """Return True if any search ended before all sets of victims."""
        return any(nodes.gave_up for nodes in self._by_shape.values())

    def of(self, shape: RequestShape) -> CheapestNode:
        """Return the search for a shape."""
        found = self._by_shape.get(shape.id)
        if found is None:
            candidates, placer = self._candidates, self._placer
            candidates.nodes_needed = sum(self._candidate.lacks)
            mask = placer.ranking_of(shape, self._affinity).mask
            if self._within is not None:
                mask = mask & self._within
            found = self._by_shape[shape.id] = CheapestNode(placer, candidates, shape, mask)
        return found

    def least_price(self) -> float:
        """Return a lower bound of the price of all pods; infinite if they can't fit."""
        if not self._candidates.jobs:
            return INFINITE
        shapes, total = self._candidate.job.shapes, 0.0
        for group, pods in enumerate(self._candidate.lacks):
            if pods:
                bounds = self.of(shapes[group]).bounds
                if not bounds.could_hold(pods):
                    return INFINITE
                total += bounds.least_price(pods)
        return total

    def changed(self, nodes: set[int]) -> None:
        """Mark nodes on which capacity has changed."""
        for search in self._by_shape.values():
            search.changed(nodes)

    def clear(self) -> None:
        """Forget all searches: the trial they belong to was rolled back."""
        self._by_shape.clear()
