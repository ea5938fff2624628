"""Patches of claims and volumes right before a pod is bound."""

from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.translate.volumes import (
    BOUND_BY,
    SELECTED_NODE,
    BindVolume,
    SelectNode,
    VolumeInventory,
    before_bind,
)
from weir.kubernetes.writes.operations import Preparation
from weir.model.nodes import Node


def preparations(pod: KubePod, node: Node, inventory: VolumeInventory) -> tuple[Preparation, ...] | str:
    """Return the patches before a binding to a node, or a sentence why the pod can't be bound there."""
    writes = before_bind(pod, node, inventory)
    if isinstance(writes, str):
        return writes
    return tuple(
        _selected(write) if isinstance(write, SelectNode) else _taken(write, inventory) for write in writes
    )


def _selected(write: SelectNode) -> Preparation:
    path = path_of("v1", "persistentvolumeclaims", write.namespace, write.claim)
    return Preparation(path, {"metadata": {"annotations": {SELECTED_NODE: write.node}}})


def _taken(write: BindVolume, inventory: VolumeInventory) -> Preparation:
    """Bind a volume to its claim. The write names the version that was read, so it fails after any change."""
    version = inventory.volumes[write.volume].metadata.resource_version
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": write.namespace,
        "name": write.claim,
        "uid": write.claim_uid,
    }
    metadata = {"resourceVersion": version, "annotations": {BOUND_BY: "yes"}}
    path = path_of("v1", "persistentvolumes", name=write.volume)
    return Preparation(path, {"metadata": metadata, "spec": {"claimRef": claim}})
