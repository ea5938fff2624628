"""Fractions of GPUs that DRA drivers share by consumable capacity: requests, quotas, devices and refusals."""

from copy import deepcopy
from fractions import Fraction
from random import Random
from typing import Any, cast

import msgspec
import pytest
from tests.unit.kubernetes.small_world import job, node, project
from tests.unit.kubernetes.state.claims.test_extended_claims import asking, bound, made_by, special_of
from tests.unit.kubernetes.state.claims.test_resource_claims import (
    GPU,
    allocated,
    claim,
    claiming,
    device_class,
    devices_of,
    why,
    writes_of,
)
from tests.unit.kubernetes.test_backend import Scene, status_of

from weir.kubernetes.admission.class_resources import ClassResources
from weir.kubernetes.admission.reviews import PodRules, QuotaTree, defaulting_patch
from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.objects import Container, KubePod, SecurityContext
from weir.kubernetes.api.resource_objects import CapacityRequirements, DeviceClass, ResourceSlice
from weir.kubernetes.crd.queue_tree import QueueObject
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.quantities import exact
from weir.kubernetes.writes.operations import Bind, Evict, WriteDone

CLASS = "shared.example.com"
RESOURCE = f"deviceclass.resource.kubernetes.io/{CLASS}"
LABEL = {"weir.dev/gpu-sharing": "true"}
STEPS = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}


def sharing(name: str = CLASS, *, limits: str = "") -> DeviceClass:
    made = device_class(name)
    made.metadata.labels = LABEL | ({"weir.dev/gpu-memory-limits": limits} if limits else {})
    return made


def shared_gpus(
    name: str, memory: str = "80Gi", *, shared: int = 2, whole: int = 0, cores: str = ""
) -> ResourceSlice:
    """Return the slice of a node with shared GPUs before whole ones."""
    capacity: dict[str, Any] = {"memory": {"value": memory, "requestPolicy": STEPS}}
    if cores:
        capacity["cores"] = {"value": cores}
    devices: list[dict[str, Any]] = [
        {"name": f"shared-{at}", "capacity": capacity, "allowMultipleAllocations": True}
        for at in range(shared)
    ]
    devices += [{"name": f"whole-{at}", "capacity": {"memory": {"value": memory}}} for at in range(whole)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU, "nodeName": name, "pool": pool, "devices": devices}
    return msgspec.convert({"metadata": {"name": f"{name}-gpus"}, "spec": spec}, ResourceSlice)


def scene(*slices: ResourceSlice, quota: int = 8, plugged: int = 0) -> Scene:
    made = Scene()
    made.hear("deviceclasses", device_class(), sharing())
    made.hear("nodes", *(node(each.spec.node_name or "", gpus=0) for each in slices))
    if plugged:
        made.hear("nodes", node("plugged", gpus=plugged, shared=True))
    made.hear("resourceslices", *slices)
    made.hear("projects", project("team", gpus=quota))
    return made


def sharer(name: str, fraction: str = "0.5", **more: Any) -> KubePod:
    """Return a pod with a fraction, as the webhook leaves it."""
    made = asking(name, {RESOURCE: "1"}, **more)
    made.metadata.annotations = {**made.metadata.annotations, "weir.dev/gpu-fraction": fraction}
    return made


def request_of(bind: Bind) -> dict[str, Any]:
    special = special_of(bind).special
    assert special is not None
    (request,) = cast(Any, special.body)["spec"]["devices"]["requests"]
    return cast(dict[str, Any], request["exactly"])


def held(binds: list[Bind]) -> dict[tuple[str, str], Fraction]:
    """Return the memory that the claims of bindings take of each device."""
    found: dict[tuple[str, str], Fraction] = {}
    for bind in binds:
        for result in cast(Any, special_of(bind).allocation)["devices"]["results"]:
            key = bind.node, result["device"]
            found[key] = found.get(key, Fraction()) + exact(result["consumedCapacity"]["memory"])
    return found


def test_a_fraction_is_claimed_as_a_part_of_each_capacity_of_the_nodes_devices() -> None:
    here = scene(shared_gpus("n1", "80Gi", cores="10"))
    here.hear("pods", sharer("p", "0.25"))
    (bind,) = here.step()
    exactly = request_of(bind)
    assert (exactly["deviceClassName"], exactly["count"]) == (CLASS, 1)
    assert {name: exact(each) for name, each in exactly["capacity"]["requests"].items()} == {
        "memory": 20 * 1024**3,
        "cores": Fraction(5, 2),
    }
    special = special_of(bind).special
    assert special is not None
    assert special.pod_status["requestMappings"] == [
        {"containerName": "main", "resourceName": RESOURCE, "requestName": "share"}
    ]
    assert "weir.dev/gpu-memory-limit" not in bind.annotations
    assert here.backend.check(bind) == ""


def test_the_amount_is_that_of_the_chosen_node() -> None:
    here = scene(shared_gpus("small", "40Gi", shared=1), shared_gpus("large", "80Gi", shared=1))
    here.hear("pods", *(sharer(f"p{at}") for at in range(5)))
    binds = here.step()
    amounts = {
        bind.node: exact(request_of(bind)["capacity"]["requests"]["memory"]) // 1024**3 for bind in binds
    }
    assert amounts == {"small": 20, "large": 40}
    assert len(binds) == 4
    for bind in binds:
        here.backend.take_outcome(bind, WriteDone())
    assert here.step() == []
    assert "0.5 of a shared" in why(here) or "GPU" in why(here)


def test_quotas_count_the_fraction() -> None:
    here = scene(shared_gpus("n1", shared=4), quota=4)
    limited = project("team", gpus=1)
    limited.spec["limit"] = {"gpu": 1}
    here.hear("projects", limited)
    here.hear("pods", *(sharer(f"p{at}", "0.3") for at in range(5)))
    binds = here.step()
    assert len(binds) == 3
    assert "limit" in why(here)
    usage = here.backend.cluster_state.node_states.device_use("n1")
    assert usage is not None
    assert usage.own_milli == 900


def test_a_share_of_several_devices_takes_different_ones() -> None:
    here = scene(shared_gpus("n1", shared=2))
    made = sharer("p")
    made.metadata.annotations["weir.dev/gpu-devices"] = "2"
    here.hear("pods", made)
    (bind,) = here.step()
    assert sorted(devices_of(bind)) == ["shared-0", "shared-1"]


def test_shares_whole_devices_and_claims_side_by_side_never_book_double() -> None:
    here = scene(shared_gpus("n1", shared=2, whole=2), quota=16)
    here.hear(
        "resourceclaims", claim("c-gpu", 1, "u-c", selectors=[_cel("!device.allowMultipleAllocations")])
    )
    here.hear("pods", *(sharer(f"p{at}") for at in range(6)), claiming("c"))
    whole = asking("w", {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"})
    here.hear("pods", whole)
    binds = [each for _ in range(4) for each in here.step(after_s=0.5)]
    shares = [bind for bind in binds if bind.name.startswith("p")]
    assert all(amount <= 80 * 1024**3 for amount in held(shares).values())
    others = [device for bind in binds if not bind.name.startswith("p") for device in devices_of(bind)]
    assert len(others) == len(set(others))
    assert not {device for _, device in held(shares)} & set(others)


def _cel(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


def test_another_weir_finds_the_share_that_one_before_it_allocated() -> None:
    first = scene(shared_gpus("n1", "80Gi"))
    made = sharer("p")
    first.hear("pods", made)
    (bind,) = first.step()
    seen = made_by(bind)
    (request,) = seen.spec.devices.requests
    assert request.exactly is not None
    assert request.exactly.capacity is not None
    request.exactly.capacity.requests["memory"] = "40Gi"  # as the API server writes it
    second = scene(shared_gpus("n1", "80Gi"), shared_gpus("n0", "80Gi"))
    second.hear("resourceclaims", seen)
    second.hear("pods", deepcopy(made))
    (again,) = second.step()
    assert again.node == "n1"
    assert special_of(again).allocation is None
    second.backend.take_outcome(again, WriteDone())
    second.hear("pods", bound(made, again))
    assert second.step() == []
    usage = second.backend.cluster_state.node_states.device_use("n1")
    assert usage is not None
    assert usage.own_milli == 500


@pytest.mark.parametrize("seed", range(8))
def test_no_device_is_overbooked_in_any_order(seed: int) -> None:
    chance = Random(seed)
    sizes = {f"n{at}": chance.choice(("40Gi", "80Gi")) for at in range(3)}
    here = scene(*(shared_gpus(name, size) for name, size in sizes.items()), quota=16)
    fractions = [chance.choice(("0.1", "0.25", "0.33", "0.5", "0.7", "1")) for _ in range(24)]
    here.hear("pods", *(sharer(f"p{at}", each) for at, each in enumerate(fractions) if each != "1"))
    binds: list[Bind] = []
    for _ in range(4):
        for each in here.step(after_s=0.5):
            assert not isinstance(each, Evict)
            here.backend.take_outcome(each, WriteDone())
            binds.append(each)
    found = held(binds)
    assert found
    for (name, device), amount in found.items():
        assert amount <= exact(sizes[name]), (name, device)


def test_a_fraction_and_the_devices_of_another_class_are_refused() -> None:
    here = scene(shared_gpus("n1"))
    made = asking("p", {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"})
    made.metadata.annotations["weir.dev/gpu-fraction"] = "0.5"
    here.hear("pods", made)
    assert here.step() == []
    assert "a part of a device and for whole ones" in why(here)


# Isolation of memory


def run(here: Scene, made: KubePod) -> None:
    """Have a pod placed, and see it and its claim as the API server shows them then."""
    here.hear("pods", made)
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    (write,) = writes_of(bind)
    key = "team", write.path.rpartition("/")[2]
    named = here.backend.cluster_state.claims.inventory.claims.get(key)
    here.hear("resourceclaims", made_by(bind) if named is None else allocated(write, named))
    running = deepcopy(made)
    running.spec.node_name = bind.node
    running.status.phase = "Running"
    here.hear("pods", bound(made, bind) if named is None else running)
    assert here.step() == []


def isolation(here: Scene) -> Any:
    return status_of(here.reported()).get("gpuMemoryIsolation", "unchanged")


@pytest.mark.parametrize("part", ["containers", "init_containers", "ephemeral_containers"])
def test_a_claimed_share_is_enforced_if_its_class_says_so_and_it_isnt_privileged(part: str) -> None:
    here, made = scene(shared_gpus("n1")), sharer("p")
    run(here, made)
    assert isolation(here) == "none"
    here.hear("deviceclasses", sharing(limits="true"))
    here.step(after_s=60.0)
    assert isolation(here) == "enforced"
    tracked = here.backend.cluster_state.pods.by_key["team/p"]
    privileged = deepcopy(here.backend.cluster_state.resolver.pod(tracked.key))
    privileged.spec.node_name = tracked.node
    debugger = Container("main", security_context=SecurityContext(privileged=True))
    setattr(privileged.spec, part, [*getattr(privileged.spec, part), debugger])
    here.hear("pods", privileged)
    here.step(after_s=60.0)
    assert isolation(here) == "none"


@pytest.mark.parametrize(
    "change",
    [ObjectSet(CLASS, sharing()), ObjectSet(CLASS, device_class(CLASS)), ObjectRemoved(CLASS, "")],
    ids=["says nothing", "isn't shared", "is gone"],
)
def test_a_share_of_a_class_that_changes_or_goes_is_not_enforced(change: Any) -> None:
    here = scene(shared_gpus("n1"))
    here.hear("deviceclasses", sharing(limits="true"))
    run(here, sharer("p"))
    assert isolation(here) == "enforced"
    here.backend.deliver("deviceclasses")([change])
    here.step(after_s=60.0)
    assert isolation(here) == "none"


def test_the_label_of_a_node_is_about_variables_that_a_claimed_share_hasnt() -> None:
    here = scene(shared_gpus("n1"))
    here.hear("nodes", node("n1", gpus=0, labels={"weir.dev/gpu-memory-limits": "true"}))
    run(here, sharer("p"))
    assert isolation(here) == "none"


@pytest.mark.parametrize(
    ("memory", "stated"), [("20Gi", "none"), ("80Gi", None), (None, "none")], ids=["part", "whole", "default"]
)
def test_a_part_of_a_gpu_that_a_pod_claims_itself_is_a_share(memory: str | None, stated: str | None) -> None:
    here = scene(shared_gpus("n1", "80Gi"))
    own = claim("c-gpu", 1, "u-c", selectors=[_cel("device.allowMultipleAllocations")])
    (request,) = own.spec.devices.requests
    assert request.exactly is not None
    request.exactly.capacity = CapacityRequirements({"memory": memory}) if memory else None
    here.hear("owners", job("train", "j1", 1))
    here.hear("resourceclaims", own)
    run(here, claiming("c"))
    assert isolation(here) == stated


# The webhook

KNOWN = QuotaTree(projects={"vision": QueueObject("vision", {"namespaces": ["team"]}, 0.0)})


def patched(*classes: DeviceClass, **annotations: str) -> dict[str, Any]:
    known = ClassResources(DeviceResources())
    known.deliver([ObjectSet(each.metadata.name, each) for each in classes])
    rules = PodRules("weir", known.is_device, share_resource=lambda: known.share_resource)
    containers = [{"name": "main", "resources": {"limits": {"cpu": "1"}}}, {"name": "beside"}]
    pod = {
        "metadata": {
            "name": "p",
            "annotations": {f"weir.dev/{key.replace('_', '-')}": each for key, each in annotations.items()},
        },
        "spec": {"containers": containers},
    }
    request = {"kind": {"kind": "Pod"}, "namespace": "team", "object": pod}
    return {each["path"]: each["value"] for each in defaulting_patch(request, KNOWN, rules)}


def test_the_webhook_has_each_container_ask_for_the_share() -> None:
    ops = patched(device_class(), sharing(), gpu_fraction="0.5")
    assert ops["/spec/schedulerName"] == "weir"
    assert ops["/spec/containers/0/resources/limits"] == {"cpu": "1", RESOURCE: "1"}
    assert ops["/spec/containers/0/resources/requests"] == {RESOURCE: "1"}
    assert ops["/spec/containers/1/resources"] == {}
    assert ops["/spec/containers/1/resources/limits"] == {RESOURCE: "1"}
    assert not any("env" in path or "share-variables" in path for path in ops)


@pytest.mark.parametrize("annotations", [{"gpu_memory": "20Gi"}, {"gpu_fraction": "0.5"}])
def test_shares_are_for_nodes_with_a_device_plugin_without_a_class_or_by_memory(
    annotations: dict[str, str],
) -> None:
    classes = [sharing()] if "gpu_memory" in annotations else [device_class()]
    ops = patched(*classes, **annotations)
    assert any("env" in path for path in ops)
    assert not any(path.endswith(("limits", "requests")) for path in ops)
