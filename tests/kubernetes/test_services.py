"""Autoscaled services on a real API server: real autoscalers, a load step, and who gives way.

The controller manager runs its autoscaler, which reads external metrics of the test. In place of KEDA the test
makes the HPA that KEDA makes for a ScaledObject.
"""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pytest
from tests.kubernetes.constraints import scheduling
from tests.kubernetes.metrics_site import ExternalMetrics, external_metrics
from tests.kubernetes.test_gangs_by_kind import definition, remove_definitions
from tools.controlplane.api import Object
from tools.controlplane.binaries import Binaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import pod_spec

KEDA = ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
KEDA_METRIC = "s0-prometheus"
MOST = 40
CHANGE_EVERY = 8
"""Looks of an autoscaler between two changes of the load."""
LOOKS_PER_HOUR = 240
"""Looks of an autoscaler in an hour, at its default of 15 s between two; here it looks twenty times a second."""


@pytest.fixture(scope="module")
def plane(binaries: Binaries) -> Iterator[ControlPlane]:
    autoscaler = "horizontal-pod-autoscaler-controller"
    every = "--horizontal-pod-autoscaler-sync-period=50ms"
    with ControlPlane(binaries, controllers=[autoscaler], controller_options=[every]) as running:
        running.grant_all("weir")
        yield running


@pytest.fixture
def metrics(cluster: Cluster) -> Iterator[ExternalMetrics]:
    with external_metrics(cluster) as site:
        yield site


@pytest.fixture
def weir(plane: ControlPlane, cluster: Cluster) -> Iterator[Weir]:
    plane.api.apply(definition(*KEDA))
    path = f"/apis/{KEDA[0]}/{KEDA[1]}/{KEDA[3]}"
    cluster.until(lambda: plane.api.maybe(path) is not None, "KEDA's kind to be served")
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


def hpa(namespace: str, target: str, metric: str, name: str = "", owner: Object | None = None) -> Object:
    """An autoscaler that makes as many replicas as the value of a metric says."""
    external = {"metric": {"name": metric}, "target": {"type": "AverageValue", "averageValue": "1"}}
    at_once = {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": MOST, "periodSeconds": 15}],
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": name or target,
            "namespace": namespace,
            "ownerReferences": [] if owner is None else [{**reference(owner), "controller": True}],
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "minReplicas": 1,
            "maxReplicas": MOST,
            "metrics": [{"type": "External", "external": external}],
            "behavior": {"scaleUp": at_once, "scaleDown": at_once},
        },
    }


def reference(made: Object) -> Object:
    meta = made["metadata"]
    return {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": meta["name"], "uid": meta["uid"]}


def scaled_object(namespace: str, name: str) -> Object:
    trigger = {"type": "prometheus", "metadata": {"query": "sum(rate(requests[1m]))", "threshold": "10"}}
    return {
        "apiVersion": f"{KEDA[0]}/{KEDA[1]}",
        "kind": KEDA[2],
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"scaleTargetRef": {"name": name}, "maxReplicaCount": MOST, "triggers": [trigger]},
    }


def scale_by_keda(cluster: Cluster, namespace: str, name: str) -> None:
    """Make a ScaledObject, and the HPA that KEDA's operator makes for it."""
    api_version = f"{KEDA[0]}/{KEDA[1]}"
    path = f"/apis/{api_version}/namespaces/{namespace}/{KEDA[3]}"
    made = cluster.api.post(path, scaled_object(namespace, name))
    owner = {**made, "apiVersion": api_version, "kind": KEDA[2]}
    cluster.api.create(hpa(namespace, name, KEDA_METRIC, f"keda-hpa-{name}", owner))


def running(cluster: Cluster, namespace: str) -> dict[str, int]:
    """The running replicas of each service."""
    found: dict[str, int] = {}
    for name in cluster.running(namespace):
        service = name.split("-")[0]
        found[service] = found.get(service, 0) + 1
    return found


def status_of(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    path = f"/apis/weir.dev/v1alpha1/namespaces/{namespace}/workloads/deployment-{name}"
    return (cluster.api.maybe(path) or {}).get("status") or {}


def test_a_load_step_from_1_to_40_takes_replicas_of_borrowers_by_rule_and_gives_them_back(
    weir: Weir, cluster: Cluster, metrics: ExternalMetrics
) -> None:
    alpha, beta = cluster.namespace(), cluster.namespace()
    load, keda = (alpha, "requests"), (beta, KEDA_METRIC)
    cluster.add_nodes(8, gpus=8)
    cluster.api.create(project(alpha, 48), project(beta, 16))
    metrics.values = {load: 1, keda: 15}
    cluster.api.create(deployment(alpha, "api", 1, 2), hpa(alpha, "api", "requests"))
    borrowers = ("b1", "b2", "b3", "b4")
    cluster.until(lambda: running(cluster, alpha) == {"api": 1}, "the service to run")
    cluster.api.create(*(deployment(beta, name, 1 if name == "b1" else 15, 1) for name in borrowers))
    scale_by_keda(cluster, beta, "b1")
    before = dict.fromkeys(borrowers, 15)
    cluster.until(lambda: running(cluster, beta) == before, "the borrowers to have all their replicas")

    metrics.values[load] = MOST  # all within the quota of its project
    cluster.until(lambda: running(cluster, alpha) == {"api": MOST}, "all replicas to have GPUs")
    after = running(cluster, beta)
    assert sorted(after.values()) == [6, 6, 6, 6], "one replica each, from the one that has most"
    assert evictions(weir) == 36, "no replica more than were needed"
    cluster.until(lambda: "timeToGpuSeconds" in status_of(cluster, alpha, "api"), "the time to its GPUs")

    def evicted() -> list[str]:
        found = [status_of(cluster, beta, name).get("lastEviction") or {} for name in borrowers]
        return [str(each.get("by")) for each in found]

    cluster.until(lambda: evicted() == [f"{alpha}/deployment-api"] * 4, lambda: f"{evicted()}")

    metrics.values[keda] = 20  # over quota, and nothing is free: nothing is stopped for it
    placed = cluster.running(alpha) | cluster.running(beta)
    about = cycle((MOST - 2, MOST, MOST + 2))  # within the tolerance of the autoscaler
    began = metrics.asked.copy()
    for looks in range(CHANGE_EVERY, LOOKS_PER_HOUR + 1, CHANGE_EVERY):
        metrics.values[load] = next(about)
        cluster.until(lambda looks=looks: metrics.asked[load] - began[load] >= looks, "a look at the load")
    cluster.until(lambda: metrics.asked[keda] - began[keda] > LOOKS_PER_HOUR / 2, "looks at the other load")
    assert cluster.running(alpha) | cluster.running(beta) == placed, "nothing moves while the load stays"
    assert evictions(weir) == 36

    metrics.values[load] = 4
    expected = 60  # what is free goes to the borrowers again
    cluster.until(lambda: sum(running(cluster, beta).values()) == expected, "the borrowers to grow again")
    assert running(cluster, alpha) == {"api": 4}
    assert evictions(weir) == 36


def evictions(weir: Weir) -> int:
    """Return how many pods Weir has decided to stop."""
    return sum(line["evictions"] for line in weir.lines("planned"))
