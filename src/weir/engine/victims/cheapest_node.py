"""Search for the node on which freeing capacity costs least, and its victims.

Nodes are ordered by a lower bound of their price. A node is searched only when it is the cheapest, and again
only after other evictions. Each eviction makes its queue harder to evict from, so prices only rise, except on
the nodes that it freed.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.pod_placer import PodPlacer
from weir.engine.usage.quota_overlay import INFINITE
from weir.engine.victims.node_bounds import NodeBounds
from weir.engine.victims.preemption_context import PreemptionContext, RunnerUp
from weir.engine.victims.victim_candidates import VictimCandidates
from weir.engine.victims.victim_sets import (
    MAX_ENUMERATED,
    NodeCapacity,
    Tier,
    Victim,
    minimal_victim_sets,
    permitted_victim_sets,
)
from weir.model.reasons import EvictionRule
from weir.state.capacity_columns import Bools
from weir.state.shapes import RequestShape

Going = list[tuple[Victim, EvictionRule]]
Accept = Callable[[int, list[Victim]], bool]
Family = tuple[Any, Any]
Entry = tuple[Any, int, int]
"""Lower bound of a node's cost, the node, and the version of its victims that the bound is for."""
_UNKNOWN = -1
PRICE_AT = 2
"""Position of the price in a lower bound, after allowances and tier."""
SETS_MAX = 8
"""Sets of victims tried on one node, the cheapest first."""
_BESIDE_MAX = 16
"""Number of other victims on the chosen node up to which the next choice is searched among them."""


class CheapestNode:
    """Nodes on which capacity could be freed for pods of one shape.

    There is one heap of nodes for each queue, by the queue of the most protected victim on the node. An
    eviction changes the order of the queues, but not the order of nodes in a heap.
    """

    def __init__(
        self, placer: PodPlacer, victim_candidates: VictimCandidates, shape: RequestShape, open_: Bools
    ) -> None:
        self._rules = placer.rules
        self._capacity = placer.capacity
        self._victim_candidates = victim_candidates
        self._shape = shape
        self._open = open_
        self.bounds = NodeBounds(placer.capacity, victim_candidates, shape, open_)
        self.gave_up = False  # True if a bound ended the search before all sets of victims
        self._version = 0
        self.victims_by_node: dict[int, Going] = {}  # victims by node
        self._heaps: dict[Family, list[Entry]] = {}
        self._unknown = self.bounds.unknown.copy()  # nodes without a price bound
        self._removable: frozenset[int] = victim_candidates.marks() if shape.pod_rules else frozenset()
        for tier, least, node in self.bounds.entries:
            family, rest = split(tier)
            self._heaps.setdefault(family, []).append(((0, rest, least), node, _UNKNOWN))
        for heap in self._heaps.values():
            heapify(heap)

    def changed(self, nodes: set[int]) -> None:
        """Record that a victim was chosen on these nodes."""
        self._version += 1
        self._unknown += [node for node in sorted(nodes) if self._open[node]]

    def best(self, accept: Accept, steps_max: int) -> tuple[int, Going] | None:
        """Return the cheapest node and its victims; None without a set of victims.

        `accept(node, victims)` may reject each set. The search ends after `steps_max` nodes without an
        accepted set.
        """
        if not self._shape.pod_rules:
            return self._best(accept, steps_max, None, [])
        # Nodes closed to this pod by pod affinity; later pods may open them
        shut: list[tuple[Family, Entry]] = []
        columns = self._capacity.columns
        closed = self._rules.closed(columns, self._shape, self._removable)
        self._unknown = [node for node in self._unknown if not closed[node]]
        open_ = self._rules.clearable(columns, self._shape, self._removable)
        cheapest = self._best(accept, steps_max, open_, shut)
        for family, entry in shut:
            if not closed[entry[1]]:
                heappush(self._heaps[family], entry)
        return cheapest

    def ordered(self) -> list[list[Entry]]:
        """Return heaps of the remaining nodes by family, in the order in which families are evicted from."""
        families = [family for family, heap in self._heaps.items() if heap]
        return [self._heaps[family] for family in sorted(families, key=self._family_order)]

    def _family_order(self, family: Family) -> tuple[Any, ...]:
        return family[0], self._victim_candidates.tiers.giving(family[1])

    def _best(
        self, accept: Accept, steps_max: int, open_: Bools | None, shut: list[tuple[Family, Entry]]
    ) -> tuple[int, Going] | None:
        fruitless = 0
        unknown = list(dict.fromkeys(self._unknown))
        self._unknown.clear()
        for node in unknown:
            if (open_ is not None and not open_[node]) or not self._look_into(node, accept):
                self._unknown += [] if open_ is None else [node]
        while fruitless < steps_max:
            families = [family for family, heap in self._heaps.items() if heap]
            if not families:
                return None
            family = min(families, key=self._family_order)
            entry = self._heaps[family][0]
            _, node, version = entry
            is_open = open_ is None or bool(open_[node])
            if is_open and version == self._version:
                return node, self.victims_by_node[node]
            heappop(self._heaps[family])
            if not is_open:
                shut.append((family, entry))
            elif not self._look_into(node, accept):
                fruitless += 1
                if open_ is not None:
                    shut.append((family, entry))
        self.gave_up = True
        return None

    def _look_into(self, node: int, accept: Accept) -> bool:
        excesses = self._rules.excesses(self._capacity.columns, self._shape, node)
        if excesses is None:
            return False
        victims = self._victim_candidates.victims_on(node)
        limits, cheapest = self._victim_candidates.limits(victims), self._victim_candidates.cheapest
        below = None if cheapest is None else cheapest.below

        def space_of(some: Sequence[Victim]) -> NodeCapacity:
            return NodeCapacity(self._capacity, node, self._shape, some, excesses)

        if limits is None:
            sets = minimal_victim_sets(space_of(victims), victims)
        else:
            allowances = self._victim_candidates.allowances
            sets = permitted_victim_sets(space_of, victims, limits, allowances)
        for number, (key, chosen) in enumerate(islice(sets, SETS_MAX), 1):
            if sum(victim.price for victim in chosen) > self._victim_candidates.price_max:
                break
            if below is not None and key[1] >= below:
                break
            self.gave_up |= number == SETS_MAX or len(victims) > MAX_ENUMERATED
            going = self._victim_candidates.legal_order(chosen)
            if going is not None and accept(node, chosen):
                self.victims_by_node[node] = going
                family, rest = split(key[0])
                used = self._victim_candidates.allowances(chosen)
                heappush(self._heaps.setdefault(family, []), ((used, rest, *key[1:]), node, self._version))
                return True
        return False


class CheapestByShape:
    """Cheapest nodes by shape, `within` some nodes or anywhere, and bounds for all missing pods together."""

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

    def search_for(self, shape: RequestShape) -> CheapestNode:
        """Return the search for a shape."""
        search = self._by_shape.get(shape.id)
        if search is None:
            candidates, placer = self._candidates, self._placer
            candidates.nodes_needed = sum(self._candidate.lacks)
            mask = placer.ranking_of(shape, self._affinity).mask
            if self._within is not None:
                mask = mask & self._within
            search = self._by_shape[shape.id] = CheapestNode(placer, candidates, shape, mask)
        return search

    def least_price(self) -> float:
        """Return a lower bound of the price of all pods; infinite if they can't fit."""
        if not self._candidates.jobs:
            return INFINITE
        shapes, total = self._candidate.job.shapes, 0.0
        for group, pods in enumerate(self._candidate.lacks):
            if pods:
                bounds = self.search_for(shapes[group]).bounds
                if bounds.pods_max < pods:
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


def split(tier: Tier) -> tuple[Family, Tier]:
    """Split a tier into its part about the queue, and the part that compares nodes of one queue."""
    return (tier[0], tier[2]), tier[3:]


def runner_up(
    nodes: CheapestNode, candidates: VictimCandidates, capacity: Capacity, shape: RequestShape
) -> RunnerUp | None:
    """Return the second-best choice for the node just chosen; None if none is known.

    With pod affinity the order of the nodes depends on the pods placed so far, so it isn't known.
    """
    ordered = nodes.ordered()
    if shape.pod_rules or not ordered:
        return None
    following = _following_node(ordered)
    beside = _beside(nodes, candidates, capacity, shape, ordered[0][0][1])
    if beside is None or following is None or beside.dearer is None:
        return following or beside
    return following if following.dearer is not None and following.dearer < beside.dearer else beside


def _following_node(ordered: list[list[Entry]]) -> RunnerUp | None:
    """Return the node after the chosen one; None if there is none."""
    chosen, rest = ordered[0][0], min(ordered[0][1:3], default=None)
    if rest is not None:
        is_level = rest[0][:PRICE_AT] == chosen[0][:PRICE_AT]
        return RunnerUp(rest[1], rest[0][PRICE_AT][0] - chosen[0][PRICE_AT][0] if is_level else None)
    return RunnerUp(ordered[1][0][1], None) if len(ordered) > 1 else None


def _beside(
    nodes: CheapestNode, candidates: VictimCandidates, capacity: Capacity, shape: RequestShape, node: int
) -> RunnerUp | None:
    """Return the next-best victims on the chosen node; None without any, or if too many sets are possible."""
    victims, chosen = candidates.victims_on(node), nodes.victims_by_node.get(node)
    if chosen is None or len(victims) > _BESIDE_MAX or candidates.limits(victims) is not None:
        return None
    space = NodeCapacity(capacity, node, shape, victims)
    pods = {pod for victim, _ in chosen for pod in victim.pods}
    price = sum([victim.price for victim, _ in chosen])
    tier = max([victim.tier for victim, _ in chosen])
    for key, others in islice(minimal_victim_sets(space, victims), SETS_MAX):
        differs = {pod for victim in others for pod in victim.pods} != pods
        moves = any(victim.moves for victim in others)
        if differs and not moves and candidates.legal_order(others) is not None:
            names = tuple(dict.fromkeys([victim.job.name for victim in others]))
            dearer = sum([victim.price for victim in others]) - price
            return RunnerUp(node, dearer if key[0] == tier else None, names)
    return None
