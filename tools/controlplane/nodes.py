"""Nodes with GPUs that only pretend, and the lives of the pods on them.

A pod on such a node runs at once and for ever, and is gone as soon as it is deleted, unless its
annotations say otherwise:

    fake.weir.dev/starts-after: 2s    it takes that long to run
    fake.weir.dev/runs: 10s           it ends by itself after running that long
    fake.weir.dev/fails: "true"       that end is a failure
    fake.weir.dev/stops-after: 5s     it takes that long to stop, whatever its grace period

A node with the annotation `fake.weir.dev/down` isn't ready, until it is taken off again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.controlplane.api import Api, Object

FAKE = "fake.weir.dev"
RUNS, FAILS, STARTS_AFTER, STOPS_AFTER, DOWN = (
    f"{FAKE}/{word}" for word in ("runs", "fails", "starts-after", "stops-after", "down")
)
STAGES = Path(__file__).with_name("stages.yaml")


def node(
    name: str,
    *,
    gpus: int = 8,
    model: str = "NVIDIA-H100-80GB-HBM3",
    gpu_memory_mib: int = 81559,
    cpu: int = 128,
    memory_gib: int = 1024,
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    resources: Mapping[str, str] | None = None,
) -> Object:
    """Return a node to create. Without GPUs, it has none of their labels."""
    has = {"cpu": str(cpu), "memory": f"{memory_gib}Gi", "pods": str(pods), **(resources or {})}
    node_labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",  # without these two a controller would write them
        "beta.kubernetes.io/arch": "amd64",
        "type": "kwok",
    }
    if gpus:
        has["nvidia.com/gpu"] = str(gpus)
        node_labels |= {
            "nvidia.com/gpu.product": model,
            "nvidia.com/gpu.memory": str(gpu_memory_mib),
            "nvidia.com/gpu.count": str(gpus),
        }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**node_labels, **(labels or {})},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": list(taints)},
        "status": {"allocatable": has, "capacity": has, "phase": "Running"},
    }


def nodes(
    count: int, *, gpus: int = 8, rack: int = 8, zone: int = 64, prefix: str = "gpu", **like: object
) -> list[Object]:
    """Return equal nodes gpu-0000 and so on, `rack` of them in a rack and `zone` in a zone."""
    made = []
    for index in range(count):
        where = {
            "topology.kubernetes.io/zone": f"zone-{index // zone}",
            "example.com/rack": f"rack-{index // rack}",
        }
        made.append(node(f"{prefix}-{index:04d}", gpus=gpus, labels=where, **like))  # type: ignore[arg-type]
    return made


def set_down(api: Api, name: str, *, down: bool = True) -> None:
    """Have a node not be ready, or be ready again."""
    api.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {DOWN: "true" if down else None}}})
