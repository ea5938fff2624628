"""Pods with resource claims, from their objects to the writes before a binding; without an API server."""

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.small_world import job, node, pod, project
from tests.unit.kubernetes.test_backend import Scene

from weir.engine.explanation.pending_reasons import pending_reason
from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.objects import KubePod, PodClaimStatus, PodResourceClaim, PodStatus
from weir.kubernetes.api.resource_objects import DeviceClass, ResourceClaim, ResourceSlice
from weir.kubernetes.writes.operations import (
    AllocateClaim,
    Bind,
    WriteDone,
)
from weir.model.policy import Policy

GPU = "gpu.nvidia.com"
ROOT = "resource.kubernetes.io/pcieRoot"


def device_class(name: str = GPU, *selectors: str) -> DeviceClass:
    written = [{"cel": {"expression": each}} for each in selectors or (f'device.driver == "{GPU}"',)]
    return msgspec.convert({"metadata": {"name": name}, "spec": {"selectors": written}}, DeviceClass)


def gpus_of(name: str, count: int = 4, **more: Any) -> ResourceSlice:
    """Return the slice of a node whose GPUs sit two by two on a PCIe root."""
    devices = [
        {
            "name": f"gpu-{at}",
            "attributes": {ROOT: {"string": f"root-{at // 2}"}, "productName": {"string": "H100"}},
            "capacity": {"memory": {"value": "80Gi"}},
            **more,
        }
        for at in range(count)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU, "nodeName": name, "pool": pool, "devices": devices}
    return msgspec.convert({"metadata": {"name": f"{name}-{GPU}"}, "spec": spec}, ResourceSlice)


def claim(name: str, count: int = 1, owner: str = "", **more: Any) -> ResourceClaim:
    exactly = {"deviceClassName": GPU, "allocationMode": "ExactCount", "count": count, **more}
    metadata: dict[str, Any] = {"name": name, "namespace": "team", "uid": f"c-{name}"}
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner}]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return msgspec.convert({"metadata": metadata, "spec": spec}, ResourceClaim)


def allocated(write: AllocateClaim, before: ResourceClaim, *, pods: tuple[str, ...] = ()) -> ResourceClaim:
    """Return a claim as it is once a write was carried out."""
    consumers = [{"resource": "pods", "name": "p", "uid": uid} for uid in pods or (write.pod_uid,)]
    status = {"allocation": write.allocation, "reservedFor": consumers}
    return msgspec.convert({**msgspec.to_builtins(before), "status": status}, ResourceClaim)


def claiming(name: str, claim_name: str = "", **more: Any) -> KubePod:
    """Return a pod that uses a claim of this name, or one made for it from a template."""
    made = pod(name, owner=("train", "j1"), gpus=0, **more)
    if claim_name:
        made.spec.resource_claims = [PodResourceClaim("gpu", resource_claim_name=claim_name)]
        return made
    made.spec.resource_claims = [PodResourceClaim("gpu")]
    made.status = PodStatus(made.status.phase, resource_claim_statuses=[PodClaimStatus("gpu", f"{name}-gpu")])
    return made


def scene(*slices: ResourceSlice, pods: int = 1, count: int = 1, quota: int = 4, **more: Any) -> Scene:
    made = Scene()
    made.hear("deviceclasses", device_class())
    made.hear("nodes", *(node(each.spec.node_name or "", gpus=0) for each in slices))
    made.hear("resourceslices", *slices)
    made.hear("projects", project("team", gpus=quota))
    made.hear("owners", job("train", "j1", 1))
    made.hear("resourceclaims", *(claim(f"p{at}-gpu", count, f"u-p{at}", **more) for at in range(pods)))
    made.hear("pods", *(claiming(f"p{at}") for at in range(pods)))
    return made


def writes_of(bind: Bind) -> list[AllocateClaim]:
    return [each for each in bind.before if isinstance(each, AllocateClaim)]


def devices_of(bind: Bind) -> list[str]:
    return [
        result["device"]
        for write in writes_of(bind)
        if write.allocation is not None
        for result in write.allocation["devices"]["results"]  # type: ignore[index]
    ]


def why(here: Scene) -> str:
    gangs = here.backend.cluster_state.registry.gangs.values()
    waits = [tracked.wait for gang in gangs for tracked in gang.pods() if tracked.wait]
    cluster = here.control.cluster
    found = [pending_reason(cluster, Policy(), each, here.now_s) for each in cluster.jobs.values()]
    return " ".join([*waits, *(each.sentence for each in found if each is not None)])


def test_a_claim_is_allocated_before_its_pod_is_bound() -> None:
    here = scene(gpus_of("n1"))
    (bind,) = here.step()
    (write,) = writes_of(bind)
    assert bind.node == "n1"
    assert write == AllocateClaim(
        "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/p0-gpu",
        "c-p0-gpu",
        "p0",
        "u-p0",
        {
            "devices": {
                "results": [{"request": "gpu", "driver": GPU, "pool": "n1", "device": "gpu-0"}],
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                ]
            },
        },
    )
    assert here.backend.check(bind) == ""


def test_no_device_is_given_twice_and_quotas_count_claims() -> None:
    here = scene(gpus_of("n1"), gpus_of("n2"), pods=7, count=2, quota=6)
    here.hear("owners", job("train", "j1", 1, min_pods="1"))
    binds = here.step()
    given = [(bind.node, device) for bind in binds for device in devices_of(bind)]
    assert len(given) == len(set(given)) == 8  # what is over quota is borrowed
    for bind in binds:
        here.backend.take_outcome(bind, WriteDone())
    assert here.step() == []
    assert "claim gpu (2 of class gpu.nvidia.com)" in why(here)


def test_limits_count_claims() -> None:
    here = scene(gpus_of("n1"), gpus_of("n2"), pods=0)
    limited = project("team", gpus=2)
    limited.spec["limit"] = {"gpu": 5}
    here.hear("projects", limited)
    here.hear("owners", job("train", "j1", 1, min_pods="1"))
    here.hear("resourceclaims", *(claim(f"p{at}-gpu", 2, f"u-p{at}") for at in range(4)))
    here.hear("pods", *(claiming(f"p{at}") for at in range(4)))
    assert len(here.step()) == 2
    assert "limit" in why(here)


def test_devices_of_one_claim_share_a_root() -> None:
    here = scene(gpus_of("n1"), pods=1)
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    here.hear("resourceclaims", claim("p1-gpu", 2, "u-p1"))
    here.hear("pods", claiming("p1"))
    (second,) = here.step()
    assert devices_of(bind) == ["gpu-0"]
    assert devices_of(second) == ["gpu-2", "gpu-3"]


def test_devices_of_others_are_left_alone() -> None:
    here = scene(gpus_of("n1", 2), pods=2)
    (bind, _) = here.step()
    theirs = allocated(writes_of(bind)[0], claim("theirs"))
    other = scene(gpus_of("n1", 2), pods=2)
    other.hear("resourceclaims", theirs)
    (left,) = other.step()
    assert devices_of(left) == ["gpu-1"]


def test_a_claim_that_is_shared_is_allocated_once() -> None:
    here = scene(gpus_of("n1", 1), gpus_of("n2", 1), pods=0)
    shared = claim("common")
    here.hear("resourceclaims", shared)
    here.hear("owners", job("train", "j1", 2, min_pods="1"))
    here.hear("pods", claiming("a", "common"), claiming("b", "common"))
    binds = here.step()
    given = [bind for bind in binds if devices_of(bind)]
    assert len(given) == 1
    (first,) = given
    here.backend.take_outcome(first, WriteDone())
    here.hear("resourceclaims", allocated(writes_of(first)[0], shared))
    later = [bind for _ in range(4) for bind in here.step(after_s=1.0)]
    assert {bind.node for bind in later} <= {first.node}
    assert all(writes_of(bind)[0].allocation is None for bind in later)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda here: here.backend.deliver("resourceclaims")([ObjectRemoved("team/p0-gpu", "c")]),
            "doesn't exist",
        ),
        (lambda here: here.hear("resourceclaims", claim("p0-gpu", 1, "somebody")), "made for another pod"),
        (lambda here: here.backend.deliver("deviceclasses")([ObjectRemoved(GPU, "")]), "doesn't exist"),
        (
            lambda here: here.hear("resourceclaims", claim("p0-gpu", selectors=[{}], owner="u-p0")),
            "of a kind that is not supported",
        ),
    ],
)
def test_a_pod_waits_for_its_claim_and_says_so(change: Any, sentence: str) -> None:
    here = scene(gpus_of("n1"))
    change(here)
    assert here.step() == []
    assert sentence in why(here)


def test_a_claim_of_a_template_is_waited_for() -> None:
    here = scene(gpus_of("n1"), pods=0)
    waiting = claiming("p0")
    waiting.status = PodStatus("Pending")
    here.hear("pods", waiting)
    assert here.step() == []
    assert "to be made from its template" in why(here)


@pytest.mark.parametrize(
    "expression",
    [
        "device.attributes[?[1]].hasValue()",
        "!" * 100 + "(" + "!" * 100 + "(true))",
        "[1, 2].all(x, device.absent)",
    ],
)
def test_a_claim_whose_selector_has_no_value_waits_by_name_and_others_start(expression: str) -> None:
    here = scene(gpus_of("n1"))
    here.hear("owners", job("bad", "j2", 1))
    selector = [{"cel": {"expression": f"{expression} && device.gone.too"}}]
    here.hear("resourceclaims", claim("bad-gpu", selectors=selector))
    waiting = claiming("bad", "bad-gpu")
    waiting.metadata.owner_references = pod("bad", owner=("bad", "j2")).metadata.owner_references
    here.hear("pods", waiting)
    assert [bind.name for bind in here.step()] == ["p0"]
    assert "no node has devices for the claim gpu (1 of class gpu.nvidia.com, selector" in why(here)
    assert "#" not in why(here)


def test_a_pod_that_goes_in_the_moment_its_claim_changes_is_forgotten() -> None:
    here = scene(gpus_of("n1"), pods=2, quota=4)
    here.hear("owners", job("train", "j1", 1, min_pods="1"))
    here.step()
    here.hear("resourceclaims", claim("p0-gpu", 2, "u-p0"))
    here.gone("p0")
    here.step()
    assert [each.key for each in here.backend.cluster_state.pods.by_key.values()] == ["team/p1"]


def test_a_node_serves_claims_or_extended_resources() -> None:
    here = scene(gpus_of("n1", 1), pods=1)
    here.hear("nodes", node("plain", gpus=1))
    here.hear("pods", pod("whole", gpus=1), pod("second", gpus=1))
    binds = {bind.name: bind.node for bind in here.step()}
    assert binds["p0"] == "n1"
    assert [binds.get("whole"), binds.get("second")].count("plain") == 1
    assert "n1" not in (binds.get("whole"), binds.get("second"))


def test_a_node_with_a_broken_slice_is_contained() -> None:
    broken = gpus_of("n1")
    broken.spec.devices[0].attributes["v"] = msgspec.convert(
        {"version": "one"}, type(broken.spec.devices[0].attributes[ROOT])
    )
    here = scene(broken, gpus_of("n2"))
    (bind,) = here.step()
    assert bind.node == "n2"
    assert here.backend.unreadable_counts() == {"resourceslices": 1}


def test_a_partition_counts_as_its_part() -> None:
    """Two slices of one GPU, each with three of its seven parts, leave too few counters for a third."""
    counters = [{"name": "c0", "counters": {"parts": {"value": "7"}}}]
    device = {
        "attributes": {"profile": {"string": "3g.40gb"}},
        "consumesCounters": [{"counterSet": "c0", "counters": {"parts": {"value": "3"}}}],
    }
    whole = {
        "name": "gpu-0",
        "consumesCounters": [{"counterSet": "c0", "counters": {"parts": {"value": "7"}}}],
    }
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": GPU, "nodeName": "n1", "pool": pool}
    slices = [
        {
            "metadata": {"name": "a"},
            "spec": {**spec, "devices": [whole, *({"name": f"m{at}", **device} for at in range(4))]},
        },
        {"metadata": {"name": "b"}, "spec": {**spec, "sharedCounters": counters}},
    ]
    selector = [{"cel": {"expression": f'has(device.attributes["{GPU}"].profile)'}}]
    here = scene(*(msgspec.convert(each, ResourceSlice) for each in slices[:1]), pods=3, selectors=selector)
    here.hear("resourceslices", msgspec.convert(slices[1], ResourceSlice))
    binds = here.step()
    assert sorted(device for bind in binds for device in devices_of(bind)) == ["m0", "m1"]
    usage = here.backend.cluster_state.node_states.device_use("n1")
    assert usage is not None
