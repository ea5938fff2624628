"""Bounds of GPU models bind work that names no model, in each step of a cycle."""

from dataclasses import replace

import pytest
from tests.properties.random_cluster import World, node, single
from tests.properties.running import Running

from weir.engine.cache import EngineCache
from weir.model.policy import PRESETS, Policy
from weir.model.queues import Queue
from weir.state.events import WorkloadSubmitted

QUOTA = {"gpu": 8000, "gpu.H100": 0}


@pytest.mark.parametrize(
    ("fields", "starts"), [({}, True), ({"lapsed": True}, False), ({"preemptible": False}, False)]
)
def test_the_quota_of_a_model_binds_work_that_may_not_borrow(fields: dict[str, bool], starts: bool) -> None:
    running = Running(World((node("h", 2, gpu_model="H100"),), (Queue("team", quota=QUOTA),), ()))
    running.tell(WorkloadSubmitted(replace(single("any", "team", 2), **fields), 0.0))  # type: ignore[arg-type]
    assert bool(running.cycle().binds) is starts


@pytest.mark.parametrize("preset", PRESETS)
def test_moves_keep_within_the_limit_of_a_model_under_each_preset(preset: str) -> None:
    nodes = (node("a", 1, gpu_model="A100"), node("h", 1, gpu_model="H100"))
    world = World(
        nodes, (Queue("team", limit={"gpu.H100": 0}),), (), Policy.model_validate({"preset": preset})
    )
    running = Running(world)
    for name in ("first", "second"):
        running.tell(WorkloadSubmitted(single(name, "team"), 0.0))
    assert [place.node for place in running.cycle().binds] == ["a"]
    assert not running.cycle().acts


def test_the_nodes_without_a_model_are_kept() -> None:
    nodes = (node("a", 1, gpu_model="A100"), node("h", 1, gpu_model="H100"), node("none", 1))
    running = Running(World(nodes, (), ()))
    cache = EngineCache()
    cache.sync(running.cluster, running.world.policy)
    mask = cache.feasibility.nodes_without(frozenset({"H100"}))
    assert mask[:3].tolist() == [True, False, True]
    assert cache.feasibility.nodes_without(frozenset({"H100"})) is mask
