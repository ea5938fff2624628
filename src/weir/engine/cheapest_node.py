"""Search for the node on which freeing capacity costs least, and its victims.

Nodes are ordered by a lower bound of their price. A node is searched only when it is the cheapest, and again
only after other evictions. Each eviction makes its queue harder to evict from, so prices only rise, except on
the nodes that it freed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any

import numpy as np

from weir.engine.budgeted_victim_sets import permitted_victim_sets
from weir.engine.capacity import Capacity
from weir.engine.feasibility import Bools, pods_that_fit
from weir.engine.knapsack import VictimEntries, cheapest_by_node, min_devices_to_move
from weir.engine.pod_affinity import PodAffinityRules
from weir.engine.victim_candidates import VictimCandidates
from weir.engine.victim_sets import MAX_ENUMERATED, Tier, Victim, minimal_victim_sets
from weir.model.reasons import EvictionRule
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import Ints
from weir.state.jobs import Pod
from weir.state.shapes import RequestShape

Going = list[tuple[Victim, EvictionRule]]
Accept = Callable[[int, list[Victim]], bool]
Family = tuple[Any, Any]
Entry = tuple[Any, int, int]
"""What a node costs at the least, the node, and the version of what is known of it."""
_UNKNOWN = -1
_PRICE = 2
"""Position of the price in what a node costs at the least, after allowances and tier."""
_BESIDE_MOST = 16
"""Victims on the chosen node up to which the next choice among them is found."""
_SETS_MOST = 8
"""Sets of victims tried on one node, the cheapest first."""


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The next choice of victims: other workloads on the chosen node, or else the next node.

    `dearer` is the least difference in price, in device seconds. It is None if the choice comes later by
    quota, fair share or priority, whatever its price.
    """

    node: int
    dearer: float | None
    workloads: tuple[str, ...] = ()


class CheapestNode:
    """Nodes on which capacity could be freed for pods of one shape.

    They wait in one heap for each queue that would give its most protected victim: how soon a queue has
    to give changes with everything it gives, the order of the nodes within it doesn't.
    """

    def __init__(
        self,
        rules: PodAffinityRules,
        capacity: Capacity,
        victim_candidates: VictimCandidates,
        shape: RequestShape,
        open_: Bools,
        price_most: float,
    ) -> None:
        self._rules = rules
        self._capacity = capacity
        self._victim_candidates = victim_candidates
        self._shape = shape
        self._open = open_
        self._price_most = price_most
        self.gave_up = False  # there were more sets of victims than were tried
        self._version = 0
        self._found: dict[int, Going] = {}
        self._heaps: dict[Family, list[Entry]] = {}
        self._unknown: list[int] = []  # nodes without a bound
        self._pods_most = 0  # pods that fit without all candidates
        self._to_move: Ints | None = None  # least devices to move for one pod, by usable node
        if shape.whole:
            self._bound_whole(victim_candidates.takeable())
        self._least = sorted(entry[0][-1][0] for heap in self._heaps.values() for entry in heap)
        if not shape.whole or not victim_candidates.bounds:
            self._bound_any()
        for heap in self._heaps.values():
            heapify(heap)

    def could_hold(self, pods: int) -> bool:
        """Return True if this many pods would fit without all candidates."""
        if self._pods_most < pods:
            return False
        if self._to_move is None:
            return True
        idle_devices = self._capacity.totals.idle_devices
        return len(self._to_move) >= pods and int(self._to_move[:pods].sum()) <= idle_devices

    def _bound_whole(self, takeable: VictimEntries) -> None:
        capacity, shape = self._capacity, self._shape
        taken = np.bincount(takeable.node, takeable.devices, len(capacity.whole))
        together = capacity.whole + taken.astype(np.int64)
        self._pods_most = int((together // shape.devices)[self._open].sum())
        if not takeable.spans and 2 * shape.devices > together.max(
            initial=0
        ):  # one pod a node, and what it takes leaves no holes
            moved = min_devices_to_move(capacity.whole, shape.devices, takeable)[self._open]
            self._to_move = np.sort(moved[moved >= 0])
        bounds = takeable.bounds.get(shape.devices)  # valid while these are the possible victims
        if bounds is None:
            bounds = takeable.bounds[shape.devices] = cheapest_by_node(
                capacity.whole, shape.devices, takeable
            )
        for rank, price, node in bounds:
            if self._open[node] and price <= self._price_most:
                family, rest = split(takeable.tiers[rank])
                self._heaps.setdefault(family, []).append(((0, rest, (price,)), node, _UNKNOWN))
        bare = takeable.bare.difference(takeable.node.tolist()) if takeable.bare else ()
        self._unknown += [  # devices there are, and something else that is short
            node for node in sorted(bare) if self._open[node] and capacity.whole[node] >= shape.devices
        ]

    def _bound_any(self) -> None:
        """Collect every node with a possible victim, without price bounds."""
        self._heaps.clear()
        self._to_move = None
        columns = self._capacity.columns.copy()
        memory = self._capacity.device_memory
        held = set()
        for job in self._victim_candidates.jobs:
            for pod in self._victim_candidates.running(job):
                held.add(pod.node)
                columns.hold(pod.node, pod.shape, pod.devices, int(memory[pod.node]), -1)
        whole = np.count_nonzero(columns.share == WHOLE_MILLI, axis=1).astype(np.int64)
        count = np.where(self._open, pods_that_fit(columns, whole, memory, self._shape), 0)
        self._pods_most = int(count.sum())
        self._unknown = [node for node in sorted(held) if count[node]]

    def least_price(self, pods: int) -> float:
        """Return a lower bound of the price of capacity for this many pods; free nodes cost nothing."""
        prices = self._least
        free = (
            int((self._capacity.whole // self._shape.devices)[self._open].sum()) if self._shape.whole else 0
        )
        missing = max(0, pods - free)
        return float(sum(prices[:missing])) if len(prices) >= missing else 0.0

    def changed(self, nodes: set[int]) -> None:
        """Mark nodes on which a victim was taken."""
        self._version += 1
        self._unknown += [node for node in sorted(nodes) if self._open[node]]

    def best(self, accept: Accept, steps_most: int) -> tuple[int, Going] | None:
        """Return the cheapest node and its victims; `accept(node, units)` may reject each set.

        The search ends after `steps_most` nodes without a set.
        """
        if not self._shape.pod_rules:
            return self._best(accept, steps_most, None, [])
        shut: list[tuple[Family, Entry]] = []  # nodes whose turn it isn't: it may be, after other pods
        found = self._best(
            accept, steps_most, self._rules.clearable(self._capacity.columns, self._shape), shut
        )
        for family, entry in shut:
            heappush(self._heaps[family], entry)
        return found

    def runner_up(self) -> RunnerUp | None:
        """Return the choice that comes after the one that `best` has just returned; None if none is known.

        With pod affinity the order of the nodes depends on the pods placed so far, so none is.
        """
        ordered = self._families()
        if self._shape.pod_rules or not ordered:
            return None
        heap = self._heaps[ordered[0]]
        following = self._following_node(ordered)
        beside = self._beside(heap[0][1])
        if beside is None or following is None or beside.dearer is None:
            return following or beside
        return following if following.dearer is not None and following.dearer < beside.dearer else beside

    def _beside(self, node: int) -> RunnerUp | None:
        """Return the next victims on the chosen node; None without any, or if very many are possible."""
        victims, chosen = self._victim_candidates.victims_on(node), self._found.get(node)
        if (
            chosen is None
            or len(victims) > _BESIDE_MOST
            or self._victim_candidates.limits(victims) is not None
        ):
            return None
        pods = {pod for victim, _ in chosen for pod in victim.pods}
        price = sum([victim.price for victim, _ in chosen])
        tier = max([victim.tier for victim, _ in chosen])
        for key, others in islice(
            minimal_victim_sets(self._capacity, node, self._shape, victims), _SETS_MOST
        ):
            differs = {pod for victim in others for pod in victim.pods} != pods
            moves = any(victim.moves for victim in others)
            if differs and not moves and self._victim_candidates.legal_order(others) is not None:
                names = tuple(dict.fromkeys([victim.job.name for victim in others]))
                dearer = sum([victim.price for victim in others]) - price
                return RunnerUp(node, dearer if key[0] == tier else None, names)
        return None

    def _following_node(self, ordered: list[Family]) -> RunnerUp | None:
        """Return the node after the chosen one."""
        heap = self._heaps[ordered[0]]
        chosen = heap[0]
        rest = min(heap[1:3], default=None)
        if rest is not None:
            is_level = rest[0][:_PRICE] == chosen[0][:_PRICE]
            return RunnerUp(rest[1], rest[0][_PRICE][0] - chosen[0][_PRICE][0] if is_level else None)
        return RunnerUp(self._heaps[ordered[1]][0][1], None) if len(ordered) > 1 else None

    def _families(self) -> list[Family]:
        """Return the families that still have nodes, the first to give first."""
        families = [family for family, heap in self._heaps.items() if heap]
        return sorted(families, key=self._family_order)

    def _family_order(self, family: Family) -> tuple[Any, ...]:
        return family[0], self._victim_candidates.tiers.giving(family[1])

    def _best(
        self, accept: Accept, steps_most: int, open_: Bools | None, shut: list[tuple[Family, Entry]]
    ) -> tuple[int, Going] | None:
        vain = 0
        unknown = list(dict.fromkeys(self._unknown))
        self._unknown.clear()
        for node in unknown:
            if (open_ is not None and not open_[node]) or not self._look_into(node, accept):
                self._unknown += [] if open_ is None else [node]
        while vain < steps_most:
            families = [family for family, heap in self._heaps.items() if heap]
            if not families:
                return None
            family = min(families, key=self._family_order)
            entry = self._heaps[family][0]
            _, node, version = entry
            is_open = open_ is None or bool(open_[node])
            if is_open and version == self._version:
                return node, self._found[node]
            heappop(self._heaps[family])
            if not is_open:
                shut.append((family, entry))
            elif not self._look_into(node, accept):
                vain += 1
                if open_ is not None:
                    shut.append((family, entry))
        self.gave_up = True
        return None

    def _look_into(self, node: int, accept: Accept) -> bool:
        excesses = self._rules.excesses(self._capacity.columns, self._shape, node)
        if excesses is None:
            return False
        victims = self._victim_candidates.victims_on(node)
        limits = self._victim_candidates.limits(victims)
        if limits is None:
            found = minimal_victim_sets(self._capacity, node, self._shape, victims, excesses)
        else:
            found = permitted_victim_sets(
                *(self._capacity, node, self._shape, victims, excesses),
                limits,
                self._victim_candidates.allowances,
            )
        for at, (key, chosen) in enumerate(islice(found, _SETS_MOST), 1):
            if sum(victim.price for victim in chosen) > self._price_most:
                break
            self.gave_up |= at == _SETS_MOST or len(victims) > MAX_ENUMERATED
            going = self._victim_candidates.legal_order(chosen)
            if going is not None and accept(node, chosen):
                self._found[node] = going
                family, rest = split(key[0])
                used = self._victim_candidates.allowances(chosen)
                heappush(self._heaps.setdefault(family, []), ((used, rest, *key[1:]), node, self._version))
                return True
        return False


def split(tier: Tier) -> tuple[Family, Tier]:
    """Split a tier into the giving queue and the part that compares nodes of one queue."""
    return (tier[0], tier[2]), tier[3:]


def nodes_of(pods: tuple[Pod, ...]) -> set[int]:
    """Return the nodes of these pods."""
    return {pod.node for pod in pods}
