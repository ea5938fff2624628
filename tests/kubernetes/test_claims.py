"""Resource claims on the real API server, beside kube-scheduler.

WEIR_EFFORT multiplies the number of random claims; 5 is 300 of them.
"""

import os
from collections.abc import Iterator
from random import Random

import pytest
from tests.kubernetes.claim_objects import (
    claiming,
    gpu_class,
    gpu_slice,
    needs_claims,
    needs_shared_devices,
    template,
)
from tests.kubernetes.claim_verdicts import RESOURCES, compare
from tests.kubernetes.constraints import scheduling
from tests.unit.kubernetes.claims.random_claims import random_case
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import pod

pytestmark = needs_claims

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
CASES = 60 * EFFORT


@pytest.fixture
def kube_scheduler(plane: ControlPlane) -> Iterator[ControlPlane]:
    yield plane
    plane.kill("kube-scheduler")


@needs_shared_devices
def test_claims_fit_where_they_do_for_kube_scheduler(cluster: Cluster, kube_scheduler: ControlPlane) -> None:
    chance = Random(f"kube-scheduler/{EFFORT}")
    compare(cluster, kube_scheduler, [random_case(chance, f"claims-{number}") for number in range(CASES)])


# Weir beside it


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-claims") as running:
        yield running


PART = {
    "capacity": {"requests": {"memory": "20Gi"}},
    "selectors": [{"cel": {"expression": "device.allowMultipleAllocations"}}],
}


def claims(cluster: Cluster, within: str) -> dict[str, Object]:
    """Return the claims of a namespace by the pod for which they were made."""
    found = cluster.api.items(f"{RESOURCES}/namespaces/{within}/resourceclaims")
    return {each["metadata"]["ownerReferences"][0]["name"]: each for each in found}


def devices(claim: Object) -> list[tuple[str, str]]:
    allocation = claim.get("status", {}).get("allocation")
    results = allocation["devices"]["results"] if allocation else []
    return [(each["pool"], each["device"]) for each in results]


def reason(cluster: Cluster, within: str, name: str) -> str:
    path = f"/apis/weir.dev/v1alpha1/namespaces/{within}/workloads/pod-{name}"
    return str((cluster.api.maybe(path) or {}).get("status", {}).get("reason") or "")


@needs_shared_devices
def test_claims_and_extended_resources_on_one_cluster(cluster: Cluster, weir: Weir) -> None:
    within = cluster.namespace()
    cluster.api.create(
        project(within, 8), gpu_class(), gpu_slice("claims-1"), gpu_slice("shared-1", 1, shared=True)
    )
    cluster.api.create(template(within, "two", 2), template(within, "part", **PART))
    cluster.add([node("claims-1", gpus=0), node("shared-1", gpus=0), node("plain-1", gpus=2)])
    on_shared = {"nodeSelector": {"kubernetes.io/hostname": "shared-1"}}
    cluster.api.create(
        *(claiming(within, f"two-{at}", "two") for at in range(3)),
        *(claiming(within, f"part-{at}", "part", **on_shared) for at in range(5)),
        *(pod(within, f"whole-{at}") for at in range(2)),
    )
    running = cluster.until(
        lambda: len(cluster.running(within)) == 8 and cluster.running(within), "eight pods"
    )
    assert {name: on for name, on in running.items() if name.startswith("whole")} == dict.fromkeys(
        ("whole-0", "whole-1"), "plain-1"
    )
    assert sum(name.startswith("part") for name in running) == 4
    found = claims(cluster, within)
    twos = [devices(found[name]) for name in running if name.startswith("two")]
    assert sorted(map(sorted, twos)) == [
        [("claims-1", "gpu-0"), ("claims-1", "gpu-1")],
        [("claims-1", "gpu-2"), ("claims-1", "gpu-3")],
    ]
    for name in running:
        if name in found:
            status = found[name]["status"]
            assert [each["name"] for each in status["reservedFor"]] == [name]
            assert "resource.kubernetes.io/delete-protection" in found[name]["metadata"]["finalizers"]
    (waiting,) = {"two-0", "two-1", "two-2"} - running.keys()
    cluster.until(lambda: "2 of class gpu.nvidia.com" in reason(cluster, within, waiting), "a reason")
    ended = next(name for name in running if name.startswith("two"))
    cluster.api.delete(f"/api/v1/namespaces/{within}/pods/{ended}", grace_s=0)
    cluster.until(lambda: waiting in cluster.running(within), "the devices of the pod that ended")
    assert devices(claims(cluster, within)[waiting]) in twos


def test_a_killed_weir_neither_loses_nor_doubles_a_claim(cluster: Cluster, weir: Weir) -> None:
    within = cluster.namespace()
    names = [f"killed-{at}" for at in range(4)]
    cluster.api.create(project(within, 16), gpu_class(), *(gpu_slice(name) for name in names))
    cluster.api.create(template(within, "one"))
    cluster.add([node(name, gpus=0) for name in names])
    cluster.api.create_many([claiming(within, f"p-{at}", "one") for at in range(16)])
    cluster.until(lambda: any(devices(each) for each in claims(cluster, within).values()), "an allocation")
    weir.kill()
    weir.start()
    running = cluster.until(
        lambda: len(cluster.running(within)) == 16 and cluster.running(within), "all pods"
    )
    given = {name: devices(each) for name, each in claims(cluster, within).items()}
    assert len({device for each in given.values() for device in each}) == 16
    assert all(given[name][0][0] == on for name, on in running.items())
