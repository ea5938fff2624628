"""The next choice of victims after the chosen one, to say how much dearer it would have been."""

from dataclasses import dataclass
from itertools import islice

from weir.engine.placement.capacity import Capacity
from weir.engine.victims.cheapest_node import PRICE_AT, SETS_MOST, CheapestNode, Entry
from weir.engine.victims.victim_candidates import VictimCandidates
from weir.engine.victims.victim_sets import NodeCapacity, minimal_victim_sets
from weir.state.shapes import RequestShape

_BESIDE_MOST = 16
"""Number of other victims on the chosen node up to which the next choice is searched among them."""


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The next choice of victims: other workloads on the chosen node, or else the next node.

    `dearer` is the least difference in price, in device seconds. It is None if the choice comes later by
    quota, fair share or priority, whatever its price.
    """

    node: int
    dearer: float | None
    workloads: tuple[str, ...] = ()


def runner_up(
    nodes: CheapestNode, candidates: VictimCandidates, capacity: Capacity, shape: RequestShape
) -> RunnerUp | None:
    """Return the choice that comes after the node just chosen; None if none is known.

    With pod affinity the order of the nodes depends on the pods placed so far, so none is.
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
    """Return the next victims on the chosen node; None without any, or if very many are possible."""
    victims, chosen = candidates.victims_on(node), nodes.found.get(node)
    if chosen is None or len(victims) > _BESIDE_MOST or candidates.limits(victims) is not None:
        return None
    space = NodeCapacity(capacity, node, shape, victims)
    pods = {pod for victim, _ in chosen for pod in victim.pods}
    price = sum([victim.price for victim, _ in chosen])
    tier = max([victim.tier for victim, _ in chosen])
    for key, others in islice(minimal_victim_sets(space, victims), SETS_MOST):
        differs = {pod for victim in others for pod in victim.pods} != pods
        moves = any(victim.moves for victim in others)
        if differs and not moves and candidates.legal_order(others) is not None:
            names = tuple(dict.fromkeys([victim.job.name for victim in others]))
            dearer = sum([victim.price for victim in others]) - price
            return RunnerUp(node, dearer if key[0] == tier else None, names)
    return None
