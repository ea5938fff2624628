"""Gangs of what people write already: objects of kinds the table knows, and of one it doesn't, on a real control plane."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.kubernetes.constraints import Team, a_team, scheduling
from tools.controlplane.api import ApiError, Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, install_kinds
from tools.controlplane.work import job, pod, pod_spec

ROLE = "training.kubeflow.org/replica-type"
GROUP = "leaderworkerset.sigs.k8s.io/group-index"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KINDS = [
    ("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
    ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"),
    ("ray.io", "v1", "RayCluster", "rayclusters"),
    ("example.com", "v1", "Website", "websites"),
]


def definition(group: str, version: str, kind: str, plural: str) -> Object:
    """A kind whose objects may hold anything."""
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{"name": version, "served": True, "storage": True, "schema": anything}],
        },
    }


def remove_definitions(cluster: Cluster, names: list[str]) -> None:
    """Remove kinds, and wait until they are gone: one that is created before would go with them."""
    for name in names:
        cluster.api.delete(f"{_DEFINITIONS}/{name}")
    cluster.until(
        lambda: all(cluster.api.maybe(f"{_DEFINITIONS}/{name}") is None for name in names),
        subject="the kinds to be gone",
    )


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    plane.api.apply(*(definition(*kind) for kind in _KINDS))
    there = Cluster(plane)
    there.until(lambda: all(_is_served(plane, kind) for kind in _KINDS), subject="the kinds to be served")
    install_kinds(plane.api)
    ours = ("weir.dev", "v1alpha1", "Workload", "workloads")
    there.until(lambda: _is_served(plane, ours), subject="our own kinds to be served")
    try:
        with scheduling(plane, "weir-kinds") as running:
            yield running
    finally:
        remove_definitions(there, [f"{plural}.{group}" for group, _, _, plural in _KINDS])


def _is_served(plane: ControlPlane, kind: tuple[str, str, str, str]) -> bool:
    group, version, _, plural = kind
    with suppress(ApiError):
        plane.api.items(f"/apis/{group}/{version}/{plural}")
        return True
    return False


@pytest.fixture
def team(weir: Weir, cluster: Cluster) -> Iterator[Team]:
    with a_team(weir, cluster) as team:
        cluster.add([node("a"), node("b")])
        yield team


class Owner:
    """An object, and pods of it such as its controller would make."""

    def __init__(self, team: Team, kind: str, name: str, spec: Object) -> None:
        group, version, _, plural = next(each for each in _KINDS if each[2] == kind)
        self.team = team
        self.name = name
        self.api_version, self.kind = f"{group}/{version}", kind
        self.collection = f"/apis/{self.api_version}/namespaces/{team.namespace}/{plural}"
        metadata = {"name": name, "namespace": team.namespace}
        made = {"apiVersion": self.api_version, "kind": kind, "metadata": metadata, "spec": spec}
        self.uid = team.cluster.api.post(self.collection, made)["metadata"]["uid"]

    def pod(self, name: str, gpus: int = 1, **more: Any) -> None:
        made = pod(self.team.namespace, name, gpus, **more)
        made["metadata"]["ownerReferences"] = [
            {
                "apiVersion": self.api_version,
                "kind": self.kind,
                "name": self.name,
                "uid": self.uid,
                "controller": True,
            }
        ]
        self.team.cluster.api.create(made)


def workloads(team: Team) -> dict[str, Object]:
    """The workloads there are, by name."""
    path = f"/apis/weir.dev/v1alpha1/namespaces/{team.namespace}/workloads"
    return {each["metadata"]["name"]: each for each in team.cluster.api.items(path)}


def why(team: Team, workload: str) -> str:
    """The reason a workload gives."""
    found = workloads(team).get(workload, {})
    return str((found.get("status", {}).get("reason") or {}).get("sentence", ""))


def waits_for(team: Team, workload: str, words: str) -> None:
    """Wait for it to say this."""
    team.cluster.until(lambda: words in why(team, workload), f"{workload} to say {words!r}")


def test_a_training_job_starts_when_all_its_pods_exist(team: Team) -> None:
    replicas = {"Master": {"replicas": 1}, "Worker": {"replicas": 2}}
    train = Owner(team, "PyTorchJob", "train", {"pytorchReplicaSpecs": replicas})
    train.pod("master-0", labels={ROLE: "master"})
    train.pod("worker-0", 4, labels={ROLE: "worker"})
    waits_for(team, "pytorchjob-train", "2 of 3 pods")
    team.is_left_out("master-0", "worker-0")
    train.pod("worker-1", 4, labels={ROLE: "worker"})
    team.land("master-0", "worker-0", "worker-1")
    team.cluster.until(lambda: "pytorchjob-train" in workloads(team), subject="people to be told")


def test_a_training_job_that_does_not_fit_as_a_whole_does_not_start_in_part(team: Team) -> None:
    train = Owner(team, "PyTorchJob", "train", {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}})
    for at in range(3):
        train.pod(f"worker-{at}", 8, labels={ROLE: "worker"})
    waits_for(team, "pytorchjob-train", "needs 3 pods at once")
    team.is_left_out("worker-0", "worker-1", "worker-2")
    team.cluster.add([node("c")])
    assert set(team.land("worker-0", "worker-1", "worker-2")) == {"a", "b", "c"}


def test_an_elastic_training_job_starts_with_its_least_and_grows(team: Team) -> None:
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}, "elasticPolicy": {"minReplicas": 2}}
    train = Owner(team, "PyTorchJob", "train", spec)
    for at in range(3):
        train.pod(f"worker-{at}", 8, labels={ROLE: "worker"})
    team.cluster.until(lambda: len(team.cluster.running(team.namespace)) == 2, subject="two of them to run")
    team.cluster.add([node("c")])
    assert set(team.land("worker-0", "worker-1", "worker-2")) == {"a", "b", "c"}


def test_every_group_of_a_leader_worker_set_is_a_gang(team: Team) -> None:
    serve = Owner(team, "LeaderWorkerSet", "serve", {"replicas": 2, "leaderWorkerTemplate": {"size": 2}})
    serve.pod("serve-0", 8, labels={GROUP: "0"})
    serve.pod("serve-1", 8, labels={GROUP: "1"})
    serve.pod("serve-1-1", 8, labels={GROUP: "1"})
    team.land("serve-1", "serve-1-1")
    team.is_left_out("serve-0")
    team.cluster.until(
        lambda: len([name for name in workloads(team) if "serve" in name]) == 2,
        subject="a workload of each group",
    )


def test_ray_starts_with_its_head_and_its_least_workers(team: Team) -> None:
    workers = [{"groupName": "gpu", "replicas": 3, "minReplicas": 1}]
    ray = Owner(team, "RayCluster", "ray", {"workerGroupSpecs": workers})
    ray.pod("head", 0, labels={"ray.io/group": "headgroup"})
    waits_for(team, "raycluster-ray", "1 of 2 pods")
    for at in range(3):
        ray.pod(f"gpu-{at}", 8, labels={"ray.io/group": "gpu"})
    team.land("head")
    team.cluster.until(
        lambda: len(team.cluster.running(team.namespace)) == 3, subject="the head and two workers to run"
    )


def test_an_unknown_kind_starts_pod_by_pod_or_as_it_says(team: Team) -> None:
    site = Owner(team, "Website", "site", {})
    site.pod("site-0")
    team.land("site-0")
    shop = Owner(team, "Website", "shop", {})
    together = {"annotations": {"weir.dev/min-pods": "2"}}
    shop.pod("shop-0", **together)
    waits_for(team, "website-shop", "1 of 2 pods")
    shop.pod("shop-1", **together)
    team.land("shop-0", "shop-1")


def test_a_service_starts_pod_by_pod_and_a_job_as_its_completions_say(team: Team) -> None:
    name, labels = "web", {"app": "web"}
    spec = pod_spec(8) | {"restartPolicy": "Always"}
    team.cluster.api.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": team.namespace},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    )
    team.cluster.until(lambda: len(team.cluster.running(team.namespace)) == 2, subject="both to run")
    team.cluster.until(lambda: list(workloads(team)) == ["deployment-web"], subject="one workload of it")
    team.cluster.api.create(job(team.namespace, "indexed", 8, pods=2))
    team.cluster.until(lambda: why(team, "job-indexed"), subject="a reason")
    assert len(team.cluster.running(team.namespace)) == 2
