"""The allocator of claims: no device is given twice, every rule of a claim holds, and a choice is found if one exists.

WEIR_EFFORT=100 tries 100,000 cases.
"""

import os
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from random import Random

import msgspec
import pytest
from tests.unit.kubernetes.random_claims import CLASSES, ClaimCase, ReadCase, random_case, read_case

from weir.kubernetes.api.resource_objects import AllocatedDevice, DeviceClass, ResourceClaim, ResourceSlice
from weir.kubernetes.claims.allocator import ChosenDevice, ClaimRefusal, allocate
from weir.kubernetes.claims.capacity import consumed_amounts
from weir.kubernetes.claims.cel_evaluator import selector
from weir.kubernetes.claims.cel_values import CelError
from weir.kubernetes.claims.claim_requests import ClaimError, ExactDevices, parse_claim
from weir.kubernetes.claims.device_usage import ClaimedDeviceUsage
from weir.kubernetes.claims.devices import PoolDevice
from weir.kubernetes.claims.pools import SliceIndex, parse_slice
from weir.kubernetes.claims.selector_results import SelectorResults
from weir.model.nodes import Node

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
CASES, EXHAUSTIVE = 1000 * EFFORT, 150 * EFFORT
COMBINATIONS_MOST = 3000
RESULTS = SelectorResults()


def violation(case: ReadCase, chosen: list[ChosenDevice]) -> str:
    """Return the first rule that a choice breaks; counted from scratch."""
    held: Counter[tuple[str, str, str]] = Counter()
    for each in chosen:
        key = each.device.key
        if each.devices.admin:
            continue
        if not each.device.shareable:
            held[key] += 1
            if key in case.usage.exclusive or held[key] > 1:
                return f"{key} is given twice"
        if not each.devices.tolerates(each.device):
            return f"{key} has a taint"
        if not RESULTS.matches(each.devices, each.device):
            return f"{key} doesn't match"
    return (
        _over_capacity(case, chosen)
        or _over_counters(case, chosen)
        or _wrong_counts(case, chosen)
        or _unlike(case, chosen)
    )


def _over_capacity(case: ReadCase, chosen: list[ChosenDevice]) -> str:
    sums: dict[tuple[str, str, str], Counter[str]] = {}
    devices = {each.device.key: each.device for each in chosen}
    for key, device in devices.items():
        sums[key] = Counter(case.usage.shared.get(key, {}))
        for each in chosen:
            if each.device.key == key:
                taken = consumed_amounts(device, each.devices.capacity)
                if taken is None:
                    return f"{key} has not the capacity"
                if device.shareable:
                    sums[key].update(taken)
                elif any(amount > device.capacity[name].value for name, amount in taken.items()):
                    return f"{key} is too small"
        if any(amount > device.capacity[name].value for name, amount in sums[key].items()):
            return f"{key} is over its capacity"
    return ""


def _over_counters(case: ReadCase, chosen: list[ChosenDevice]) -> str:
    for pool in case.pools:
        used = {device.key: device for device in pool.all_devices if case.usage.uses(device.key)}
        fresh = {each.device.key: each.device for each in chosen if each.device.key[:2] == pool.key}
        both = {**used, **fresh}
        totals: Counter[tuple[str, str]] = Counter()
        for device in both.values():
            for name, consumed in device.counters:
                totals.update({(name, counter): amount for counter, amount in consumed})
        new = any(key not in used and device.counters for key, device in fresh.items())
        if new and any(amount > (pool.counters or {})[key] for key, amount in totals.items()):
            return f"{pool.key} is over its counters"
    return ""


def _wrong_counts(case: ReadCase, chosen: list[ChosenDevice]) -> str:
    for at, claim in enumerate(case.claims):
        mine = [each for each in chosen if each.claim == at]
        if len(mine) > 32:
            return "too many devices"
        for alternatives in claim.requests:
            given = [each for each in mine if each.devices.request == alternatives[0].request]
            if len({id(each.devices) for each in given}) != 1:
                return f"{alternatives[0].request} has devices of several alternatives"
            if given[0].devices.count not in (None, len(given)):
                return f"{alternatives[0].request} has {len(given)} devices"
    return ""


def _unlike(case: ReadCase, chosen: list[ChosenDevice]) -> str:
    for at, claim in enumerate(case.claims):
        for constraint in claim.claim.spec.devices.constraints:
            values = []
            for each in chosen:
                names = {each.devices.request, each.devices.name}
                if each.claim == at and (not constraint.requests or names & set(constraint.requests)):
                    values.append(
                        each.device.attribute(
                            constraint.match_attribute or constraint.distinct_attribute or ""
                        )
                    )
            if None in values:
                return "an attribute is missing"
            if constraint.match_attribute and len(set(values)) > 1:
                return "an attribute differs"
            if constraint.distinct_attribute and len(set(values)) < len(values):
                return "an attribute is the same"
    return ""


def test_an_allocation_breaks_no_rule() -> None:
    chance = Random(f"claims/{EFFORT}")
    found = 0
    for number in range(CASES):
        case = read_case(random_case(chance))
        chosen = allocate(case.claims, case.pools, case.usage, RESULTS)
        if isinstance(chosen, ClaimRefusal):
            assert chosen.sentence
            continue
        found += 1
        assert violation(case, chosen) == "", number
    assert CASES // 5 < found < CASES


def test_what_is_refused_has_no_allocation() -> None:
    chance = Random(f"refusals/{EFFORT}")
    tried = 0
    while tried < EXHAUSTIVE:
        case = read_case(random_case(chance))
        exhaustive = _exists(case)
        if exhaustive is None:
            continue
        tried += 1
        chosen = allocate(case.claims, case.pools, case.usage, RESULTS)
        assert exhaustive == (not isinstance(chosen, ClaimRefusal)), (tried, chosen)


def _exists(case: ReadCase) -> bool | None:
    """Try every choice of devices; None if there are too many."""
    if any(pool.problem for pool in case.pools) or any(each.admin for each in _all(case)):
        return None
    devices = [device for pool in case.pools for device in pool.devices]
    options: list[list[tuple[ChosenDevice, ...]]] = []
    size = 1
    for at, claim in enumerate(case.claims):
        for alternatives in claim.requests:
            found: list[tuple[ChosenDevice, ...]] = []
            for wanted in alternatives:
                matching = [device for device in devices if _suits(case, wanted, device)]
                count = wanted.count or len(matching)
                if count:
                    found += [
                        tuple(ChosenDevice(at, wanted, device, {}) for device in each)
                        for each in combinations(matching, count)
                    ]
            options.append(found)
            size *= len(found)
            if size > COMBINATIONS_MOST:
                return None
    return any(
        violation(case, [each for part in parts for each in part]) == "" for parts in product(*options)
    )


def _all(case: ReadCase) -> list[ExactDevices]:
    return [each for claim in case.claims for alternatives in claim.requests for each in alternatives]


def _suits(case: ReadCase, wanted: ExactDevices, device: PoolDevice) -> bool:
    """Return True if a device is one of those that a request for all of them must have."""
    consumed = consumed_amounts(device, wanted.capacity)
    held = case.usage.shared.get(device.key, {})
    return (
        RESULTS.matches(wanted, device)
        and consumed is not None
        and all(
            amount + held.get(name, Fraction()) <= device.capacity[name].value
            for name, amount in consumed.items()
        )
    )


def case_of(requests: list[dict[str, object]], devices: list[dict[str, object]], **rest: object) -> ReadCase:
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests, **rest}}}
    return read_case(ClaimCase("n", [{"metadata": {"name": "s"}, "spec": spec}], [claim]))  # type: ignore[list-item]


def devices_of(case: ReadCase) -> list[str] | str:
    chosen = allocate(case.claims, case.pools, case.usage, SelectorResults())
    return chosen.sentence if isinstance(chosen, ClaimRefusal) else [each.device.key[2] for each in chosen]


def test_the_first_available_alternative_is_taken() -> None:
    big = {"name": "big", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": SIZE_OVER_9}}]}
    two = {"name": "two", "deviceClassName": "gpu", "count": 2}
    requests = [{"name": "r", "firstAvailable": [big, two]}]
    small = [{"name": f"d{at}", "attributes": {"size": {"int": 1}}} for at in range(3)]
    assert devices_of(case_of(requests, small)) == ["d0", "d1"]
    assert devices_of(case_of(requests, [*small, {"name": "d9", "attributes": {"size": {"int": 10}}}])) == [
        "d9"
    ]


SIZE_OVER_9 = 'device.attributes["gpu.example.com"].size > 9'


def test_a_refusal_names_the_claim_the_selector_and_the_shortage() -> None:
    wanted = {"deviceClassName": "gpu", "count": 2, "selectors": [{"cel": {"expression": SIZE_OVER_9}}]}
    devices = [{"name": f"d{at}", "attributes": {"size": {"int": 10 * at}}} for at in range(2)]
    case = case_of([{"name": "r", "exactly": wanted}], devices)
    refusal = allocate(case.claims, case.pools, case.usage, SelectorResults())
    assert refusal == ClaimRefusal(
        "c", "r", f"2 of class gpu, selector {SIZE_OVER_9} needed, 1 free of 1 that match"
    )


def test_alike_devices_are_tried_once() -> None:
    """32 alike devices of which no two may be together would take longer than any bound otherwise."""
    devices = [{"name": f"d{at}", "attributes": {"numa": {"int": 0}}} for at in range(100)]
    requests = [{"name": f"r{at}", "exactly": {"deviceClassName": "gpu"}} for at in range(20)]
    constraint = [{"distinctAttribute": "gpu.example.com/numa"}]
    sentence = devices_of(case_of(requests, devices, constraints=constraint))
    assert sentence == "enough devices are free, but no choice of them satisfies the constraints and counters"


def test_a_search_is_bounded() -> None:
    chance = Random(7)
    devices = [
        {"name": f"d{at}", "attributes": {f"k{key}": {"int": chance.randrange(50)} for key in range(4)}}
        for at in range(100)
    ]
    requests = [{"name": f"r{at}", "exactly": {"deviceClassName": "gpu"}} for at in range(30)]
    constraints = [{"distinctAttribute": f"gpu.example.com/k{key}"} for key in range(4)]
    assert "no choice of devices found in" in str(
        devices_of(case_of(requests, devices, constraints=constraints))
    )


def test_a_failing_selector_refuses_the_node() -> None:
    wanted = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": SIZE_OVER_9}}]}
    case = case_of([{"name": "r", "exactly": wanted}], [{"name": "d0"}])
    assert "a selector fails for the device gpu.example.com/p/d0: no such key: size" in str(devices_of(case))


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"name": "r", "exactly": {"deviceClassName": "no"}}, "the device class no, which doesn't exist"),
        ({"name": "r"}, "of a kind that is not supported"),
        (
            {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "Some"}},
            "Some, which is not",
        ),
        (
            {"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": [{}]}},
            "a kind that is not supported",
        ),
        (
            {
                "name": "r",
                "exactly": {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "ip('::')"}}]},
            },
            "the function ip is not supported",
        ),
    ],
)
def test_an_unusable_claim_says_why(spec: dict[str, object], sentence: str) -> None:
    claim = msgspec.convert(
        {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [spec]}}}, ResourceClaim
    )
    known = {name: msgspec.convert({"metadata": {"name": name}}, DeviceClass) for name in CLASSES}
    with pytest.raises(ClaimError, match=sentence.replace("(", r"\(")):
        parse_claim(claim, known)


def _slice(name: str, generation: int, count: int, node: str = "n", **rest: object) -> ResourceSlice:
    spec = {
        "driver": "gpu.example.com",
        "nodeName": node,
        "pool": {"name": "p", "generation": generation, "resourceSliceCount": count},
        "devices": [{"name": f"{name}-0"}],
        **rest,
    }
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def test_pools_are_complete_and_of_one_generation() -> None:
    index = SliceIndex()
    node = Node("n", 0, 0, {})
    assert index.see("a", parse_slice(_slice("a", 1, 2))) == {"n"}
    assert index.pools(node)[0].problem == "is being updated"
    index.see("b", parse_slice(_slice("b", 1, 2)))
    assert [device.key[2] for device in index.pools(node)[0].devices] == ["a-0", "b-0"]
    index.see("c", parse_slice(_slice("c", 2, 1)))
    assert [device.key[2] for device in index.pools(node)[0].devices] == ["c-0"]
    index.see("b", parse_slice(_slice("b", 3, 1, "m")))
    assert index.pools(Node("n", 0, 0, {})) != []  # the newest that the node reaches is complete
    for name in "abc":
        index.see(name, None)
    assert index.pools(node) == []
    assert len(index) == 0


def test_an_unreadable_share_takes_its_whole_device() -> None:
    usage = ClaimedDeviceUsage()
    assert not usage.uses(("d", "p", "x"))
    usage.add(AllocatedDevice("r", "d", "p", "x", share_id="1", consumed_capacity={"memory": "much"}))
    assert usage.exclusive == {("d", "p", "x")}


def test_an_unreadable_version_is_an_error() -> None:
    with pytest.raises(CelError):
        parse_slice(
            msgspec.convert(
                {
                    "metadata": {"name": "s"},
                    "spec": {
                        "driver": "d",
                        "pool": {"name": "p"},
                        "devices": [{"name": "x", "attributes": {"v": {"version": "one"}}}],
                    },
                },
                ResourceSlice,
            )
        )


def test_a_costly_selector_is_refused_once_all_devices_together_have_taken_too_many_steps() -> None:
    costly = (
        "[1,1,1,1,1,1,1,1,1,1].all(a, [1,1,1,1,1,1,1,1,1,1].all(b, [1,1,1,1,1,1,1,1,1,1].all(c, a == b)))"
    )
    case = read_case(random_case(Random(1)))
    results, others = SelectorResults(), SelectorResults()
    template = next(device for pool in case.pools for device in pool.devices)
    request = case.claims[0].requests[0][0]
    wanted = replace(request, selectors=(selector(costly),))
    cheap = replace(request, selectors=(selector("1 + 1 == 2"),))
    refused = [number for number in range(1000) if not _has_result(results, wanted, template, number)]
    assert refused == list(range(refused[0], 1000))
    assert refused[0] > 10
    with pytest.raises(CelError, match="for all devices"):
        results.matches(wanted, replace(template, content="device 999"))
    assert results.matches(wanted, replace(template, content="device 0")), "what was found stays"
    assert all(results.matches(cheap, replace(template, content=f"device {n}")) for n in range(5000))
    assert others.matches(wanted, replace(template, content="device 9999"))


def _has_result(results: SelectorResults, devices: ExactDevices, device: PoolDevice, number: int) -> bool:
    try:
        return results.matches(devices, replace(device, content=f"device {number}"))
    except CelError:
        return False
