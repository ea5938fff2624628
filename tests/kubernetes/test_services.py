"""Autoscaled services on a real API server: an HPA and a KEDA object, a load step, and who gives way."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kubernetes.constraints import scheduling
from tests.kubernetes.test_gangs_by_kind import definition, remove_definitions
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import pod_spec

KEDA = ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
WAITS_S = 120


@pytest.fixture
def weir(plane: ControlPlane, cluster: Cluster) -> Iterator[Weir]:
    plane.api.apply(definition(*KEDA))
    path = f"/apis/{KEDA[0]}/{KEDA[1]}/{KEDA[3]}"
    cluster.until(lambda: plane.api.maybe(path) is not None, WAITS_S, "KEDA's kind to be served")
    try:
        with scheduling(plane, "weir-services") as running:
            yield running
            running.check()
    finally:
        remove_definitions(cluster, [f"{KEDA[3]}.{KEDA[0]}"])


def deployment(namespace: str, name: str, replicas: int, kept: int) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"weir.dev/min-replicas": str(kept)},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": pod_spec(1, restartPolicy="Always", terminationGracePeriodSeconds=1),
            },
        },
    }


def hpa(namespace: str, name: str) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 40, "metrics": [metric]},
    }


def scaled_object(namespace: str, name: str) -> Object:
    trigger = {"type": "prometheus", "metadata": {"query": "sum(rate(requests[1m]))", "threshold": "10"}}
    return {
        "apiVersion": f"{KEDA[0]}/{KEDA[1]}",
        "kind": KEDA[2],
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"scaleTargetRef": {"name": name}, "maxReplicaCount": 40, "triggers": [trigger]},
    }


def scale(cluster: Cluster, namespace: str, name: str, replicas: int) -> None:
    """Do what an autoscaler does: patch the scale subresource of its target."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"
    cluster.api.patch(path, {"spec": {"replicas": replicas}})


def running(cluster: Cluster, namespace: str) -> dict[str, int]:
    """The running replicas of each service."""
    found: dict[str, int] = {}
    for name in cluster.running(namespace):
        service = name.split("-")[0]
        found[service] = found.get(service, 0) + 1
    return found


def workload(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    path = f"/apis/weir.dev/v1alpha1/namespaces/{namespace}/workloads/deployment-{name}"
    return cluster.api.maybe(path) or {}


def test_a_load_step_takes_replicas_of_borrowers_by_rule_and_gives_them_back(
    weir: Weir, cluster: Cluster
) -> None:
    alpha, beta = cluster.namespace(), cluster.namespace()
    cluster.add_nodes(4, gpus=8)
    cluster.api.create(project(alpha, 24), project(beta, 8))
    borrowers = ("b1", "b2", "b3")
    cluster.api.create(deployment(alpha, "api", 1, 2), hpa(alpha, "api"))
    cluster.until(lambda: running(cluster, alpha) == {"api": 1}, WAITS_S, "the service to run")
    cluster.api.create(*(deployment(beta, name, 10, 1) for name in borrowers), scaled_object(beta, "b1"))
    before = dict.fromkeys(borrowers, 10)
    cluster.until(
        lambda: running(cluster, beta) == before, WAITS_S, "the borrowers to have all their replicas"
    )

    scale(cluster, alpha, "api", 24)  # all within the quota of its project
    cluster.until(lambda: running(cluster, alpha) == {"api": 24}, WAITS_S, "all replicas to have GPUs")
    after = running(cluster, beta)
    assert sorted(after.values()) == [2, 3, 3], "one replica each, from the one that has most"
    status = workload(cluster, alpha, "api")["status"]
    assert status["timeToGpuSeconds"] >= 0
    evicted = [workload(cluster, beta, name)["status"]["lastEviction"]["by"] for name in borrowers]
    assert evicted == [f"{alpha}/deployment-api"] * 3

    scale(cluster, beta, "b1", 12)  # over quota, and nothing is free: nothing is stopped for it
    scale(cluster, alpha, "api", 4)
    expected = 28  # what is free goes to the borrowers again
    cluster.until(
        lambda: sum(running(cluster, beta).values()) == expected, WAITS_S, "the borrowers to grow again"
    )
    assert running(cluster, alpha) == {"api": 4}
