"""The largest free blocks of whole devices: on one node, and the next on another."""

import pytest

from weir.engine.capacity import Capacity
from weir.model.nodes import Node
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, Placement, PodAssigned, PodKey, QueuesSet, WorkloadSubmitted
from weir.state.reduce import reduce


@pytest.mark.parametrize(
    ("held", "blocks"),
    [((1,), (3, 0)), ((4,), (0, 0)), ((1, 3), (3, 1)), ((2, 2, 4), (2, 2)), ((0, 1, 2), (4, 3))],
)
def test_largest_free_blocks_by_the_devices_held_on_each_node(
    held: tuple[int, ...], blocks: tuple[int, int]
) -> None:
    cluster = Cluster()
    reduce(cluster, QueuesSet((Queue("p"),)))
    for at, devices in enumerate(held):
        name = f"n{at}"
        reduce(cluster, NodeSet(Node(name, 4, 16 << 30, {"cpu": 64_000, "memory": 64 << 30, "pods": 99})))
        if devices:
            group = PodGroup("0", Request(devices=devices), 1, 1)
            reduce(cluster, WorkloadSubmitted(Workload(name, "p", (group,), 1, 0.0), 0.0))
            reduce(cluster, PodAssigned(Placement(PodKey(name, 0, 0), name, tuple(range(devices))), 0.0))
    room = Capacity.of(cluster)
    room.whole = room.whole[: len(held)]  # columns have space for further nodes
    assert room.largest_free_blocks() == blocks
