"""Bounds spare searches that would find nothing: plans are the same without any, whatever shares devices.

The next choice of victims is the one with the lowest bound, so without bounds it may be another.
"""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.engine.victims.cheapest_node import CheapestNode, split
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload

from .budget import examples
from .cluster_view import differs
from .device_worlds import shared_worlds, weighted_worlds
from .random_cluster import POLICIES, ROUGH, Does, World, node, single, worlds
from .running import Running
from .test_policies import answer

CHEAP_TO_MOVE = tuple(
    Policy.model_validate({**policy.model_dump(), "price": {"restart": 200}})
    for policy in POLICIES
    if policy.consolidation.enabled
)
"""Policies under which moves are within the budget for a while, and later no more."""
SEARCHED_FIRST = "weir.engine.victims.move_bounds.NODES_MAX"
"""Nodes that are searched first: few, for worlds have few."""
NEXT_CHOICE = " The next choice"


def _world_with_level_choices() -> World:
    """Return a world in which a workload preempts the cheapest of three, and the others cost the same."""
    later = [single(f"w{index}", "p0", submitted_s=-60.0) for index in range(3, 8)]
    return World(
        nodes=(node("n0", 4), node("n1", 4), node("n2", 1), node("n3", 1)),
        queues=(Queue("p0", quota={"gpu": 0}, weight={"gpu": 1.0}),),
        workloads=(
            Workload("w0", "p0", (PodGroup("0", Request(devices=1), count=2),), 1, -60.0),
            Workload("w1", "p0", (PodGroup("0", Request(devices=1, share_milli=100)),), 1, -60.0),
            Workload("w2", "p0", (PodGroup("0", Request(devices=3), count=2, min=2),), 2, -60.0),
            *later,
            single("w8", "p0", submitted_s=-60.0, priority=60),
        ),
        policy=Policy.model_validate({"price": {"restart": 200}}),
        steps=((Does.SUBMIT, 4), (Does.CYCLE, 0), (Does.SUBMIT, 2), *[(Does.CYCLE, 0)] * 9),
    )


def _world_with_an_owner_beside_a_department() -> World:
    """Return a world in which an owner asks a project within quota, below a department that is over it."""
    weight = {"gpu": 1.0}
    queues = (
        Queue("d0", is_project=False, quota={"gpu": 0}, weight=weight),
        Queue("p0", quota={"gpu": 0}, weight=weight, created_s=60.0),
        Queue("p1", parent="d0", quota={"gpu": 2000}, weight=weight, created_s=120.0),
        Queue("p2", quota={"gpu": 2000}, weight=weight, created_s=180.0),
    )
    borrowed = [single(f"w{index}", "p0", submitted_s=-60.0) for index in range(3)]
    below = [single(f"w{index}", "p1", submitted_s=-60.0) for index in (3, 4)]
    return World(
        nodes=(node("n0", 3),),
        queues=queues,
        workloads=(*borrowed, *below, single("w5", "p2", 2, submitted_s=-60.0)),
        policy=Policy(),
        steps=((Does.SUBMIT, 4), (Does.CYCLE, 0), (Does.SUBMIT, 2), *[(Does.CYCLE, 0)] * 9),
    )


def without_next_choice(plan: Plan) -> dict[str, object]:
    """Return what a plan says, and of each eviction's choice only what it costs."""
    evictions = [
        replace(
            eviction, cause=replace(eviction.cause, choice=eviction.cause.choice.partition(NEXT_CHOICE)[0])
        )
        for eviction in plan.evictions
    ]
    return {**answer(plan), "evictions": evictions}


ANY_WORLD = st.one_of(
    worlds(happens=ROUGH, policies=(*POLICIES, *CHEAP_TO_MOVE)),
    worlds(happens=ROUGH, policies=CHEAP_TO_MOVE, deep=False, limits=False),
    worlds(happens=ROUGH, policies=CHEAP_TO_MOVE, topology=True, rules=True),
    weighted_worlds(happens=ROUGH, policies=(*POLICIES, *CHEAP_TO_MOVE)),
    shared_worlds(happens=ROUGH, policies=(*POLICIES, *CHEAP_TO_MOVE)),
    shared_worlds(happens=ROUGH, policies=(*POLICIES, *CHEAP_TO_MOVE), deep=False, limits=False),
)


@examples(24)
@example(_world_with_level_choices())
@example(_world_with_an_owner_beside_a_department())
@given(ANY_WORLD)
def test_plans_are_the_same_without_bounds(world: World) -> None:
    running = Running(world)

    def look(plan: Plan) -> None:
        searched = decide(running.cluster, world.policy, running.now_s, EngineCache(bounds=False))
        assert not differs(without_next_choice(plan), without_next_choice(searched))

    running.before(look)
    with patch(SEARCHED_FIRST, 1):
        for _ in running.run():
            pass
        running.submit()
        running.settle(6)


class _CheckedNodes(CheapestNode):
    """A search that looks into every node at once, and holds what it finds against the bounds."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        heaps, self._heaps = self._heaps, {}
        bounds = {
            node: ((0, split(tier)[1], least), split(tier)[0]) for tier, least, node in self.bounds.entries
        }
        searched = set(self.bounds.unknown)
        for index in range(len(self._open)):
            if not self._open[index] or not self._look_into(index, lambda _, __: True):
                continue
            ((family, ((price, _, _),)),) = self._heaps.items()
            self._heaps.clear()
            if index in searched:
                continue
            assert index in bounds, f"no bound of node {index}"
            least, lowest = bounds[index]
            if family == lowest:
                assert least <= price
            else:
                assert self._family_order(lowest) <= self._family_order(family)
        self._heaps, self.victims_by_node, self.gave_up = heaps, {}, False


@examples(24)
@given(ANY_WORLD)
def test_no_node_costs_less_than_its_bound(world: World) -> None:
    running = Running(world)
    with patch("weir.engine.victims.cheapest_node.CheapestNode", _CheckedNodes), patch(SEARCHED_FIRST, 1):
        for _ in running.run():
            pass
        running.submit()
        running.settle(6)
