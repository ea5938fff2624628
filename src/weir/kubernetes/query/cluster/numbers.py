"""Answers about a cluster from the state of its control: run on the control thread, which owns the state."""

from collections.abc import Iterator, Mapping, Sequence

from weir.api.answers import DeviceRow, NodeRow, PoolStatus
from weir.engine.overcommit import NodeDeviceUsage
from weir.kubernetes.translate.gpu_sharing import DRAINING, GPU_SHARING, SET_ASIDE
from weir.kubernetes.usage.cluster_use import DeviceSighting, Place
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI
from weir.service.queue_rows import DeviceUtilization, node_rows
from weir.state.cluster import Cluster
from weir.state.jobs import Job

OTHERS = "other schedulers"
_STATES = {
    "node.kubernetes.io/unschedulable": "cordoned",
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "not ready",
}
_SHARING = {SET_ASIDE: "shared", DRAINING: "draining"}
DeviceUses = Mapping[str, NodeDeviceUsage | None]
"""Use of devices by the names of nodes."""
NOT_SEEN: Mapping[Place, DeviceSighting] = {}


def nodes_at(cluster: Cluster, positions: Sequence[int]) -> list[tuple[int, Node]]:
    """Return the existing nodes at these positions."""
    present = (position for position in positions if position < len(cluster.nodes))
    return [(position, node) for position in present if (node := cluster.nodes[position]) is not None]


def rows_of_nodes(
    cluster: Cluster,
    uses: DeviceUses,
    positions: Sequence[int],
    seen: Mapping[Place, DeviceSighting] = NOT_SEEN,
) -> list[NodeRow]:
    """Return the nodes at these positions, with the devices in use and their utilization as last seen."""
    nodes = nodes_at(cluster, positions)
    devices = {
        (node.name, index): DeviceUtilization(sighting.use, sighting.memory_used, activity=sighting.activity)
        for _, node in nodes
        for index in range(node.gpus)
        if (sighting := seen.get((node.name, index))) is not None
    }
    rows = node_rows(cluster, devices, [position for position, _ in nodes])
    return [_with_others(row, node, uses.get(node.name)) for row, (_, node) in zip(rows, nodes, strict=True)]


def _with_others(row: NodeRow, node: Node, use: NodeDeviceUsage | None) -> NodeRow:
    """Return a row with all devices of the node, and all in use, even if those are more."""
    if use is None:
        return row
    rows_by_index = {device.index: device for device in row.devices}
    devices = [
        rows_by_index.get(index)
        or DeviceRow(index=index, model=node.gpu_model, memory=node.gpu_memory, allocated=0.0, foreign=OTHERS)
        for index in range(node.gpus)
    ]
    allocated = use.own_milli / WHOLE_MILLI + use.others
    return row.model_copy(
        update={
            "devices": devices,
            "capacity": {**row.capacity, GPU: float(use.gpus)},
            "allocated": {**row.allocated, GPU: allocated},
            "others": float(use.others),
            "state": list(dict.fromkeys(_states(node, use))),
        }
    )


def _states(node: Node, use: NodeDeviceUsage) -> Iterator[str]:
    if use.excess_milli:
        yield f"overcommitted by {use.excess_milli / WHOLE_MILLI:g}"
    for taint in node.taints:
        if taint.key in _STATES:
            yield _STATES[taint.key]
    sharing = _SHARING.get(node.labels.get(GPU_SHARING, ""))
    if sharing is not None:
        yield sharing


def pool_status(
    cluster: Cluster, uses: DeviceUses, policy: Policy, *, version: str, started_s: float
) -> PoolStatus:
    """Return a summary of the cluster."""
    nodes = [node for node in cluster.nodes if node is not None]
    devices, milli, others = 0, 0, 0
    for node in nodes:
        use = uses.get(node.name)
        devices += node.gpus if use is None else use.gpus
        milli += 0 if use is None else use.own_milli
        others += 0 if use is None else use.others
    holding = sum(map(holds_capacity, cluster.jobs.values()))
    return PoolStatus(
        version=version,
        nodes=len(nodes),
        devices=devices,
        allocated=milli / WHOLE_MILLI + others,
        others=float(others),
        running=holding,
        pending=len(cluster.jobs) - holding,
        policy=policy.preset,
        started_s=started_s,
    )


def holds_capacity(job: Job) -> bool:
    """Return True if a workload has pods that run, or that terminate and still hold their devices."""
    return bool(job.running_pods()) or job.stopping > 0
