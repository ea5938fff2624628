"""Resources that stand for device classes: which of them are GPUs, without settings and with them."""

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.state.claims.test_extended_claims import asking
from tests.unit.kubernetes.state.claims.test_resource_claims import device_class
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.admission.class_resources import ClassResources
from weir.kubernetes.admission.webhook_configuration import is_gpu
from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.resource_objects import DeviceClass
from weir.kubernetes.state.nodes.usage import foreign_usage
from weir.kubernetes.translate.device_resources import CLASS_PREFIX, DeviceResources


def named(name: str, resource: str = "") -> DeviceClass:
    made = msgspec.to_builtins(device_class(name))
    if resource:
        made["spec"]["extendedResourceName"] = resource
    return msgspec.convert(made, DeviceClass)


def known(devices: DeviceResources, *classes: DeviceClass) -> ClassResources:
    found = ClassResources(devices)
    found.deliver([ObjectSet(each.metadata.name, each) for each in classes])
    return found


LISTED = DeviceResources(("nvidia.com/gpu", f"{CLASS_PREFIX}big.example.com"))


@pytest.mark.parametrize(
    ("devices", "of_class", "is_device"),
    [
        (DeviceResources(), named("gpu.nvidia.com"), True),
        (DeviceResources(), named("mig.nvidia.com"), True),
        (DeviceResources(), named("nic.example.com"), False),
        (DeviceResources(), named("nic.example.com", "example.com/nic"), False),
        (DeviceResources(), named("a100.example.com", "nvidia.com/gpu"), True),
        (LISTED, named("big.example.com"), True),
        (LISTED, named("gpu.nvidia.com"), False),
        (LISTED, named("gpu.nvidia.com", "nvidia.com/gpu"), True),
    ],
)
def test_the_resource_of_a_class_is_one_of_devices_if_the_class_counts(
    devices: DeviceResources, of_class: DeviceClass, is_device: bool
) -> None:
    found = known(devices, of_class)
    name = of_class.metadata.name
    assert found.is_device(f"{CLASS_PREFIX}{name}") is is_device
    assert found.is_gpu_class(name) is is_device
    assert not found.is_device(name)


def test_the_extended_resource_of_a_counted_class_is_one_of_devices_while_the_class_is_there() -> None:
    found = known(DeviceResources(), named("gpu.nvidia.com", "example.com/gpu"), named("x", "nvidia.com/gpu"))
    assert found.is_device("example.com/gpu")
    assert found.is_gpu_class("x")
    found.deliver([ObjectRemoved("gpu.nvidia.com", ""), ObjectRemoved("x", "")])
    assert not found.is_device("example.com/gpu")
    assert not found.is_gpu_class("x")
    assert found.is_gpu_class("gpu.nvidia.com")


def test_policies_know_the_usual_classes_or_the_listed_ones() -> None:
    usual, listed = is_gpu(("nvidia.com/gpu",)), is_gpu(LISTED.resources)
    assert f"r == '{CLASS_PREFIX}gpu.nvidia.com'" in usual
    assert listed == f"r == 'nvidia.com/gpu' || r == '{CLASS_PREFIX}big.example.com'"


@pytest.mark.parametrize(
    ("of_class", "count"), [("gpu.nvidia.com", 2), ("a100.example.com", 2), ("nic.example.com", 0)]
)
def test_devices_of_classes_that_others_placed_count_as_theirs(of_class: str, count: int) -> None:
    here = Scene()
    here.hear("deviceclasses", named("a100.example.com", "nvidia.com/gpu"), named("nic.example.com"))
    here.step()
    pod: Any = asking("p", {f"{CLASS_PREFIX}{of_class}": "2"})
    devices = here.backend.cluster_state.resolver.devices
    assert foreign_usage(pod, devices, (), {}, lambda each: each).devices == count
