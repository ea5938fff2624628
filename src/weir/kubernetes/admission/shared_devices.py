"""The changes of a pod that asks for a share of a GPU: a toleration, and the devices that its containers see.

No device plugin takes part, so NVIDIA's container runtime chooses the devices by an environment variable. Its
value is the annotation that Weir writes with the binding, which the kubelet reads when a container starts.
An image may set the variable to all devices; the entry in the pod has precedence.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from weir.kubernetes.translate.annotations import PREFIX
from weir.kubernetes.translate.gpu_sharing import SHARING_TOLERATION

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
_ENTRY = {
    "name": VISIBLE_DEVICES,
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{PREFIX}gpus']"}},
}
_TOLERATION = {
    "key": SHARING_TOLERATION.key,
    "operator": SHARING_TOLERATION.operator,
    "effect": SHARING_TOLERATION.effect,
}

Operation = dict[str, Any]


def share_changes(spec: Mapping[str, Any]) -> Iterator[Operation]:
    """Return the JSON patch of a pod that asks for a share."""
    tolerations = spec.get("tolerations") or []
    if not any(each.get("key") == SHARING_TOLERATION.key for each in tolerations):
        yield _add("/spec/tolerations", tolerations, _TOLERATION)
    for part in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(part) or ()):
            yield from _name_devices(f"/spec/{part}/{at}/env", container.get("env") or [])


def _name_devices(path: str, env: list[Mapping[str, Any]]) -> Iterator[Operation]:
    stated = [at for at, each in enumerate(env) if each.get("name") == VISIBLE_DEVICES]
    for at in stated:
        yield {"op": "replace", "path": f"{path}/{at}", "value": _ENTRY}
    if not stated:
        yield _add(path, env, _ENTRY)


def _add(path: str, there: list[Any], value: Mapping[str, Any]) -> Operation:
    """Return the operation that appends to a list, which may not be there yet."""
    if there:
        return {"op": "add", "path": f"{path}/-", "value": value}
    return {"op": "add", "path": path, "value": [value]}
