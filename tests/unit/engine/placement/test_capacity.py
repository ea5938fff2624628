"""The largest free blocks of whole devices: on one node, and the next on another."""

import pytest

from weir.engine.placement.capacity import Capacity
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
    for index, devices in enumerate(held):
        name = f"n{index}"
        reduce(cluster, NodeSet(Node(name, 4, 16 << 30, {"cpu": 64_000, "memory": 64 << 30, "pods": 99})))
        if devices:
            group = PodGroup("0", Request(devices=devices), 1, 1)
            reduce(cluster, WorkloadSubmitted(Workload(name, "p", (group,), 1, 0.0), 0.0))
            reduce(cluster, PodAssigned(Placement(PodKey(name, 0, 0), name, tuple(range(devices))), 0.0))
    capacity = Capacity.of(cluster)
    capacity.whole = capacity.whole[: len(held)]  # columns have space for further nodes
    assert capacity.totals.largest_free_blocks() == blocks


def test_totals_follow_every_change_and_rollback() -> None:
    cluster = Cluster()
    reduce(cluster, QueuesSet((Queue("p"),)))
    for index in range(12):
        reduce(
            cluster, NodeSet(Node(f"n{index}", 4, 16 << 30, {"cpu": 64_000, "memory": 64 << 30, "pods": 99}))
        )
    groups = (
        PodGroup("0", Request(devices=2), 2, 2),
        PodGroup("1", Request(devices=1, share_milli=300), 1, 1),
    )
    reduce(cluster, WorkloadSubmitted(Workload("w", "p", groups, 3, 0.0), 0.0))
    whole, shared = cluster.jobs["w"].shapes
    capacity = Capacity.of(cluster)

    def is_recounted() -> bool:
        columns = Capacity(capacity.columns.copy(), capacity.device_memory)
        kept, fresh = capacity.totals, columns.totals
        return (kept.free_gpu_milli, kept.idle_devices, kept.largest_free_blocks()) == (
            fresh.free_gpu_milli,
            fresh.idle_devices,
            fresh.largest_free_blocks(),
        )

    assert capacity.totals.free_gpu_milli == 48_000
    capacity.allocate(0, whole, (0, 1))
    assert is_recounted()
    with capacity.trial():
        capacity.allocate(1, whole, (1, 3))
        capacity.allocate(2, shared, (0,))
        capacity.allocate(0, whole, (0, 1))  # more is held than there is
        capacity.withhold(2, (3,))
        assert is_recounted()
        assert capacity.totals.free_gpu_milli < 48_000
    assert is_recounted()
    capacity.refresh(cluster, [0])
    assert is_recounted()
    capacity.allocate(1, whole, (1, 3))
    capacity.allocate(2, shared, (0,))
    capacity.refresh(cluster, range(12))
    assert is_recounted()
    assert capacity.totals.idle_devices == 48
