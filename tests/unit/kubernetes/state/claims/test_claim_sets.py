"""Copies of sets of claims: bounded on a node and over all nodes, and amounts that no claim may ask for."""

from typing import Any

import msgspec
import pytest

from weir.kubernetes.api.resource_objects import AllocatedDevice, DeviceClass, ResourceClaim, ResourceSlice
from weir.kubernetes.claims.allocator import STEPS_MAX
from weir.kubernetes.claims.claim_requests import ClaimError, ClaimRequests, parse_claim
from weir.kubernetes.claims.device_usage import ClaimedDeviceUsage
from weir.kubernetes.claims.selector_results import SelectorResults
from weir.kubernetes.state.claims.inventory import ClaimInventory
from weir.kubernetes.state.claims.sets import FURTHER_STEPS_MAX, USUAL_STEPS, ClaimSets
from weir.model.nodes import Node

DRIVER = "gpu.example.com"
CLASSES = {DRIVER: msgspec.convert({"metadata": {"name": DRIVER}}, DeviceClass)}


def slice_of(node: str, devices: int = 16) -> ResourceSlice:
    """Return the slice of a node whose devices all differ."""
    listed = [
        {"name": f"d{at}", "attributes": {"uuid": {"string": f"{node}-{at}"}, "group": {"int": at // 4}}}
        for at in range(devices)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": listed}
    return msgspec.convert({"metadata": {"name": node}, "spec": spec}, ResourceSlice)


def claim(*counts: int, constraints: Any = (), **more: Any) -> ClaimRequests:
    requests = [
        {"name": f"r{at}", "exactly": {"deviceClassName": DRIVER, "count": count, **more}}
        for at, count in enumerate(counts)
    ]
    spec = {"devices": {"requests": requests, "constraints": list(constraints)}}
    metadata = {"name": "c", "namespace": "team", "uid": "u"}
    return parse_claim(msgspec.convert({"metadata": metadata, "spec": spec}, ResourceClaim), CLASSES)


def hard() -> ClaimRequests:
    """Return a claim that no choice satisfies, as a search learns only after every choice for its first part."""
    return claim(6, 2, constraints=[{"requests": ["r1"], "matchAttribute": f"{DRIVER}/uuid"}])


def sets_of(nodes: int) -> tuple[ClaimSets, ClaimInventory, list[Node]]:
    inventory = ClaimInventory()
    inventory.see_class(DRIVER, CLASSES[DRIVER])
    names = [f"n{at}" for at in range(nodes)]
    for name in names:
        inventory.see_slice(name, slice_of(name))
    made = ClaimSets(inventory, SelectorResults(), lambda _node, _extended: ())
    return made, inventory, [Node(name, 0, 0, {}) for name in names]


def test_a_set_that_is_too_hard_ends_being_searched_and_others_fit_as_before() -> None:
    sets, _, nodes = sets_of(30)
    hard_resource = sets.join("p", [("gpus", hard())])
    easy_resource = sets.join("q", [("gpus", claim(2, constraints=[{"matchAttribute": f"{DRIVER}/uuid"}]))])
    fair_resource = sets.join("r", [("gpus", claim(2, constraints=[{"matchAttribute": f"{DRIVER}/group"}]))])
    counted = [sets.copies(node) for node in nodes]
    assert {each[hard_resource] for each in counted} == {each[easy_resource] for each in counted} == {0}
    assert {each[fair_resource] for each in counted} == {8}
    steps = sets.further_steps[hard_resource]
    assert FURTHER_STEPS_MAX < steps <= FURTHER_STEPS_MAX + STEPS_MAX + 1 - USUAL_STEPS
    assert sets.further_steps[fair_resource] == 0


def test_a_new_set_is_counted_and_a_changed_node_counts_all_again() -> None:
    sets, inventory, (node, other) = sets_of(2)
    one = sets.join("p", [("gpus", claim(1))])
    assert sets.copies(node) == {one: 16}
    four = sets.join("q", [("gpus", claim(4))])
    assert sets.copies(node) == sets.copies(other) == {one: 16, four: 4}
    inventory.assume(("team", "c"), [AllocatedDevice("r", DRIVER, "n0", "d0")])
    sets.count_again(["n0"])
    assert sets.copies(node) == {one: 15, four: 3}
    assert sets.copies(other) == {one: 16, four: 4}
    sets.leave("p")
    assert sets.copies(node) == {four: 3}
    sets.count_again(None)
    assert sets.copies(node) == {four: 3}


@pytest.mark.parametrize("amount", ["-1", "-5Gi", "-1m"])
def test_a_negative_amount_is_refused(amount: str) -> None:
    with pytest.raises(ClaimError, match="negative amount of memory"):
        claim(1, capacity={"requests": {"memory": amount}})


def test_an_amount_beyond_floats_is_described() -> None:
    (request,) = claim(1, capacity={"requests": {"memory": "1e400"}}).requests[0]
    assert "memory of at least an amount of over" in request.describe()


def test_a_negative_share_in_use_leaves_nothing_of_its_device() -> None:
    held = AllocatedDevice("r", DRIVER, "n", "d0", share_id="s", consumed_capacity={"memory": "-40Gi"})
    usage = ClaimedDeviceUsage.of([held])
    assert usage.exclusive == {(DRIVER, "n", "d0")}
    assert not usage.shared


def test_devices_of_a_claim_are_held_where_they_were_allocated_last() -> None:
    _, inventory, (first, second) = sets_of(2)
    key = ("team", "c")
    inventory.assume(
        key, (AllocatedDevice("r", DRIVER, "n0", "d0"), AllocatedDevice("r", DRIVER, "n1", "d1"))
    )
    held = [inventory.usage(inventory.pools(node)).exclusive for node in (first, second)]
    assert held == [{(DRIVER, "n0", "d0")}, {(DRIVER, "n1", "d1")}]
    inventory.assume(key, (AllocatedDevice("r", DRIVER, "n1", "d2"),))
    held = [inventory.usage(inventory.pools(node)).exclusive for node in (first, second)]
    assert held == [set(), {(DRIVER, "n1", "d2")}]
    inventory.refused(key, inventory.assumed[key])
    assert not any(inventory.usage(inventory.pools(node)).exclusive for node in (first, second))
