"""Rows of nodes say what pods hold of each resource, GPUs apart from memory and cores."""

from weir.model.nodes import Node
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.service.queue_rows import DeviceUtilization, node_rows
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, Placement, PodAssigned, PodKey, QueuesSet, WorkloadSubmitted
from weir.state.reduce import reduce


def test_allocated_gpus_are_the_parts_of_devices_in_use() -> None:
    cluster = Cluster()
    reduce(cluster, NodeSet(Node("node", 4, 16 << 30, {"cpu": 64_000, "memory": 1 << 40, "pods": 99})))
    reduce(cluster, QueuesSet((Queue("team"),)))
    whole = Request(devices=2, cpu_milli=4000, memory=8 << 30)
    half = Request(devices=1, share_milli=500, cpu_milli=1000, memory=1 << 30)
    for name, request, devices in (("whole", whole, (0, 1)), ("half", half, (2,))):
        workload = Workload(name, "team", (PodGroup("0", request),), 1, 0.0)
        reduce(cluster, WorkloadSubmitted(workload, 0.0))
        reduce(cluster, PodAssigned(Placement(PodKey(name, 0, 0), "node", devices), 0.0))
    (row,) = node_rows(cluster, {})
    assert row.allocated == {"gpu": 2.5, "cpu": 5.0, "memory": float(9 << 30), "pods": 2.0}
    assert [device.allocated for device in row.devices] == [1.0, 1.0, 0.5, 0.0]

    (row,) = node_rows(cluster, {("node", index): DeviceUtilization(activity="parked") for index in (2, 3)})
    assert [device.activity for device in row.devices] == [None, None, "parked", None]
