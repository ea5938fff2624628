"""Extended resources of device classes: which class provides one, and the claim that stands for those of a pod."""

from typing import Any

import msgspec

from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.api.resource_objects import DeviceClass
from weir.kubernetes.claims.extended_resources import (
    ExtendedResources,
    extended_resources,
    provided,
    special_name,
)
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.requests import DEVICES_LABEL
from weir.model.nodes import Node

GPU, NIC = "nvidia.com/gpu", "example.com/nic"
CLASS_OF = {GPU: "gpus", NIC: "nics", "deviceclass.resource.kubernetes.io/gpus": "gpus"}


def device_class(name: str, resource: str = "", created: str = "2026-01-01T00:00:00Z") -> DeviceClass:
    spec = {"extendedResourceName": resource} if resource else {}
    return msgspec.convert(
        {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}, DeviceClass
    )


def pod(*containers: Any, init: Any = (), name: str = "p") -> KubePod:
    """Return a pod; a container is its name with what it requests, and its restart policy if it is a sidecar."""

    def written(each: Any) -> dict[str, Any]:
        more = {"restartPolicy": each[2]} if len(each) > 2 else {}
        return {"name": each[0], "resources": {"requests": each[1]}, **more}

    spec = {"containers": [*map(written, containers)], "initContainers": [*map(written, init)]}
    metadata = {"name": name, "namespace": "team", "uid": f"u-{name}"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, KubePod)


def of(made: KubePod) -> ExtendedResources:
    found = extended_resources(made.spec, CLASS_OF, DeviceResources())
    assert found is not None
    return found


def requests(made: KubePod, *names: str) -> dict[str, tuple[str, int]]:
    """Return the class and the number of devices of each request of a pod's claim."""
    special = of(made).special_claim(made, special_name(made), names or tuple(CLASS_OF))
    found = special.body["spec"]["devices"]["requests"]
    return {each["name"]: (each["exactly"]["deviceClassName"], each["exactly"]["count"]) for each in found}


def mappings(made: KubePod) -> list[tuple[str, str, str]]:
    """Return the container, resource and request of each mapping in a pod's status, in order."""
    special = of(made).special_claim(made, special_name(made), tuple(CLASS_OF))
    names = ("containerName", "resourceName", "requestName")
    return sorted(tuple(each[name] for name in names) for each in special.pod_status["requestMappings"])


def test_a_class_provides_its_own_name_and_the_one_it_states() -> None:
    found = provided({"gpus": device_class("gpus", GPU), "nics": device_class("nics")})
    assert found == {
        GPU: "gpus",
        "deviceclass.resource.kubernetes.io/gpus": "gpus",
        "deviceclass.resource.kubernetes.io/nics": "nics",
    }


def test_the_newest_class_of_a_name_provides_it_and_of_two_as_new_the_first_by_name() -> None:
    old, new = device_class("a", GPU, "2026-01-01T00:00:00Z"), device_class("b", GPU, "2026-02-01T00:00:00Z")
    assert provided({"a": old, "b": new})[GPU] == "b"
    assert provided({"b": device_class("b", GPU), "a": old})[GPU] == "a"


def test_no_class_provides_what_kubernetes_counts_itself() -> None:
    names = ("cpu", "hugepages-2Mi", "requests.example.com/nic", "deviceclass.resource.kubernetes.io/a")
    classes = {str(at): device_class(str(at), name) for at, name in enumerate(names)}
    own = {f"deviceclass.resource.kubernetes.io/{name}": name for name in ("a", *classes)}
    assert provided({"a": device_class("a"), **classes}) == own


def test_each_container_has_a_request_by_its_place_and_that_of_the_resource() -> None:
    made = pod(("a", {"cpu": "1", GPU: "2", NIC: "1"}), ("b", {"cpu": "1"}), ("c", {GPU: 1}))
    assert requests(made) == {
        "container-0-request-1": ("nics", 1),
        "container-0-request-2": ("gpus", 2),
        "container-2-request-0": ("gpus", 1),
    }
    assert requests(made, NIC) == {"container-0-request-1": ("nics", 1)}
    assert mappings(made) == [
        ("a", NIC, "container-0-request-1"),
        ("a", GPU, "container-0-request-2"),
        ("c", GPU, "container-2-request-0"),
    ]


def test_init_containers_use_devices_of_later_containers_and_share_what_is_beyond() -> None:
    init = [("first", {GPU: 3}), ("side", {GPU: 1}, "Always"), ("second", {GPU: 5})]
    made = pod(("main", {GPU: 2}), init=init)
    assert requests(made) == {
        "container-1-request-0": ("gpus", 1),
        "container-2-request-0": ("gpus", 3),
        "container-3-request-0": ("gpus", 2),
    }
    assert mappings(made) == [
        ("first", GPU, "container-1-request-0"),
        ("first", GPU, "container-3-request-0"),
        ("main", GPU, "container-3-request-0"),
        ("second", GPU, "container-2-request-0"),
        ("second", GPU, "container-3-request-0"),
        ("side", GPU, "container-1-request-0"),
    ]


def test_an_init_container_alone_has_its_devices() -> None:
    assert requests(pod(("main", {}), init=[("first", {GPU: 2})])) == {"container-0-request-0": ("gpus", 2)}


def test_a_resource_is_claimed_where_no_device_plugin_has_it() -> None:
    found = of(pod(("a", {GPU: 1, NIC: 1})))
    plugged = Node("n", 4, 0, {NIC: 2}, labels={DEVICES_LABEL: GPU})
    assert found.claimed_on(plugged) == ()
    assert found.claimed_on(Node("n", 4, 0, {NIC: 0}, labels={DEVICES_LABEL: GPU})) == (NIC,)
    assert found.claimed_on(Node("n", 0, 0, {NIC: 2})) == (GPU,)
    assert found.claimed_on(Node("n", 0, 0, {})) == (NIC, GPU)


def test_a_pod_without_such_resources_or_with_none_of_them_has_no_claim() -> None:
    for counts in ({"cpu": "1"}, {GPU: "0"}, {GPU: "half"}, {"example.com/other": "1"}):
        assert extended_resources(pod(("a", counts)).spec, CLASS_OF, DeviceResources()) is None


def test_the_claim_is_the_pods_and_its_name_is_valid_and_the_same_each_time() -> None:
    made = pod(("a", {GPU: 1}), name="x" * 199 + "." + "y" * 53)
    name = special_name(made)
    special = of(made).special_claim(made, name, [GPU])
    assert len(name) < 253
    assert ".-" not in name
    assert name == special_name(made) == special.body["metadata"]["name"]
    assert special.body["metadata"]["annotations"] == {
        "resource.kubernetes.io/extended-resource-claim": "true"
    }
    (owner,) = special.body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", made.metadata.uid, True)
    another = pod(("a", {GPU: 1}), name="p")
    another.metadata.uid = "made again"
    assert special_name(another) != special_name(pod(("a", {GPU: 1}), name="p"))
