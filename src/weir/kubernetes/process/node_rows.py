"""The nodes of a Kubernetes cluster as people read them: with devices of others, excess and state."""

from collections.abc import Iterator

from weir.api.answers import DeviceRow, NodeRow
from weir.engine.overcommit import NodeDeviceUsage
from weir.kubernetes.translate.gpu_sharing import DRAINING, GPU_SHARING, SET_ASIDE
from weir.model.nodes import Node
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI

OTHERS = "other schedulers"
_STATES = {
    "node.kubernetes.io/unschedulable": "cordoned",
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "not ready",
}
_SHARING = {SET_ASIDE: "shared", DRAINING: "draining"}


def cluster_node_row(row: NodeRow, node: Node, use: NodeDeviceUsage | None) -> NodeRow:
    """Return a row with all devices of the node, and all in use, even if those are more."""
    if use is None:
        return row
    there = {device.index: device for device in row.devices}
    devices = [
        there.get(at)
        or DeviceRow(index=at, model=node.gpu_model, memory=node.gpu_memory, allocated=0.0, foreign=OTHERS)
        for at in range(node.gpus)
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
