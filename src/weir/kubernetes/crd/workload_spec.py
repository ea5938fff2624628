"""A workload of the engine in the words of its `Workload` object's spec."""

from typing import Any

import msgspec

from weir.kubernetes.crd.objects import OwnerFields
from weir.kubernetes.crd.schemas import camel
from weir.model.resources import CPU, GPU, MEMORY, written
from weir.model.workloads import WHOLE_MILLI, PodGroup, Request, Workload


def spec_of(workload: Workload, owner: OwnerFields) -> dict[str, Any]:
    """Return the spec of a Workload object, for people and for listings."""
    topology = workload.topology
    return _stated(
        {
            "owner": _stated({**msgspec.to_builtins(owner), "gang": owner.gang or None}),
            "user": workload.user or None,
            "project": workload.project or None,
            "type": workload.type.value,
            "priority": workload.priority,
            "preemptible": workload.preemptible,
            "minPods": workload.min_pods,
            "maxRuntime": None if workload.max_runtime_s is None else f"{workload.max_runtime_s:g}s",
            "topology": topology
            and _stated(
                {"name": topology.name, "required": topology.required, "preferred": topology.preferred}
            ),
            "groups": [_group(group) for group in workload.groups],
        }
    )


def _group(group: PodGroup) -> dict[str, Any]:
    return _stated(
        {
            "name": group.name,
            "count": group.count,
            "min": group.min,
            **{camel(word): value for word, value in _request(group.request).items()},
            "order": group.order or None,
        }
    )


def _request(request: Request) -> dict[str, Any]:
    milli = request.devices * WHOLE_MILLI if request.is_whole else request.share_milli
    return {
        "gpus": None if request.gpu_memory or not request.devices else written(GPU, milli),
        "devices": request.devices if request.is_shared and request.devices > 1 else None,
        "gpu_memory": written(MEMORY, request.gpu_memory) if request.gpu_memory else None,
        "gpu_models": list(request.gpu_models) or None,
        "cpu": written(CPU, request.cpu_milli),
        "memory": written(MEMORY, request.memory),
        "resources": {name: str(value) for name, value in request.further} or None,
    }


def _stated(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
