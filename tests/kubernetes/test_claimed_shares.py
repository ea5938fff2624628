"""Fractions of GPUs that a DRA driver shares, on the real API server, with an installation's webhooks and rights."""

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import partial

import pytest
from tests.kubernetes.claim_objects import gpu_class, gpu_slice, needs_shared_devices
from tests.kubernetes.test_extended_resources import claims
from tests.kubernetes.test_gpu_sharing import isolation
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import pod

from weir.kubernetes.translate.quantities import exact

pytestmark = needs_shared_devices

CLASS = "shared.example.com"
RESOURCE = f"deviceclass.resource.kubernetes.io/{CLASS}"


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    with Installed(plane, name="shares") as running:
        running.wait_ready()
        yield running
        refused = [line for line in running.log_text().splitlines() if "forbidden" in line.lower()]
        assert not [line for line in refused if "resourceclaims" in line or "pods/status" in line]


def shared_class() -> Object:
    made = gpu_class()
    made["metadata"] = {"name": CLASS, "labels": {"weir.dev/gpu-sharing": "true"}}
    return made


def sharer(within: str, name: str, fraction: str = "0.5") -> Object:
    """Return a pod with a fraction that names no scheduler and no device."""
    made = pod(within, name, gpus=0, annotations={"weir.dev/gpu-fraction": fraction})
    del made["spec"]["schedulerName"]
    return made


def allocated(cluster: Cluster, within: str) -> str:
    status = cluster.api.get(f"/apis/weir.dev/v1alpha1/projects/{within}").get("status") or {}
    return str(status.get("allocated", {}).get("gpu"))


def label_isolates(cluster: Cluster, label: str | None, within: str, names: Iterable[str], to: str) -> None:
    """Give the class its label for limits of memory, or take it away, and wait for the isolation of pods."""
    labels = {"weir.dev/gpu-memory-limits": label}
    cluster.api.patch(f"/apis/resource.k8s.io/v1/deviceclasses/{CLASS}", {"metadata": {"labels": labels}})
    stated = partial(isolation, cluster, within)
    cluster.until(lambda: set(map(stated, names)) == {to}, lambda: f"{to}: {list(map(stated, names))}")


def held(cluster: Cluster, within: str) -> Counter[tuple[str, str]]:
    """Return the memory that shares hold of each device. A claim that is about to go may hold nothing."""
    found: Counter[tuple[str, str]] = Counter()
    for each in claims(cluster, within).values():
        allocation = each.get("status", {}).get("allocation")
        for result in allocation["devices"]["results"] if allocation else ():
            found[result["pool"], result["device"]] += exact(result["consumedCapacity"]["memory"])
    return found


def test_fractions_run_on_nodes_whose_gpus_a_driver_shares(cluster: Cluster, weir: Installed) -> None:
    within = cluster.namespace()
    cluster.api.create(project(within, 8), gpu_class(), shared_class(), gpu_slice("shared-1", 1, shared=True))
    cluster.add([node("shared-1", gpus=0)])
    path, tries = f"/api/v1/namespaces/{within}/pods", iter(range(100))

    def is_taken() -> bool:
        made = cluster.api.post(path, sharer(within, f"p{next(tries)}"))
        resources = made["spec"]["containers"][0]["resources"]
        taken = (
            resources.get("limits", {}).get(RESOURCE) == resources.get("requests", {}).get(RESOURCE) == "1"
        )
        if not taken:
            cluster.api.delete(f"{path}/{made['metadata']['name']}", grace_s=0)
        return bool(taken)

    cluster.until(is_taken, "the webhook to know the class")
    cluster.api.create(sharer(within, "half"), sharer(within, "third"), sharer(within, "small", "0.1"))
    running = cluster.until(
        lambda: len(cluster.running(within)) == 2 and cluster.running(within), "two halves"
    )
    assert set(running.values()) == {"shared-1"}
    assert sum(held(cluster, within).values()) == 80 * 1024**3
    assert all(amount <= 80 * 1024**3 for amount in held(cluster, within).values())
    cluster.until(lambda: allocated(cluster, within) == "1", lambda: allocated(cluster, within))
    for name in running:
        body = cluster.api.get(f"{path}/{name}")
        (mapping,) = body["status"]["extendedResourceClaimStatus"]["requestMappings"]
        assert mapping == {"containerName": "main", "resourceName": RESOURCE, "requestName": "share"}
    for label, stated in ((None, "none"), ("true", "enforced"), (None, "none")):
        label_isolates(cluster, label, within, running, stated)
    weir.kill()
    weir.start()
    cluster.api.delete(f"{path}/{next(iter(running))}", grace_s=0)
    cluster.until(lambda: len(cluster.running(within)) == 2, "the capacity of the pod that ended")
    assert all(amount <= 80 * 1024**3 for amount in held(cluster, within).values())
    assert Fraction(allocated(cluster, within) or "0") <= 1
