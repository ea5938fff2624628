"""A node as its object states it, with no pod on it."""

from collections.abc import Mapping

from weir.kubernetes.api.objects import KubeNode
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.quantities import exact, in_unit
from weir.kubernetes.translate.requests import CLUSTER_LABEL, DEVICE_MEMORY_MAX, DEVICES_LABEL, DEVICES_MAX
from weir.model.nodes import Effect, Node, Taint

MIB, GIB = 1 << 20, 1 << 30
MODEL_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.intel.com/product")
MEMORY_MIB_LABELS = ("nvidia.com/gpu.memory", "gpu.intel.com/memory.max")
MEMORY_LABELS = ("amd.com/gpu.vram",)
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Keys of the taints of nodes whose kubelet doesn't report."""
_EFFECTS: Mapping[str, Effect] = {
    "NoSchedule": "NoSchedule",
    "PreferNoSchedule": "PreferNoSchedule",
    "NoExecute": "NoExecute",
}


def node_of(node: KubeNode, devices: DeviceResources, mistakes: list[str] | None = None) -> Node:
    """Return a node without pods; `mistakes` collects the fields that can't be used."""
    wrong: list[str] = [] if mistakes is None else mistakes
    capacity: dict[str, int] = {}
    kind, gpus = "", 0
    for name, written in sorted(node.status.allocatable.items()):
        try:
            if not devices.names(name):
                capacity[name] = in_unit(name, exact(written))
                continue
            count = int(exact(written))
        except ValueError as error:
            wrong.append(f"{name} is left out: {error}")
            continue
        if not 0 <= count <= DEVICES_MAX:
            wrong.append(f"{name} is left out: {count} is no number of devices from 0 to {DEVICES_MAX}")
        elif count > gpus:
            kind, gpus = name, count
    labels = {**node.metadata.labels, CLUSTER_LABEL: ""}
    if kind:
        labels[DEVICES_LABEL] = kind
    return Node(
        name=node.metadata.name,
        gpus=gpus,
        gpu_memory=_device_memory(labels) if gpus else 0,
        capacity=capacity,
        gpu_model=next((labels[name] for name in MODEL_LABELS if labels.get(name)), None) if gpus else None,
        labels=labels,
        taints=_taints(node),
        gpu_weight_milli=devices.gpu_weight_milli(kind),
    )


def _device_memory(labels: Mapping[str, str]) -> int:
    """Return the bytes of each device, by its vendor's labels; 0 without them."""
    try:
        for name in MEMORY_MIB_LABELS:
            if labels.get(name):
                return _sane_memory(int(exact(labels[name]) * MIB))
        for name in MEMORY_LABELS:
            if labels.get(name):  # in the units of its vendor: 192G is 192 GiB
                text = labels[name]
                return _sane_memory(int(exact(text[:-1]) * GIB) if text.endswith("G") else int(exact(text)))
    except ValueError:
        return 0
    return 0


def _sane_memory(value: int) -> int:
    """Return the bytes of a device; 0 (unknown) if no device can have this size."""
    return value if 0 < value <= DEVICE_MEMORY_MAX else 0


def _taints(node: KubeNode) -> tuple[Taint, ...]:
    taints: list[Taint] = []
    for taint in node.spec.taints:
        effect = _EFFECTS.get(taint.effect)
        if effect is not None:
            taints.append(Taint(taint.key, taint.value, effect))
    if node.spec.unschedulable and not any(_is_cordon(taint) for taint in taints):
        taints.append(CORDONED)
    return tuple(taints)


def _is_cordon(taint: Taint) -> bool:
    return taint.key == CORDONED.key and taint.effect == CORDONED.effect


def differ(node: Node, other: Node) -> bool:
    """Return True if two states of a node differ in labels, or in which resources the node has."""
    if node.labels != other.labels:
        return True
    first, second = (
        {name for name, amount in compared.capacity.items() if amount} for compared in (node, other)
    )
    return first != second
