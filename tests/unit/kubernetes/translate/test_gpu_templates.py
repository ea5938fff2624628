"""GPUs in the templates of an owner, in the forms in which people write them."""

from typing import Any

import pytest

from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.gpu_templates import VALUES_MAX, asks_for_gpus

GPU = {"nvidia.com/gpu": 8}


def template(
    limits: dict[str, Any] | None = None, *, init: bool = False, **annotations: str
) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": limits or {"cpu": "1"}}}
    answer = {f"weir.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "metadata": {"annotations": answer},
        "spec": {"initContainers" if init else "containers": [container]},
    }


def replicas(kind: str, **templates: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{kind}ReplicaSpecs": {role: {"replicas": 1, "template": each} for role, each in templates.items()}
    }


@pytest.mark.parametrize(
    ("spec", "has"),
    [
        (replicas("mpi", Launcher=template(), Worker=template(GPU)), True),
        (replicas("mpi", Launcher=template(), Worker=template()), False),
        (replicas("mpi", Launcher=template(), Worker=template(gpu_fraction="0.5")), True),
        (replicas("mpi", Launcher=template(), Worker=template(gpu_memory="8Gi")), True),
        (replicas("mpi", Launcher=template(), Worker=template(project="vision")), False),
        (replicas("pytorch", Worker=template(GPU, init=True)), True),
        (replicas("pytorch", Worker=template({"nvidia.com/gpu": "0"})), False),
        (replicas("pytorch", Worker=template({"nvidia.com/gpu": "many"})), False),
        (replicas("pytorch", Worker=template({"amd.com/gpu": "1"})), True),
        (replicas("pytorch", Worker=template({"example.com/gpu": "1"})), False),
        (
            {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [{"template": template(GPU)}]},
            True,
        ),
        ({"replicatedJobs": [{"name": "w", "template": {"spec": {"template": template(GPU)}}}]}, True),
        ({"leaderWorkerTemplate": {"leaderTemplate": template(), "workerTemplate": template(GPU)}}, True),
        ({"trainer": {"resourcesPerNode": {"limits": GPU}}}, True),
        ({"executor": {"gpu": {"name": "nvidia.com/gpu", "quantity": 1}}}, True),
        ({"executor": {"gpu": {"name": "nvidia.com/gpu", "quantity": 0}}}, False),
        ({"nodeSelector": GPU, "tolerations": [{"key": "nvidia.com/gpu"}]}, False),
        ({"limits": [], "requests": "x", "annotations": 3, "gpu": [GPU]}, False),
        ({}, False),
    ],
)
def test_gpus_are_found_wherever_the_templates_are(spec: dict[str, Any], has: bool) -> None:
    assert asks_for_gpus({"spec": spec}, DeviceResources().names) is has


def test_a_search_is_bounded() -> None:
    large = {"spec": {"template": template(GPU), "many": [{}] * (2 * VALUES_MAX)}}
    assert not asks_for_gpus(large, DeviceResources().names)
    deep: dict[str, Any] = template(GPU)
    for _ in range(5_000):
        deep = {"inside": [deep]}
    assert asks_for_gpus(deep, DeviceResources().names)
