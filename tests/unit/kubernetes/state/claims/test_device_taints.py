"""Taints of devices, by their slices and by rules: who may have a tainted device, and what people read."""

from itertools import permutations
from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.state.claims.test_resource_claims import (
    GPU,
    claim,
    claiming,
    device_class,
    devices_of,
    gpus_of,
    scene,
    why,
)
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.resource_objects import DeviceTaintRule
from weir.kubernetes.writes.operations import WriteDone

SICK = "example.com/sick"


def rule(
    name: str = "sick", effect: str = "NoSchedule", value: str = "yes", **chosen: Any
) -> DeviceTaintRule:
    """Return a rule that taints the chosen devices; without a choice, a rule without a selector."""
    taint = {"key": SICK, "value": value, "effect": effect}
    spec = {"taint": taint, **({"deviceSelector": chosen} if chosen else {})}
    return msgspec.convert({"metadata": {"name": name, "uid": name}, "spec": spec}, DeviceTaintRule)


def drop_rule(here: Scene, name: str = "sick") -> None:
    here.backend.deliver("devicetaintrules")([ObjectRemoved(name, name)])


def given(here: Scene) -> list[str]:
    """Return the devices of the pods that start now."""
    return [device for bind in here.step() for device in devices_of(bind)]


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
@pytest.mark.parametrize(
    "chosen",
    [
        {"driver": GPU, "pool": "n1", "device": "gpu-0"},
        {"device": "gpu-0"},
        {"pool": "n1", "device": "gpu-0"},
        {"device": "gpu-0", "deviceClassName": GPU},
        {"device": "gpu-0", "selectors": [{"cel": {"expression": f'device.driver == "{GPU}"'}}]},
        {"device": "gpu-0", "selectors": [{"cel": {"expression": "device.attributes['a'].b == 1"}}]},
    ],
)
def test_a_device_that_a_rule_taints_is_not_allocated(effect: str, chosen: dict[str, Any]) -> None:
    here = scene(gpus_of("n1"))
    here.hear("devicetaintrules", rule(effect=effect, **chosen))
    assert given(here) == ["gpu-1"]


@pytest.mark.parametrize(
    "chosen",
    [
        {"driver": "other.example.com"},
        {"pool": "n2"},
        {"device": "gpu-9"},
        {"deviceClassName": "missing.example.com"},
        {"device": "gpu-0", "selectors": [{"cel": {"expression": 'device.driver == "other"'}}]},
    ],
)
def test_a_rule_leaves_devices_alone_that_it_does_not_select(chosen: dict[str, Any]) -> None:
    here = scene(gpus_of("n1"))
    here.hear("devicetaintrules", rule(**chosen))
    assert given(here) == ["gpu-0"]


def test_a_taint_without_effect_keeps_no_device() -> None:
    here = scene(gpus_of("n1"))
    here.hear("devicetaintrules", rule(effect="None", device="gpu-0"))
    assert given(here) == ["gpu-0"]


@pytest.mark.parametrize(
    ("toleration", "is_tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": SICK, "operator": "Exists"}, True),
        ({"key": SICK, "operator": "Equal", "value": "yes"}, True),
        ({"key": SICK, "value": "yes"}, True),
        ({"key": SICK, "operator": "Equal", "value": "no"}, False),
        ({"key": "example.com/other", "operator": "Exists"}, False),
        ({"key": SICK, "operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": SICK, "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": SICK, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}, True),
        ({"key": SICK, "operator": "Exists", "tolerationSeconds": 0}, True),
        ({"key": SICK, "operator": "Sometimes"}, False),
    ],
)
def test_a_claim_has_a_tainted_device_only_if_it_tolerates_the_taint(
    toleration: dict[str, Any], is_tolerated: bool
) -> None:
    here = scene(gpus_of("n1", 1), tolerations=[toleration])
    here.hear("devicetaintrules", rule(effect="NoExecute", device="gpu-0"))
    binds = here.step()
    assert [device for bind in binds for device in devices_of(bind)] == (["gpu-0"] if is_tolerated else [])
    for bind in binds:  # the controller that evicts pods reads them there
        (result,) = bind.before[0].allocation["devices"]["results"]  # type: ignore[union-attr,index]
        assert result["tolerations"][0].get("tolerationSeconds") == toleration.get("tolerationSeconds")


def test_all_taints_of_a_device_must_be_tolerated() -> None:
    tolerated = [{"key": SICK, "value": "yes"}]
    here = scene(
        gpus_of("n1", 1, taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}]), tolerations=tolerated
    )
    here.hear("devicetaintrules", rule(device="gpu-0"))
    assert given(here) == []


def test_pods_wait_for_the_end_of_a_rule_and_the_reason_names_the_taints() -> None:
    here = scene(gpus_of("n1", 2))
    here.hear("devicetaintrules", rule(driver=GPU))
    assert given(here) == []
    sentence = (
        "no node has devices for the claim gpu (1 of class gpu.nvidia.com) "
        "(2 devices that match have taints that the claim doesn't tolerate)"
    )
    assert why(here) == sentence
    here.hear("devicetaintrules", rule(driver=GPU, device="gpu-1"))
    (bind,) = here.step(after_s=1.0)
    assert devices_of(bind) == ["gpu-0"]
    here.backend.take_outcome(bind, WriteDone())
    here.hear("resourceclaims", claim("p1-gpu", 1, "u-p1"))
    here.hear("pods", claiming("p1"))
    assert here.step(after_s=1.0) == []
    assert why(here).endswith(
        "n1 has no free devices for the claim gpu (1 of class gpu.nvidia.com) "
        "(1 device that matches has a taint that the claim doesn't tolerate)"
    )
    drop_rule(here)
    (bind,) = here.step(after_s=1.0)
    assert devices_of(bind) == ["gpu-1"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_rules_slices_and_classes_may_come_in_any_order(order: tuple[int, ...]) -> None:
    here = scene(gpus_of("n1"), pods=0)
    here.backend.deliver("resourceslices")([ObjectRemoved("n1-gpu.nvidia.com", "")])
    late = "late.example.com"
    said = (
        ("devicetaintrules", rule(device="gpu-0", deviceClassName=late)),
        ("resourceslices", gpus_of("n1")),
        ("deviceclasses", device_class(late)),
    )
    for at in order:
        here.hear(*said[at])
    here.hear("resourceclaims", claim("p0-gpu", 1, "u-p0"))
    here.hear("pods", claiming("p0"))
    assert given(here) == ["gpu-1"]


def test_nodes_that_differ_in_taints_alone_are_counted_apart() -> None:
    here = scene(gpus_of("n1", 1), gpus_of("n2", 1))
    here.hear("devicetaintrules", rule(pool="n1"))
    (bind,) = here.step()
    assert bind.node == "n2"
