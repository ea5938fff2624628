"""Devices that a driver prepares before their pod is bound, on the real API server; the test is the driver."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kubernetes.claim_objects import GPU, claiming, gpu_class, gpu_slice, template
from tests.kubernetes.claim_verdicts import RESOURCES
from tests.kubernetes.constraints import scheduling
from tests.kubernetes.test_claims import claims, devices
from tools.controlplane.api import Object
from tools.controlplane.binaries import chosen_release
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project

pytestmark = pytest.mark.skipif(
    chosen_release() < "1.36", reason="binding conditions are off by default before 1.36"
)
READY, BROKEN = "example.com/attached", "example.com/broken"


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-conditions") as running:
        yield running


def attachable(name: str, count: int = 1) -> Object:
    """Return the slice of a node whose devices are prepared before their use."""
    made = gpu_slice(name, count)
    for each in made["spec"]["devices"]:
        each |= {"bindsToNode": True, "bindingConditions": [READY], "bindingFailureConditions": [BROKEN]}
    return made


class Site:
    """A namespace with pods whose devices are prepared, and their driver."""

    def __init__(self, cluster: Cluster, *nodes: str) -> None:
        self.cluster, self.within = cluster, cluster.namespace()
        cluster.api.create(project(self.within, 8), gpu_class(), template(self.within, "one"))
        cluster.api.create(*(attachable(each) for each in nodes))
        cluster.add([node(each, gpus=0) for each in nodes])

    def claim(self, pod: str) -> Object:
        return claims(self.cluster, self.within)[pod]

    def allocated(self, pod: str, *, but: str = "") -> Object:
        """Wait for a claim to have devices of which nothing is reported, at another time than `but`; return it."""

        def found() -> Object | None:
            one = claims(self.cluster, self.within).get(pod)
            status = (one or {}).get("status", {})
            allocation = status.get("allocation") or {}
            is_new = allocation and allocation.get("allocationTimestamp") != but
            return one if is_new and not status.get("devices") else None

        one = self.cluster.until(found, f"devices for {pod}")
        assert one is not None
        assert [each["name"] for each in one["status"]["reservedFor"]] == [pod]
        return one

    def report(self, pod: str, **conditions: str) -> None:
        """Have the driver report the state of these conditions."""
        claim = self.claim(pod)
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        written = [
            {
                "type": {"ready": READY, "broken": BROKEN}[key],
                "status": value,
                "reason": "Told",
                "message": "words of the driver",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for key, value in conditions.items()
        ]
        device = {key: result[key] for key in ("driver", "pool", "device")} | {"conditions": written}
        self._patch(claim, {"devices": [device]})

    def _patch(self, claim: Object, status: dict[str, Any]) -> None:
        path = f"{RESOURCES}/namespaces/{self.within}/resourceclaims/{claim['metadata']['name']}/status"
        self.cluster.api.patch(path, {"status": status})

    def waits(self, pod: str) -> None:
        """Wait for the event of a pod whose devices aren't ready, and make sure that it isn't bound."""
        path = f"/api/v1/namespaces/{self.within}/events"

        def is_said() -> bool:
            events = self.cluster.api.items(path)
            return any(
                each["reason"] == "DevicesPending" and each["involvedObject"]["name"] == pod
                for each in events
            )

        self.cluster.until(is_said, f"an event of {pod}")
        assert pod not in self.cluster.running(self.within)

    def runs(self, pod: str) -> str:
        """Wait for a pod to run; return its node."""
        running = self.cluster.until(
            lambda: pod in self.cluster.running(self.within) and self.cluster.running(self.within), pod
        )
        return str(running[pod])


def test_a_pod_is_bound_once_its_device_is_ready_also_by_another_weir(cluster: Cluster, weir: Weir) -> None:
    site = Site(cluster, "slow-1", "slow-2")
    cluster.api.create(claiming(site.within, "p", "one"))
    before = site.allocated("p")
    (result,) = before["status"]["allocation"]["devices"]["results"]
    assert (result["bindingConditions"], result["bindingFailureConditions"]) == ([READY], [BROKEN])
    site.waits("p")
    weir.kill()
    weir.start()
    cluster.api.create(claiming(site.within, "q", "one"))
    other = site.allocated("q")
    assert devices(other) != devices(before)
    site.report("p", ready="False")
    site.waits("q")
    assert site.claim("p")["status"]["allocation"] == before["status"]["allocation"]
    site.report("p", ready="True")
    assert site.runs("p") == result["pool"]
    assert "q" not in cluster.running(site.within)
    site.report("q", ready="True", broken="False")
    site.runs("q")


def test_a_device_that_fails_is_released_and_the_pod_is_placed_again(cluster: Cluster, weir: Weir) -> None:
    site = Site(cluster, "slow-1")
    cluster.api.create(claiming(site.within, "p", "one"))
    site.allocated("p")
    site.waits("p")
    site.report("p", broken="True")
    site.allocated("p")
    assert "p" not in cluster.running(site.within)
    site.report("p", ready="True")
    assert site.runs("p") == "slow-1"


def test_devices_whose_time_is_over_are_released(cluster: Cluster, weir: Weir) -> None:
    site = Site(cluster, "slow-1")
    weir.kill()
    cluster.api.create(claiming(site.within, "p", "one"))
    claim = cluster.until(lambda: claims(cluster, site.within).get("p"), "the claim")
    assert claim is not None
    uid = claim["metadata"]["ownerReferences"][0]["uid"]
    conditions = {"bindingConditions": [READY], "bindingFailureConditions": [BROKEN]}
    result = {"request": "gpu", "driver": GPU, "pool": "slow-1", "device": "gpu-0", **conditions}
    only = {"key": "metadata.name", "operator": "In", "values": ["slow-1"]}
    site._patch(
        claim,
        {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
                "allocationTimestamp": "2026-01-01T00:00:00Z",
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": uid}],
        },
    )
    weir.start()
    after = site.allocated("p", but="2026-01-01T00:00:00Z")
    assert devices(after) == [("slow-1", "gpu-0")]
    site.report("p", ready="True")
    assert site.runs("p") == "slow-1"
