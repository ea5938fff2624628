"""Index of resource slices: the pools of each node, and the nodes that a change is about."""

from random import Random
from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.claims.random_claims import random_case

from weir.kubernetes.api.resource_objects import ResourceSlice
from weir.kubernetes.claims.pools import ParsedSlice, SliceIndex, parse_slice
from weir.model.nodes import Node

NAMES = ("a", "b", "c")


def partitionable(node: str, *, gpus: int = 2, generation: int = 1) -> list[ParsedSlice]:
    """Return the two slices of a node whose GPUs can be partitioned: counters, and devices."""
    pool = {"name": node, "generation": generation, "resourceSliceCount": 2}
    base = {"driver": "gpu.example.com", "pool": pool, "nodeName": node}
    counters = {"slices": {"value": "7"}}
    devices = [
        {"name": f"gpu-{at}", "consumesCounters": [{"counterSet": f"gpu-{at}", "counters": counters}]}
        for at in range(gpus)
    ]
    sets = [{"name": f"gpu-{at}", "counters": counters} for at in range(gpus)]
    return [
        parsed(f"{node}-counters", {**base, "sharedCounters": sets}),
        parsed(f"{node}-devices", {**base, "devices": devices}),
    ]


def parsed(name: str, spec: dict[str, Any]) -> ParsedSlice:
    return parse_slice(msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice))


def views(index: SliceIndex) -> dict[str, Any]:
    """Return what each node sees, in plain values."""
    return {
        name: [
            (
                pool.key,
                pool.problem,
                [each.key for each in pool.devices],
                sorted((pool.counters or {}).items()),
            )
            for pool in index.pools(Node(name, 0, 0, {}))
        ]
        for name in NAMES
    }


def test_a_node_sees_its_own_partitionable_pool_and_no_other() -> None:
    index = SliceIndex()
    for name in NAMES:
        for each in partitionable(name):
            index.see(each.name, each)
    for name in NAMES:
        (pool,) = index.pools(Node(name, 0, 0, {}))
        assert pool.key[1] == name
        assert not pool.problem
        assert len(pool.devices) == len(pool.counters or {}) == 2


def test_a_changed_counter_is_about_the_node_of_its_pool_alone() -> None:
    index = SliceIndex()
    for name in NAMES:
        for each in partitionable(name):
            index.see(each.name, each)
    (counters, _) = partitionable("b")
    assert index.see(counters.name, counters) == {"b"}
    assert index.see(counters.name, None) == {"b"}
    assert [pool.problem for pool in index.pools(Node("b", 0, 0, {}))] == ["is being updated"]


def test_counters_without_their_devices_keep_requests_for_all_devices_waiting_everywhere() -> None:
    index = SliceIndex()
    for name in NAMES:
        for each in partitionable(name):
            index.see(each.name, each)
    (_, devices) = partitionable("b")
    assert index.see(devices.name, None) is None
    assert [pool.problem for pool in index.pools(Node("a", 0, 0, {}))] == ["", "is being updated"]
    assert index.see(devices.name, devices) is None
    assert [pool.problem for pool in index.pools(Node("a", 0, 0, {}))] == [""]


def test_a_new_generation_of_counters_alone_is_an_update_that_is_under_way() -> None:
    index = SliceIndex()
    for each in partitionable("a"):
        index.see(each.name, each)
    (counters, devices) = partitionable("a", generation=2)
    index.see(counters.name, counters)
    assert not any(pool.devices for pool in index.pools(Node("a", 0, 0, {})))
    index.see(devices.name, devices)
    assert [len(pool.devices) for pool in index.pools(Node("a", 0, 0, {}))] == [2]


@pytest.mark.parametrize("seed", range(30))
def test_a_change_names_each_node_that_sees_other_pools_since(seed: int) -> None:
    chance = Random(seed)
    slices = [
        parse_slice(msgspec.convert(each, ResourceSlice))
        for name in NAMES
        for each in random_case(chance, name).slices
    ] + [each for name in NAMES for each in partitionable(name)]
    index = SliceIndex()
    there: dict[str, ParsedSlice] = {}
    for _ in range(60):
        each = chance.choice(slices)
        removed = each.name in there and chance.random() < 0.5
        before = views(index)
        touched = index.see(each.name, None if removed else each)
        there.pop(each.name, None)
        if not removed:
            there[each.name] = each
        after = views(index)
        changed = {name for name in NAMES if before[name] != after[name]}
        assert touched is None or changed <= touched
        fresh = SliceIndex()
        for name, other in there.items():
            fresh.see(name, other)
        assert views(fresh) == after
        assert len(index) == len(there)
