"""Pods with volumes land where their volumes are, or can be, on a real control plane."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kubernetes.constraints import HOST, ZONE, Team, a_team, scheduling
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir

SELECTED = "volume.kubernetes.io/selected-node"


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-volumes") as running:
        yield running


@pytest.fixture
def team(weir: Weir, cluster: Cluster) -> Iterator[Team]:
    with a_team(weir, cluster) as team:
        cluster.add([node(name, labels={ZONE: f"zone-{name}"}) for name in ("a", "b", "c")])
        yield team


def storage_class(team: Team, name: str, provisioner: str, *, late: bool = True, **more: Any) -> None:
    mode = "WaitForFirstConsumer" if late else "Immediate"
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    team.cluster.api.create({**made, "provisioner": provisioner, "volumeBindingMode": mode, **more})


def volume(team: Team, name: str, cls: str, on: str, *, size: str = "10Gi") -> None:
    expression = {"key": HOST, "operator": "In", "values": [on]}
    team.cluster.api.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": cls,
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": "/mnt/data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            },
        }
    )


def claim(
    team: Team, name: str, cls: str, *, size: str = "5Gi", modes: tuple[str, ...] = ("ReadWriteOnce",)
) -> None:
    team.cluster.api.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": team.namespace},
            "spec": {
                "accessModes": list(modes),
                "storageClassName": cls,
                "resources": {"requests": {"storage": size}},
            },
        }
    )


def claim_as_it_is(team: Team, name: str) -> Object:
    found: Object = team.cluster.api.get(f"/api/v1/namespaces/{team.namespace}/persistentvolumeclaims/{name}")
    return found


def is_bound(team: Team, name: str) -> bool:
    return claim_as_it_is(team, name)["status"].get("phase") == "Bound"


def using(*claims: str) -> dict[str, Any]:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]}


def test_a_bound_volume_is_gone_to(team: Team) -> None:
    storage_class(team, "at-once", "kubernetes.io/no-provisioner", late=False)
    volume(team, "pv-b", "at-once", "b")
    claim(team, "data", "at-once")
    team.cluster.until(lambda: is_bound(team, "data"), subject="the claim to be bound")
    assert team.lands("first", **using("data")) == "b"
    team.submit("elsewhere", **using("data"), nodeSelector={HOST: "c"})
    assert team.waits("elsewhere")


def test_a_claim_that_is_missing_is_waited_for(team: Team) -> None:
    storage_class(team, "at-once", "kubernetes.io/no-provisioner", late=False)
    team.submit("early", **using("data"))
    team.waits_for("early", "volume claim data, which doesn't exist")
    claim(team, "data", "at-once")
    team.waits_for("early", "volume claim data to be bound")
    volume(team, "pv-c", "at-once", "c")
    assert team.land("early") == ["c"]


def test_a_local_volume_is_taken_for_the_first_pod(team: Team) -> None:
    storage_class(team, "local", "kubernetes.io/no-provisioner")
    volume(team, "pv-small", "local", "a", size="1Gi")
    volume(team, "pv-big", "local", "b", size="50Gi")
    volume(team, "pv-fit", "local", "b", size="6Gi")
    team.found("a", "b")  # the watch of volumes isn't heard in step with that of pods
    claim(team, "data", "local")
    assert team.lands("first", **using("data")) == "b"
    team.cluster.until(lambda: is_bound(team, "data"), subject="the claim to be bound")
    assert claim_as_it_is(team, "data")["spec"]["volumeName"] == "pv-fit"
    claim(team, "more", "local")
    claim(team, "too-much", "local")
    assert team.lands("second", **using("more")) == "b"
    team.submit("third", **using("too-much"))
    team.waits_for("third", "a volume of class local that fits its claim too-much")
    volume(team, "pv-new", "local", "c")
    assert team.land("third") == ["c"]


def test_the_node_is_written_on_a_claim_whose_volume_is_to_be_made(team: Team) -> None:
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": ["zone-b"]}]}]
    storage_class(team, "made", "example.com/disk", allowedTopologies=topologies)
    claim(team, "data", "made")
    assert team.lands("first", **using("data")) == "b"
    assert claim_as_it_is(team, "data")["metadata"]["annotations"][SELECTED] == "b"
    team.submit("elsewhere", **using("data"), nodeSelector={HOST: "c"})
    assert team.waits("elsewhere")


def test_a_claim_made_for_the_pod_is_waited_for_and_followed(team: Team) -> None:
    storage_class(team, "local", "kubernetes.io/no-provisioner")
    volume(team, "pv-c", "local", "c")
    template = {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        }
    }
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    assert team.lands("work", volumes=[scratch]) == "c"
    team.cluster.until(lambda: is_bound(team, "work-scratch"), subject="the claim to be bound")


def test_a_claim_that_one_pod_at_a_time_may_use(team: Team) -> None:
    storage_class(team, "made", "example.com/disk")
    for name in ("data", "theirs"):
        claim(team, name, "made", modes=("ReadWriteOncePod",))
    here = {"nodeSelector": {HOST: "a"}}
    assert team.lands("first", **using("data"), **here) == "a"
    team.submit("second", **using("data"))
    team.waits_for("second", "which only one pod may use at a time")
    team.place("other", "b", **using("theirs"))
    team.submit("third", **using("theirs"))
    team.waits_for("third", "which only one pod may use at a time")
    team.delete("first")
    assert team.land("second") == ["a"]
    team.delete("other")
    team.land("third")


def test_a_node_takes_a_limited_number_of_volumes_of_a_driver(team: Team) -> None:
    storage_class(team, "made", "disk.example.com")
    for at in range(4):
        claim(team, f"data-{at}", "made")
    node_uid = team.cluster.api.get("/api/v1/nodes/a")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": node_uid}
    driver = {"name": "disk.example.com", "nodeID": "a", "allocatable": {"count": 2}}
    team.cluster.api.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": "a", "ownerReferences": [owner]},
            "spec": {"drivers": [driver]},
        }
    )
    here = {"nodeSelector": {HOST: "a"}}
    team.place("theirs", "a", **using("data-0"))
    team.lands("first", **using("data-1"), **here)
    path = f"/apis/weir.dev/v1alpha1/namespaces/{team.namespace}/workloads/pod-first"

    def is_counted() -> bool:
        groups = (team.cluster.api.maybe(path) or {}).get("spec", {}).get("groups", [])
        return any("attached-volumes/disk.example.com" in one.get("resources", {}) for one in groups)

    team.cluster.until(is_counted, subject="Weir to have heard of the driver")
    team.submit("second", **using("data-2"), **here)
    assert team.waits("second")
    assert team.lands("elsewhere", **using("data-3")) in ("b", "c")
    team.delete("theirs")
    team.land("second")
