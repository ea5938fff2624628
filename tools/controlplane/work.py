"""Pods and Jobs as people write them, for tests and benchmarks."""

from collections.abc import Mapping

from tools.controlplane.api import Object


def pod_spec(gpus: int | str = 1, *, scheduler: str = "weir", grace_s: int = 30, **fields: object) -> Object:
    """Return the spec of a pod: one container that requests GPUs, a core and a GiB."""
    asks = {"cpu": "1", "memory": "1Gi"}
    if gpus:
        asks["nvidia.com/gpu"] = str(gpus)
    return {
        "schedulerName": scheduler,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_s,
        "containers": [{"name": "main", "image": "work", "resources": {"requests": asks, "limits": asks}}],
        **fields,
    }


def pod(
    namespace: str,
    name: str,
    gpus: int | str = 1,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: object,
) -> Object:
    """Return a bare pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": pod_spec(gpus, **spec),  # type: ignore[arg-type]
    }


def job(
    namespace: str,
    name: str,
    gpus: int | str = 1,
    *,
    pods: int = 1,
    retries: int = 6,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    pod_annotations: Mapping[str, str] | None = None,
    **spec: object,
) -> Object:
    """Return a Job whose pods all start at once. Labels and annotations go on the Job and on its pods."""
    marks = dict(annotations or {})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {}),
            "annotations": marks,
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed" if pods > 1 else "NonIndexed",
            "backoffLimit": retries,
            "template": {
                "metadata": {
                    "labels": dict(labels or {}),
                    "annotations": {**marks, **(pod_annotations or {})},
                },
                "spec": pod_spec(gpus, **spec),  # type: ignore[arg-type]
            },
        },
    }
