"""Costs by state: the same however many nodes are asked about at once, and however much is forgotten between."""

import random

import numpy as np
import pytest

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import devices_for, fits
from weir.engine.placement.fragmentation import FragmentationScore, NodeStateTable
from weir.engine.placement.mix_worth import MixWorth, likely_use
from weir.model.nodes import Node
from weir.model.queues import Queue
from weir.model.reasons import EvictionCause, EvictionRule
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import (
    NodeSet,
    Placement,
    PodAssigned,
    PodKey,
    PodStopping,
    QueuesSet,
    WorkloadSubmitted,
)
from weir.state.reduce import reduce
from weir.state.shapes import RequestShape

REQUESTS = (
    Request(devices=1, share_milli=810, cpu_milli=4000),
    Request(devices=1, share_milli=190, cpu_milli=1000),
    Request(devices=2, share_milli=300, cpu_milli=2000),
    Request(devices=1, cpu_milli=8000),
    Request(devices=4, cpu_milli=16000),
    Request(devices=1, gpu_memory=20 << 30, share_milli=0, cpu_milli=2000),
    Request(cpu_milli=3000),
)


def pool(nodes: int) -> tuple[Cluster, list[RequestShape], Capacity]:
    cluster = Cluster()
    for index in range(nodes):
        gpus, memory = (4, 40 << 30) if index % 3 else (8, 80 << 30)
        reduce(
            cluster,
            NodeSet(Node(f"node{index}", gpus, memory, {"cpu": 64_000, "memory": 512 << 30, "pods": 99})),
        )
    return cluster, [cluster.shapes.shape_of(request) for request in REQUESTS], Capacity.of(cluster)


def potential(cluster: Cluster, shapes: list[RequestShape]) -> FragmentationScore:
    mix = [(shape, 10 + index) for index, shape in enumerate(shapes)]
    empty = Capacity.of(cluster)

    def allowed(shape: RequestShape) -> np.ndarray:
        mask = np.zeros(cluster.free_capacity.free.shape[1], np.bool_)
        for index, node in enumerate(cluster.nodes):
            mask[index] = node is not None and node.gpus >= shape.devices
        return mask

    worth = MixWorth(mix, allowed, empty, int(empty.whole.sum()) * 1000)
    return FragmentationScore(worth, empty.columns.share.shape[1])


def placed_at_random(
    cluster: Cluster, shapes: list[RequestShape], capacity: Capacity, chance: random.Random
) -> None:
    shape = chance.choice(shapes)
    open_ = np.flatnonzero(fits(capacity, shape, np.arange(len(cluster.nodes))))
    if len(open_):
        node = int(chance.choice(open_.tolist()))
        capacity.allocate(node, shape, devices_for(capacity, shape, node, ()))


@pytest.mark.parametrize("most", [0, 1 << 14])
def test_updates_at_once_and_one_by_one_equal_a_fresh_score(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.engine.placement.fragmentation._MOST_FIRST", most)
    monkeypatch.setattr("weir.engine.placement.fragmentation._MAX_PER_NODE", 1)
    chance = random.Random(7)
    cluster, shapes, capacity = pool(12)
    kept = potential(cluster, shapes)
    for _ in range(60):
        placed_at_random(cluster, shapes, capacity, chance)
        shape = chance.choice(shapes)
        nodes = np.flatnonzero(fits(capacity, shape, np.arange(len(cluster.nodes))))
        costs, devices = kept.costs(capacity, shape, nodes)
        one_by_one = [kept.cost_on(capacity, shape, int(node)) for node in nodes]
        fresh = potential(cluster, shapes).costs(capacity, shape, nodes)
        assert one_by_one == list(zip(costs.tolist(), devices.tolist(), strict=True))
        assert (fresh[0] == costs).all()
        assert (fresh[1] == devices).all()


def test_nodes_alike_are_in_one_state_whichever_device_is_held() -> None:
    _, shapes, capacity = pool(4)
    states = NodeStateTable(np.zeros(capacity.columns.free.shape[1], np.int64))
    first = states.state_ids(capacity)[[1, 2]].tolist()
    assert first[0] == first[1]
    capacity.allocate(1, shapes[0], (0,))
    assert states.state_ids(capacity)[1] != first[0]
    capacity.allocate(2, shapes[0], (3,))
    assert states.state_ids(capacity)[1] == states.state_ids(capacity)[2]


def test_a_trial_given_up_leaves_the_states_as_they_were() -> None:
    _, shapes, capacity = pool(4)
    states = NodeStateTable(np.zeros(capacity.columns.free.shape[1], np.int64))
    before = states.state_ids(capacity).tolist()
    with capacity.trial():
        capacity.allocate(0, shapes[3], (0,))
        assert states.state_ids(capacity).tolist() != before
    assert states.state_ids(capacity).tolist() == before


def test_states_after_releases_are_those_of_the_freed_nodes() -> None:
    cluster, shapes, _ = pool(4)
    group = PodGroup("0", Request(devices=1, cpu_milli=8000), 1, 1)
    reduce(cluster, QueuesSet((Queue("p"),)))
    for index in range(2):
        name = f"w{index}"
        reduce(cluster, WorkloadSubmitted(Workload(name, "p", (group,), 1, 0.0), 0.0))
        reduce(cluster, PodAssigned(Placement(PodKey(name, 0, 0), f"node{index}", (0,)), 0.0))
    capacity = Capacity.of(cluster)
    states = NodeStateTable(np.zeros(capacity.columns.free.shape[1], np.int64))
    now = states.state_ids(capacity).tolist()
    reduce(cluster, PodStopping(PodKey("w1", 0, 0), 1.0, EvictionCause(EvictionRule.SWAP, None, "", {})))
    capacity.allocate(3, shapes[3], (0,))  # not seen yet
    after = capacity.after_releases(cluster)
    fresh = Capacity(after.columns.copy(), after.device_memory)
    assert states.state_ids(after).tolist() == states.state_ids(fresh).tolist()
    assert states.state_ids(after)[0] == now[0]
    assert states.state_ids(after)[1] == now[2]
    assert states.state_ids(capacity)[1] == now[1]


def test_the_rest_of_a_device_finds_the_use_of_the_requests_that_fit_it() -> None:
    halves = likely_use(np.array([1.0]), np.array([500]))
    mixed = likely_use(np.array([1.0, 1.0]), np.array([300, 600]))

    assert [halves[free] for free in (0, 499, 500, 999, 1000)] == [0, 0, 500, 500, 1000]
    assert [round(mixed[free], 6) for free in (299, 300, 599, 600, 900, 1000)] == [0, 300, 300, 600, 900, 900]
