"""Objects as people write them: they name no scheduler, and their lives are a hundred times shorter than in real life."""

from collections.abc import Mapping
from typing import Any

from tools.controlplane.api import Object
from tools.controlplane.nodes import RUNS
from tools.controlplane.work import pod_spec

GRACE_S = 1
"""Termination grace of pods; the nodes let a pod go at once unless it says otherwise."""


def template(
    gpus: int,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    restarts: str = "Never",
    **spec: Any,
) -> Object:
    """Return a template of pods that name no scheduler."""
    written = pod_spec(gpus, grace_s=GRACE_S, **spec)
    if "scheduler" not in spec:
        del written["schedulerName"]
    metadata = {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
    return {"metadata": metadata, "spec": {**written, "restartPolicy": restarts}}


def pod(namespace: str, name: str, gpus: int, **more: Any) -> Object:
    """Return a bare pod."""
    written = template(gpus, **more)
    written["metadata"] |= {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", **written}


def job(
    namespace: str,
    name: str,
    gpus: int,
    *,
    pods: int = 1,
    indexed: bool = True,
    marks: Mapping[str, str] | None = None,
    runs_s: float | None = None,
    pod_marks: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    **more: Any,
) -> Object:
    """Return a Job with this number of pods at once; `marks` are annotations of the Job, `spec` fields of its spec."""
    annotations = dict(pod_marks or {})
    if runs_s is not None:
        annotations[RUNS] = f"{runs_s:.1f}s"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "annotations": dict(marks or {})},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed" if indexed else "NonIndexed",
            "ttlSecondsAfterFinished": 5,
            "template": template(gpus, annotations=annotations, **more),
            **(spec or {}),
        },
    }


def service(
    namespace: str,
    name: str,
    gpus: int,
    *,
    kind: str = "Deployment",
    replicas: int = 1,
    marks: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    **more: Any,
) -> Object:
    """Return a Deployment, StatefulSet or ReplicaSet whose pods run until they are deleted."""
    labels = {"app": name}
    fields: Object = {"replicas": replicas, "selector": {"matchLabels": labels}, **(spec or {})}
    if kind == "StatefulSet":
        fields |= {"serviceName": "", "podManagementPolicy": "Parallel"}
    fields["template"] = template(gpus, labels=labels, restarts="Always", **more)
    metadata = {"name": name, "namespace": namespace, "annotations": dict(marks or {})}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": fields}


def budget(namespace: str, name: str, app: str, **allows: Any) -> Object:
    """Return a disruption budget of the pods of a service."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": app}}, **allows},
    }


def claim(namespace: str, name: str, storage_class: str) -> Object:
    """Return a volume claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def volume(name: str, storage_class: str) -> Object:
    """Return a volume that every node can reach."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": f"/volumes/{name}"},
        },
    }


def with_claim(spec: Object, name: str) -> Object:
    """Mount a volume claim in the first container of a pod's spec."""
    spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return spec
