"""Pods that ask for extended resources of device classes, from their objects to the writes; without an API server."""

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.small_world import job, node, pod, project
from tests.unit.kubernetes.state.claims.test_resource_claims import (
    GPU,
    allocated,
    claim,
    device_class,
    devices_of,
    gpus_of,
    why,
    writes_of,
)
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.objects import KubePod, PodExtendedClaimStatus, PodResourceClaim, PodStatus
from weir.kubernetes.api.resource_objects import DeviceClass, ResourceClaim, ResourceSlice
from weir.kubernetes.claims.extended_resources import special_name
from weir.kubernetes.state.claims.resource_claims import CLAIM_DOUBT_S, IDLE_S
from weir.kubernetes.writes.operations import AllocateClaim, Bind, PatchObject, WriteDone, WriteRefused
from weir.model.workloads import WHOLE_MILLI

RESOURCE, IMPLICIT = "nvidia.com/gpu", f"deviceclass.resource.kubernetes.io/{GPU}"
NIC = "example.com/nic"


def providing(resource: str = RESOURCE, name: str = GPU) -> DeviceClass:
    """Return a class that provides an extended resource."""
    made = device_class(name)
    made.spec.extended_resource_name = resource
    return made


def asking(name: str, counts: dict[str, Any], **more: Any) -> KubePod:
    """Return a pod of its own workload that asks for these resources."""
    made = pod(name, gpus=0, **more)
    del made.spec.containers[0].resources.requests["nvidia.com/gpu"]
    made.spec.containers[0].resources.requests |= counts
    return made


def scene(*slices: ResourceSlice, plugged: int = 0, quota: int = 8, provides: str = RESOURCE) -> Scene:
    """Return a cluster of nodes with these slices, and one more with a device plugin's GPUs."""
    made = Scene()
    made.hear("deviceclasses", providing(provides) if provides else device_class())
    made.hear("nodes", *(node(each.spec.node_name or "", gpus=0) for each in slices))
    if plugged:
        made.hear("nodes", node("plugged", gpus=plugged))
    made.hear("resourceslices", *slices)
    made.hear("projects", project("team", gpus=quota))
    return made


def special_of(bind: Bind) -> AllocateClaim:
    (write,) = [each for each in writes_of(bind) if each.special is not None]
    return write


def made_by(bind: Bind, *, holds: bool = True, like: KubePod | None = None) -> ResourceClaim:
    """Return the claim that a binding makes, as the API server shows it: with devices, or before that."""
    write = special_of(bind)
    assert write.special is not None
    body = {**deepcopy(dict(write.special.body))}
    body["metadata"]["uid"] = f"c-{write.pod_name}"
    found = msgspec.convert(body, ResourceClaim)
    return allocated(write, found) if holds else found


def bound(made: KubePod, bind: Bind) -> KubePod:
    """Return a pod as it runs once a binding is carried out."""
    found = deepcopy(made)
    found.spec.node_name = bind.node
    found.metadata.annotations = dict(bind.annotations)
    found.status = PodStatus("Running")
    if writes_of(bind):
        name = special_of(bind).path.rpartition("/")[2]
        found.status = PodStatus("Running", extended_resource_claim_status=PodExtendedClaimStatus(name))
    return found


def gpus_used(here: Scene, name: str) -> int:
    usage = here.backend.cluster_state.node_states.device_use(name)
    assert usage is not None
    return usage.own_milli // WHOLE_MILLI


def test_a_pod_runs_by_number_where_only_a_dra_driver_has_the_devices() -> None:
    here = scene(gpus_of("n1"))
    made = asking("p", {RESOURCE: "2"})
    here.hear("pods", made)
    (bind,) = here.step()
    write = special_of(bind)
    assert bind.node == "n1"
    assert devices_of(bind) == ["gpu-0", "gpu-1"]
    assert write.path.endswith(f"/namespaces/team/resourceclaims/{special_name(made)}")
    assert write.uid == ""
    assert write.special is not None
    assert write.special.pod_status["requestMappings"] == [
        {"containerName": "main", "resourceName": RESOURCE, "requestName": "container-0-request-2"}
    ]
    assert here.backend.check(bind) == ""


@pytest.mark.parametrize("provides", ["", RESOURCE])
def test_a_class_provides_its_implicit_name_too(provides: str) -> None:
    here = scene(gpus_of("n1"), provides=provides)
    here.hear("pods", asking("p", {IMPLICIT: "2"}))
    (bind,) = here.step()
    assert devices_of(bind) == ["gpu-0", "gpu-1"]
    assert len(bind.annotations["weir.dev/gpus"].split(",")) == 2


def test_a_class_that_comes_later_starts_pods_that_wait_for_it() -> None:
    here = scene(gpus_of("n1"), provides="")
    here.hear("pods", asking("p", {NIC: "1"}), asking("q", {RESOURCE: "1"}))
    assert here.step() == []
    assert "example.com/nic, which no node has" in why(here)
    here.hear("deviceclasses", providing(), providing(NIC, "nics"))
    assert sorted(bind.name for bind in here.step()) == ["p", "q"]


def test_no_device_is_given_twice_and_limits_count_the_pods() -> None:
    here = scene(gpus_of("n1"), gpus_of("n2"), quota=4)
    limited = project("team", gpus=4)
    limited.spec["limit"] = {"gpu": 6}
    here.hear("projects", limited)
    here.hear("pods", *(asking(f"p{at}", {RESOURCE if at % 2 else IMPLICIT: "2"}) for at in range(4)))
    binds = here.step()
    given = [(bind.node, device) for bind in binds for device in devices_of(bind)]
    assert len(given) == len(set(given)) == 6
    assert "limit" in why(here)


def test_a_pod_waits_and_says_for_which_devices() -> None:
    here = scene(gpus_of("n1", 2))
    here.hear("pods", asking("p", {IMPLICIT: "2"}), asking("q", {IMPLICIT: "1"}))
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    assert here.step() == []
    assert "GPU" in why(here) or f"(1 of class {GPU})" in why(here)


def test_nodes_with_a_device_plugin_keep_using_it() -> None:
    here = scene(gpus_of("n1", 2), plugged=2)
    here.hear("pods", *(asking(f"p{at}", {RESOURCE: "1"}) for at in range(5)))
    binds = here.step()
    assert sorted(bind.node for bind in binds) == ["n1", "n1", "plugged", "plugged"]
    assert all(bool(writes_of(bind)) == (bind.node == "n1") for bind in binds)
    (refused,) = [bind for bind in binds if bind.node == "plugged"][:1]
    for bind in binds:
        done = WriteRefused(409, "conflict") if bind is refused else WriteDone()
        here.backend.take_outcome(bind, done)
    (again,) = here.step(after_s=1.0)
    assert (again.node, writes_of(again)) == ("plugged", [])


def test_an_amount_is_counted_by_the_plugin_or_claimed() -> None:
    here = scene()
    here.hear("deviceclasses", providing(NIC, "nics"))
    with_plugin = node("plugged", gpus=0)
    with_plugin.status.allocatable[NIC] = "1"
    here.hear("nodes", with_plugin, node("n1", gpus=0))
    here.hear("resourceslices", gpus_of("n1", 2))
    here.hear("pods", *(asking(f"p{at}", {NIC: "1"}) for at in range(4)))
    binds = here.step()
    assert sorted(bind.node for bind in binds) == ["n1", "n1", "plugged"]
    assert all(here.backend.check(bind) == "" for bind in binds)
    assert all("weir.dev/gpus" not in bind.annotations for bind in binds)


def test_a_claim_of_gpus_and_a_number_of_them_are_counted_together() -> None:
    here = scene(gpus_of("n1", 4))
    here.hear("resourceclaims", claim("mine", 2))
    made = asking("p", {RESOURCE: "1"})
    made.spec.resource_claims = [PodResourceClaim("gpu", resource_claim_name="mine")]
    here.hear("pods", made)
    (bind,) = here.step()
    assert len(bind.annotations["weir.dev/gpus"].split(",")) == 3
    assert len(set(devices_of(bind))) == 3


def test_a_weir_that_was_killed_after_making_the_claim_uses_it() -> None:
    here = scene(gpus_of("n1"))
    made = asking("p", {RESOURCE: "1"})
    here.hear("pods", deepcopy(made))
    (bind,) = here.step()
    later = scene(gpus_of("n1"))
    later.hear("resourceclaims", made_by(bind, holds=False))
    later.hear("pods", deepcopy(made))
    (again,) = later.step()
    assert special_of(again).uid == "c-p"
    assert special_of(again).path == special_of(bind).path


def test_a_weir_that_was_killed_after_allocating_binds_to_the_same_devices() -> None:
    here = scene(gpus_of("n1"), gpus_of("n2"))
    made = asking("p", {RESOURCE: "1"})
    here.hear("pods", deepcopy(made))
    (bind,) = here.step()
    later = scene(gpus_of("n1"), gpus_of("n2"))
    later.hear("resourceclaims", made_by(bind))
    later.hear("pods", deepcopy(made), asking("q", {RESOURCE: "4"}))
    binds = {each.name: each for each in later.step()}
    assert binds["p"].node == bind.node
    assert special_of(binds["p"]).allocation is None
    assert special_of(binds["p"]).special is not None, "the pod's status has yet to name the claim"
    assert binds["q"].node != bind.node


def test_devices_that_no_start_uses_are_released() -> None:
    here = scene(gpus_of("n1", 1))
    made = asking("p", {RESOURCE: "1"})
    here.hear("pods", deepcopy(made))
    (bind,) = here.step()
    later = scene(gpus_of("n2", 1))
    later.hear("resourceclaims", made_by(bind))
    later.hear("pods", deepcopy(made))
    assert later.step() == []
    later.step(after_s=IDLE_S + 1)
    (release,) = [each for each in later.writes if isinstance(each, PatchObject)]
    assert release.patch["status"] == {"allocation": None, "reservedFor": None}
    later.hear("resourceclaims", made_by(bind, holds=False))
    (again,) = later.step()
    assert again.node == "n2"


def test_a_refused_start_keeps_its_devices_until_their_write_would_show() -> None:
    here = scene(gpus_of("n1", 1))
    here.hear("pods", asking("p", {RESOURCE: "1"}))
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteRefused(500, "fault"))
    here.gone("p")
    here.hear("pods", asking("q", {RESOURCE: "1"}))
    assert here.step(after_s=1.0) == []
    (second,) = here.step(after_s=CLAIM_DOUBT_S + 1)
    assert (second.name, devices_of(second)) == ("q", ["gpu-0"])


def test_devices_stay_taken_while_the_claim_is_deleted_and_made_again() -> None:
    here = scene(gpus_of("n1", 2))
    here.hear("pods", asking("p", {RESOURCE: "1"}))
    (bind,) = here.step()
    path = special_of(bind).path.rpartition("/")[2]
    old = made_by(bind, holds=False)
    old.metadata.uid = "before"
    here.hear("resourceclaims", old)
    here.backend.deliver("resourceclaims")([ObjectRemoved(f"team/{path}", "before")])
    here.hear("resourceclaims", made_by(bind, holds=False))
    here.backend.take_outcome(bind, WriteDone())
    here.hear("pods", asking("q", {RESOURCE: "1"}))
    (second,) = here.step()
    assert devices_of(second) != devices_of(bind)


def test_a_restarted_weir_counts_the_pods_that_run() -> None:
    here = scene(gpus_of("n1", 2), plugged=2)
    pods = [asking(f"p{at}", {IMPLICIT if at == 0 else RESOURCE: "1"}) for at in range(3)]
    here.hear("pods", *deepcopy(pods))
    binds = {bind.name: bind for bind in here.step()}
    later = scene(gpus_of("n1", 2), plugged=2)
    later.hear("resourceclaims", *(made_by(each) for each in binds.values() if writes_of(each)))
    later.hear("pods", *(bound(each, binds[each.metadata.name]) for each in pods))
    later.hear("pods", *(asking(f"q{at}", {RESOURCE: "1"}) for at in range(2)))
    (left,) = later.step()
    here_used = {name: sum(bind.node == name for bind in binds.values()) for name in ("n1", "plugged")}
    assert here_used[left.node] == 1
    for name in ("n1", "plugged"):
        assert gpus_used(later, name) == 2


def test_a_pod_that_ends_gives_its_devices_back() -> None:
    here = scene(gpus_of("n1", 1))
    made = asking("p", {RESOURCE: "1"})
    here.hear("pods", deepcopy(made))
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    here.hear("resourceclaims", made_by(bind))
    here.hear("pods", bound(made, bind), asking("q", {RESOURCE: "1"}))
    assert here.step() == []
    here.gone("p")
    assert here.step() == [], "its claim still holds the device"
    name = special_of(bind).path.rpartition("/")[2]
    here.backend.deliver("resourceclaims")([ObjectRemoved(f"team/{name}", "c-p")])
    (second,) = here.step()
    assert second.name == "q"


def test_a_claim_of_the_name_that_is_another_pods_is_left_alone() -> None:
    here = scene(gpus_of("n1"))
    made = asking("p", {RESOURCE: "1"})
    theirs = claim(special_name(made), owner="somebody")
    here.hear("resourceclaims", theirs)
    here.hear("pods", made)
    assert here.step() == []
    assert "was made for another pod" in why(here)


def test_a_class_counts_as_the_resource_of_devices_that_it_provides() -> None:
    """A class of a name of its own is a GPU's, because it provides the resource of GPUs."""
    here = Scene()
    here.hear("deviceclasses", providing(name="ours"))
    here.hear("nodes", node("n1", gpus=0))
    here.hear("resourceslices", gpus_of("n1", 2))
    here.hear("projects", project("team", gpus=2))
    here.hear("owners", job("train", "j1", 1))
    here.hear("pods", asking("p", {RESOURCE: "1"}))
    (bind,) = here.step()
    assert bind.annotations["weir.dev/gpus"] == "0"
    found = here.backend.cluster_state.node_states.node("n1")
    assert found is not None
    assert (found.gpus, found.gpu_weight_milli) == (2, WHOLE_MILLI)


def test_a_pod_whose_class_is_gone_waits() -> None:
    here = scene(gpus_of("n1"))
    here.hear("pods", asking("p", {IMPLICIT: "1"}))
    here.backend.deliver("deviceclasses")([ObjectRemoved(GPU, "")])
    assert here.step() == []
    assert f"{IMPLICIT}, which no node has" in why(here)


def test_a_weir_that_starts_while_the_driver_is_away_finds_the_same_devices() -> None:
    here = scene(gpus_of("n1", 2))
    pods = [asking(f"p{at}", {RESOURCE: "1"}) for at in range(2)]
    here.hear("pods", *deepcopy(pods))
    binds = {bind.name: bind for bind in here.step()}
    later = scene()
    later.hear("nodes", node("n1", gpus=0))
    later.hear("resourceclaims", *(made_by(each) for each in binds.values()))
    for made in reversed(pods):
        later.hear("pods", bound(made, binds[made.metadata.name]))
        later.step()
    later.hear("resourceslices", gpus_of("n1", 2))
    later.step()
    by_key = later.backend.cluster_state.pods.by_key
    held = {name: ",".join(map(str, by_key[f"team/{name}"].devices)) for name in binds}
    assert held == {name: bind.annotations["weir.dev/gpus"] for name, bind in binds.items()}
