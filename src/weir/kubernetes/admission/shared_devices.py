"""The changes of a pod that asks for a share of a GPU: a toleration, and variables for its containers.

No device plugin takes part, so NVIDIA's container runtime chooses the devices by an environment variable, and
limits their memory by two more. Their values are annotations that Weir writes with the binding; the kubelet
reads them when a container starts. An image may set the variables; the entries in the pod have precedence.
The pod says that it has them, so that Weir needn't read the environment of every pod. A policy holds the word
against the containers.
A privileged container sees all devices, whatever its variables say. So a pod with one doesn't say that it has
them. A container that is added for debugging gets them, too.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from weir.kubernetes.translate.annotations import PREFIX, SHARE_VARIABLES
from weir.kubernetes.translate.gpu_sharing import SHARING_TOLERATION

VARIABLES = {
    "NVIDIA_VISIBLE_DEVICES": "gpus",
    "NVIDIA_GPU_MEMORY_REQUEST": "gpu-memory-limit",
    "NVIDIA_GPU_MEMORY_LIMIT": "gpu-memory-limit",
}
"""Environment variables, each with the annotation (without Weir's prefix) that has its value."""
SHARE_KEY = f"{PREFIX}{SHARE_VARIABLES}"
"""Annotation of a pod whose containers all have the variables."""
_PARTS = ("containers", "initContainers")
_TOLERATION = {
    "key": SHARING_TOLERATION.key,
    "operator": SHARING_TOLERATION.operator,
    "effect": SHARING_TOLERATION.effect,
}

Operation = dict[str, Any]


def share_changes(pod: Mapping[str, Any]) -> Iterator[Operation]:
    """Return the JSON patch of a pod that asks for a share."""
    spec = pod["spec"]
    if not any(_is_privileged(container) for part in _PARTS for container in spec.get(part) or ()):
        if not (pod.get("metadata") or {}).get("annotations"):
            yield {"op": "add", "path": "/metadata/annotations", "value": {}}
        yield {"op": "add", "path": "/metadata/annotations/" + SHARE_KEY.replace("/", "~1"), "value": "true"}
    tolerations = spec.get("tolerations") or []
    if not any(toleration.get("key") == SHARING_TOLERATION.key for toleration in tolerations):
        yield _add("/spec/tolerations", tolerations, _TOLERATION)
    for part in _PARTS:
        yield from _for_containers(spec, part)


def claimed_share_changes(pod: Mapping[str, Any], resource: str) -> Iterator[Operation]:
    """Return the JSON patch of a pod with a fraction whose share is claimed: each container asks for it."""
    for part in _PARTS:
        for index, container in enumerate(pod["spec"].get(part) or ()):
            path, stated = f"/spec/{part}/{index}/resources", container.get("resources") or {}
            if not stated:
                yield {"op": "add", "path": path, "value": {}}
            for kind in ("requests", "limits"):
                amounts = {**(stated.get(kind) or {}), resource: "1"}
                yield {"op": "add", "path": f"{path}/{kind}", "value": amounts}


def debugging_changes(pod: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Operation]:
    """Return the JSON patch of a pod with a share that gets another ephemeral container."""
    if SHARE_KEY in ((pod.get("metadata") or {}).get("annotations") or {}):
        old = {
            container.get("name") for container in (before.get("spec") or {}).get("ephemeralContainers") or ()
        }
        yield from _for_containers(pod["spec"], "ephemeralContainers", old)


def _for_containers(
    spec: Mapping[str, Any], part: str, but: Collection[str | None] = ()
) -> Iterator[Operation]:
    for index, container in enumerate(spec.get(part) or ()):
        if container.get("name") not in but:
            yield from _with_variables(f"/spec/{part}/{index}/env", container.get("env") or [])


def _is_privileged(container: Mapping[str, Any]) -> bool:
    return bool((container.get("securityContext") or {}).get("privileged"))


def field_path(key: str) -> str:
    """Return the path of an annotation of Weir, as a variable names it."""
    return f"metadata.annotations['{PREFIX}{key}']"


def _with_variables(path: str, env: list[Mapping[str, Any]]) -> Iterator[Operation]:
    """Yield the operations that set the variables, in place of entries of the same names."""
    length = len(env)
    for name, key in VARIABLES.items():
        entry = {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field_path(key)}}}
        stated = [index for index, variable in enumerate(env) if variable.get("name") == name]
        for index in stated:
            yield {"op": "replace", "path": f"{path}/{index}", "value": entry}
        if not stated:
            yield {"op": "add", "path": f"{path}/-", "value": entry} if length else _first(path, entry)
            length += 1


def _add(path: str, existing: list[Any], value: Mapping[str, Any]) -> Operation:
    """Return the operation that appends to a list, which may not exist yet."""
    return {"op": "add", "path": f"{path}/-", "value": value} if existing else _first(path, value)


def _first(path: str, value: Mapping[str, Any]) -> Operation:
    return {"op": "add", "path": path, "value": [value]}
