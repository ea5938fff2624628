"""Extended resources that device classes provide, on the real API server, beside kube-scheduler.

Weir runs with the rights and the policies of an installation. WEIR_EFFORT multiplies the number of random pods.
"""

import os
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from tests.kubernetes.claim_objects import GPU, gpu_class, gpu_slice, needs_providing_classes
from tests.kubernetes.claim_verdicts import RESOURCES, verdict
from tests.kubernetes.test_claims import devices
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import pod

from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.api.resource_objects import DeviceClass, ResourceSlice
from weir.kubernetes.claims.allocator import ClaimRefusal
from weir.kubernetes.claims.claim_requests import parse_claim
from weir.kubernetes.claims.device_usage import ClaimedDeviceUsage
from weir.kubernetes.claims.extended_resources import (
    EXTENDED_CLAIM,
    extended_resources,
    provided,
    special_name,
)
from weir.kubernetes.claims.placement import choose_devices
from weir.kubernetes.claims.pools import SliceIndex, parse_slice
from weir.kubernetes.claims.selector_results import SelectorResults
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.model.nodes import Node

pytestmark = needs_providing_classes

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
RESOURCE, IMPLICIT = "nvidia.com/gpu", f"deviceclass.resource.kubernetes.io/{GPU}"
CASES = 30 * EFFORT
PLUGGED = 2
"""GPUs of a node with a device plugin."""


def providing() -> Object:
    """Return the class of GPUs, which provides their resource."""
    made = gpu_class()
    made["spec"]["extendedResourceName"] = RESOURCE
    return made


def claims(cluster: Cluster, within: str) -> dict[str, Object]:
    """Return the claims of a namespace that schedulers made, by pod."""
    found = cluster.api.items(f"{RESOURCES}/namespaces/{within}/resourceclaims")
    assert all(each["metadata"]["annotations"][EXTENDED_CLAIM] == "true" for each in found)
    return {each["metadata"]["ownerReferences"][0]["name"]: each for each in found}


def asks(chance: Random) -> Object:
    """Return the resources of a container: some by one name of the class, some by the other."""
    counts = {
        name: str(chance.choice((1, 1, 2, 3)))
        for name in (RESOURCE, IMPLICIT)
        if chance.random() < (0.6 if name == RESOURCE else 0.25)
    }
    amounts = {"cpu": "1", "memory": "1Gi", **counts}
    return {"requests": amounts, "limits": amounts}


def random_pod(chance: Random, within: str, name: str, on: str) -> Object:
    body = pod(within, name, gpus=0, scheduler="default-scheduler")
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": on}
    for kind, most in (("containers", 2), ("initContainers", 2)):
        count = chance.randint(1 if kind == "containers" else 0, most)
        body["spec"][kind] = [
            {"name": f"{kind[:4].lower()}-{at}", "image": "work", "resources": asks(chance)}
            for at in range(count)
        ]
    for each in body["spec"]["initContainers"]:
        if chance.random() < 0.4:
            each["restartPolicy"] = "Always"
    return body


@pytest.fixture
def kube_scheduler(plane: ControlPlane) -> Iterator[ControlPlane]:
    yield plane
    plane.kill("kube-scheduler")


def test_the_same_pods_fit_with_the_same_claims_as_for_kube_scheduler(
    cluster: Cluster, kube_scheduler: ControlPlane
) -> None:
    chance = Random(f"extended/{EFFORT}")
    within = cluster.namespace()
    sizes = {f"extended-{at}": chance.randint(1, 5) for at in range(CASES)}
    slices = {name: gpu_slice(name, size) for name, size in sizes.items()}
    cluster.api.create(providing())
    cluster.api.create_many(slices.values())
    cluster.add([node(name, gpus=0) for name in sizes])
    kube_scheduler.start_scheduler()
    written = {name: random_pod(chance, within, f"{name}-pod", name) for name in sizes}
    cluster.api.create_many(written.values())
    found: dict[str, Object] = {}

    def all_tried() -> bool:
        found.update(
            {each["spec"]["nodeSelector"]["kubernetes.io/hostname"]: each for each in cluster.pods(within)}
        )
        return len(found) == CASES and all(map(verdict, found.values()))

    cluster.until(all_tried, "kube-scheduler to try all pods")
    made = claims(cluster, within)
    classes = {GPU: msgspec.convert(providing(), DeviceClass)}
    fitting = 0
    for name, body in found.items():
        index = SliceIndex()
        index.see(name, parse_slice(msgspec.convert(slices[name], ResourceSlice)))
        on, read = Node(name, 0, 0, {}), msgspec.convert(body, KubePod)
        mine = extended_resources(read.spec, provided(classes), DeviceResources())
        if mine is None:
            assert verdict(body) == "fits", name
            assert f"{name}-pod" not in made, name
            continue
        special = mine.special_claim(read, "one", mine.claimed_on(on))
        wanted = parse_claim(special.claim(None), classes)
        chosen = choose_devices([wanted], index.pools(on), ClaimedDeviceUsage(), SelectorResults())
        assert isinstance(chosen, ClaimRefusal) == (verdict(body) != "fits"), (name, chosen, verdict(body))
        if isinstance(chosen, ClaimRefusal):
            continue
        fitting += 1
        theirs = made[f"{name}-pod"]
        assert theirs["spec"] == special.body["spec"], name
        assert by_request(body["status"]["extendedResourceClaimStatus"]) == by_request(special.pod_status), (
            name
        )
    assert 0.2 < fitting / CASES < 0.95


def by_request(status: Any) -> list[tuple[str, ...]]:
    return sorted(tuple(sorted(each.items())) for each in status["requestMappings"])


# Weir, as it is installed


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    with Installed(plane, name="extended") as running:
        running.wait_ready()
        yield running
        refused = [line for line in running.log_text().splitlines() if "forbidden" in line.lower()]
        assert not [line for line in refused if "resourceclaims" in line or "pods/status" in line]


def asking(within: str, name: str, count: int = 1, resource: str = RESOURCE) -> Object:
    body = pod(within, name, gpus=0)
    for each in body["spec"]["containers"][0]["resources"].values():
        each[resource] = str(count)
    return body


def until_running(cluster: Cluster, within: str, count: int) -> dict[str, str]:
    return cluster.until(
        lambda: len(cluster.running(within)) == count and cluster.running(within), f"{count} pods"
    )


def why(cluster: Cluster, within: str) -> str:
    """Return why the pods of a namespace wait, with the number of pods that wait for each reason."""
    found = cluster.api.items(f"/apis/weir.dev/v1alpha1/namespaces/{within}/workloads")
    return str(Counter(str(each.get("status", {}).get("reason") or "") for each in found))


def given(cluster: Cluster, within: str) -> list[tuple[str, str]]:
    """Return the devices of all claims of a namespace; assert that each is given once."""
    found = [device for each in claims(cluster, within).values() for device in devices(each)]
    assert len(found) == len(set(found)), found
    return found


def test_pods_run_by_number_on_nodes_with_a_driver_or_a_device_plugin(
    cluster: Cluster, weir: Installed
) -> None:
    within = cluster.namespace()
    cluster.api.create(project(within, 8), providing(), gpu_slice("driven", 4))
    cluster.add([node("driven", gpus=0), node("plugged", gpus=PLUGGED)])
    cluster.api.create(asking(within, "two", 2, IMPLICIT))
    until_running(cluster, within, 1)
    cluster.api.create(*(asking(within, f"p{at}") for at in range(4)), asking(within, "last"))
    running = until_running(cluster, within, 5)
    assert sorted(running.values()).count("plugged") == PLUGGED
    found = claims(cluster, within)
    assert found.keys() == {name for name, on in running.items() if on == "driven"}
    assert len(given(cluster, within)) == len(found) + ("two" in found)
    for name, each in found.items():
        body = cluster.api.get(f"/api/v1/namespaces/{within}/pods/{name}")
        status = body["status"]["extendedResourceClaimStatus"]
        assert status["resourceClaimName"] == each["metadata"]["name"]
        (mapping,) = status["requestMappings"]
        (request,) = each["spec"]["devices"]["requests"]
        assert (mapping["containerName"], mapping["requestName"]) == ("main", request["name"])
        assert [one["name"] for one in each["status"]["reservedFor"]] == [name]
    (waiting,) = {"last", "two", *(f"p{at}" for at in range(4))} - running.keys()
    ended = next(name for name, on in running.items() if on == "driven" and name != "two")
    cluster.api.delete(f"/api/v1/namespaces/{within}/pods/{ended}", grace_s=0)
    cluster.until(lambda: waiting in cluster.running(within), "the device of the pod that ended")
    assert len(given(cluster, within)) == 4


def test_the_name_of_a_class_makes_a_pod_weirs_without_settings(cluster: Cluster, weir: Installed) -> None:
    within = cluster.namespace()
    other, further = gpu_class(), providing()
    other["metadata"]["name"], further["metadata"]["name"] = "nic.example.com", "big.example.com"
    cluster.api.create(project(within, 2), gpu_class(), other, further, gpu_slice("driven", 4))
    cluster.add([node("driven", gpus=0)])

    def scheduler(name: str, of_class: str) -> str:
        """Return the scheduler of a pod that names none and asks for a device of a class."""
        body = asking(within, name, 1, f"deviceclass.resource.kubernetes.io/{of_class}")
        del body["spec"]["schedulerName"]
        cluster.api.create(body)
        found = cluster.api.get(f"/api/v1/namespaces/{within}/pods/{name}")
        return str(found["spec"]["schedulerName"])

    tries = iter(range(100))
    cluster.until(lambda: scheduler(f"p{next(tries)}", GPU) == "weir", "the webhook to take the pod")
    cluster.until(lambda: scheduler(f"q{next(tries)}", "big.example.com") == "weir", "the class to be known")
    assert scheduler("nic", "nic.example.com") == "default-scheduler"
    cluster.until(lambda: len(given(cluster, within)) == 2, "two claims")
    path = f"/apis/weir.dev/v1alpha1/projects/{within}"

    def allocated() -> str:
        status = cluster.api.get(path).get("status") or {}
        return str(status.get("allocated", {}).get("gpu"))

    cluster.until(lambda: allocated() == "2", lambda: f"both in the quota: {allocated()}")


def test_a_pod_that_is_over_leaves_no_claim(cluster: Cluster, weir: Installed) -> None:
    within = cluster.namespace()
    cluster.api.create(project(within, 8), providing(), gpu_slice("driven", 1))
    cluster.add([node("driven", gpus=0)])
    cluster.api.create(asking(within, "first"))
    until_running(cluster, within, 1)
    cluster.api.patch(
        f"/api/v1/namespaces/{within}/pods/first/status",
        {"status": {"phase": "Succeeded"}},
    )
    cluster.until(lambda: not claims(cluster, within), "the claim of a pod that is over to be gone")
    cluster.api.create(asking(within, "second"))
    cluster.until(lambda: "second" in cluster.running(within), "its device to be free")


def test_a_killed_weir_neither_loses_nor_doubles_a_device(cluster: Cluster, weir: Installed) -> None:
    within = cluster.namespace()
    names = [f"killed-{at}" for at in range(6)]
    cluster.api.create(project(within, 24), providing(), *(gpu_slice(name) for name in names))
    cluster.add([node(name, gpus=0) for name in names])
    cluster.api.create_many([asking(within, f"p-{at}") for at in range(24)])
    for most in (0, 8, 16):
        cluster.until(
            lambda most=most: len(claims(cluster, within)) > most,
            lambda: f"another claim; {why(cluster, within)}; {weir.log_text()[-3000:]}",
        )
        weir.kill()
        given(cluster, within)
        weir.start()
    running = until_running(cluster, within, 24)
    assert len(given(cluster, within)) == 24
    assert all(devices(each)[0][0] == running[name] for name, each in claims(cluster, within).items())
    cluster.api.delete(f"/api/v1/namespaces/{within}/pods", grace_s=0)
    cluster.until(lambda: not claims(cluster, within), "all claims to be gone")


def test_a_claim_left_for_another_node_is_made_again(cluster: Cluster, weir: Installed) -> None:
    """A claim of the pod's own that requests something else is replaced: no spec of a claim can change."""
    within = cluster.namespace()
    cluster.api.create(project(within, 8), providing())
    cluster.add([node("driven", gpus=0)])
    cluster.api.create(asking(within, "p", 2))
    body = cluster.api.get(f"/api/v1/namespaces/{within}/pods/p")
    read = msgspec.convert(body, KubePod)
    mine = extended_resources(
        read.spec, provided({GPU: msgspec.convert(providing(), DeviceClass)}), DeviceResources()
    )
    assert mine is not None
    special = mine.special_claim(read, special_name(read), [RESOURCE])
    other = {
        **special.body,
        "spec": {"devices": {"requests": [{"name": "x", "exactly": {"deviceClassName": GPU}}]}},
    }
    (made,) = cluster.api.create(other)
    cluster.api.create(gpu_slice("driven", 4))
    until_running(cluster, within, 1)
    (claim,) = claims(cluster, within).values()
    assert claim["metadata"]["uid"] != made["metadata"]["uid"]
    assert claim["metadata"]["name"] == made["metadata"]["name"]
    assert len(devices(claim)) == 2
