"""Pods that hold devices, as the state of the cluster has them, to match measurements with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gangs.gang import TrackedPod
from weir.kubernetes.translate.gpu_sharing import is_share
from weir.model.workloads import WorkloadType

_STRATEGY, _REPLICAS = "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas"
"""Labels of nodes by which a device plugin hands out one device several times."""
_OWN_DEVICES = ("", "none")


@dataclass(frozen=True, slots=True)
class DeviceHolder:
    """A pod that holds devices of a node. `is_exclusive`: it shares none of them."""

    namespace: str
    name: str
    uid: str
    workload: str
    type: WorkloadType
    node: str
    devices: tuple[int, ...]
    is_exclusive: bool


def holding_keys(state: ClusterState) -> list[str]:
    """Return the keys of the pods that hold devices."""
    return [key for key, tracked in state.pods.by_key.items() if _holds(tracked)]


def held_pods(state: ClusterState, keys: Sequence[str]) -> list[DeviceHolder]:
    """Return these pods as far as they still hold devices."""
    holders = []
    for key in keys:
        tracked = state.pods.by_key.get(key)
        if tracked is None or not _holds(tracked):
            continue
        gang, info = tracked.gang, tracked.info
        if gang is None or info is None or gang.reported is None:
            continue
        node = state.node_states.node(tracked.node)
        holders.append(
            DeviceHolder(
                gang.key.namespace,
                tracked.name,
                tracked.uid,
                gang.name,
                gang.reported.type,
                tracked.node,
                tracked.devices,
                node is not None and not is_share(info.request) and not _is_multiplied(node.labels),
            )
        )
    return holders


def _holds(tracked: TrackedPod) -> bool:
    return tracked.bound and bool(tracked.devices) and not tracked.over


def _is_multiplied(labels: Mapping[str, str]) -> bool:
    """Return True if a device plugin hands out a device of the node several times."""
    return labels.get(_STRATEGY, "") not in _OWN_DEVICES or labels.get(_REPLICAS, "1") not in ("0", "1")
