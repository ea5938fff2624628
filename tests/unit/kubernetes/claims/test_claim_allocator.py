"""The allocator of claims, case by case."""

from dataclasses import replace
from random import Random

import msgspec
import pytest
from tests.unit.kubernetes.claims.random_claims import CLASSES, ClaimCase, ReadCase, random_case, read_case

from weir.kubernetes.api.resource_objects import AllocatedDevice, DeviceClass, ResourceClaim, ResourceSlice
from weir.kubernetes.claims.allocator import ClaimRefusal, allocate
from weir.kubernetes.claims.cel.evaluator import selector
from weir.kubernetes.claims.cel.values import CelError
from weir.kubernetes.claims.claim_requests import ClaimError, ExactDevices, parse_claim
from weir.kubernetes.claims.device_usage import ClaimedDeviceUsage
from weir.kubernetes.claims.devices import PoolDevice
from weir.kubernetes.claims.placement import choose_devices
from weir.kubernetes.claims.pools import SliceIndex, parse_slice
from weir.kubernetes.claims.selector_results import SelectorResults
from weir.model.nodes import Node


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
    chosen = choose_devices(case.claims, case.pools, case.usage, SelectorResults())
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


def on_roots(count: int, *, big: int = 0) -> list[dict[str, object]]:
    """Return devices, the same number on each of two PCIe roots; the last `big` of each root are large."""
    return [
        {
            "name": f"root{root}-{at}",
            "attributes": {
                "size": {"int": 10 if at >= count - big else 1},
                "resource.kubernetes.io/pcieRoot": {"string": f"root{root}"},
            },
        }
        for root in range(2)
        for at in range(count)
    ]


def test_devices_of_one_root_are_taken_together() -> None:
    wanted = {"deviceClassName": "gpu", "count": 2, "selectors": [{"cel": {"expression": SIZE_OVER_9}}]}
    devices = [each for each in on_roots(4, big=2) if each["name"] != "root0-3"]
    assert devices_of(case_of([{"name": "r", "exactly": wanted}], devices)) == ["root1-2", "root1-3"]


NUMA, CLIQUE, NVLINK, ROOT = ("numaNode", "cliqueID", "nvlinkDomain", "pcieRoot")
STANDARD_NUMA, STANDARD_ROOT = (f"resource.kubernetes.io/{name}" for name in (NUMA, ROOT))


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ({NUMA: "aabb"}, "01"),
        ({NUMA: "aaabb"}, "34"),  # the smallest group that has enough
        ({NUMA: "abbbccc"}, "123"),
        ({NUMA: "abc"}, "01"),  # no group has enough
        ({"numa": "abab"}, "02"),
        ({STANDARD_NUMA: "abba"}, "03"),
        ({NVLINK: "aaabb"}, "34"),
        ({CLIQUE: "abab"}, "02"),
        ({NUMA: "aabb", CLIQUE: "abba"}, "03"),  # the closer attribute comes first, whatever its groups
        ({NUMA: "aabbb", CLIQUE: "aaaaa", NVLINK: "abbab"}, "03"),
        ({NUMA: "aabb", NVLINK: "abab"}, "02"),
        ({NVLINK: "aabb", ROOT: "abba"}, "03"),
        ({ROOT: "aabb", STANDARD_ROOT: "abab"}, "02"),
        ({STANDARD_NUMA: "aabb", NUMA: "abab"}, "02"),
        ({NUMA: "aabb", NVLINK: "abcd"}, "01"),  # the next attribute, where no group of the first has enough
    ],
)
def test_devices_of_one_claim_are_close_by_the_first_attribute_and_its_smallest_group(
    groups: dict[str, str], expected: str
) -> None:
    devices: list[dict[str, object]] = [
        {"name": str(at), "attributes": {name: {"string": of[at]} for name, of in groups.items()}}
        for at in range(len(next(iter(groups.values()))))
    ]
    wanted = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": len(expected)}}
    assert devices_of(case_of([wanted], devices)) == list(expected)


def test_all_devices_are_those_of_every_root() -> None:
    everything = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    assert len(devices_of(case_of([everything], on_roots(4)))) == 8


def test_a_close_device_isnt_preferred_to_a_better_alternative() -> None:
    big = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": SIZE_OVER_9}}]}
    two_big, any_one = {"name": "two", "count": 2, **big}, {"name": "any", "deviceClassName": "gpu"}
    requests: list[dict[str, object]] = [{"name": "r", "firstAvailable": [two_big, any_one]}]
    assert devices_of(case_of(requests, on_roots(2, big=1))) == ["root0-1", "root1-1"]


SIZE_OVER_9 = 'device.attributes["gpu.example.com"].size > 9'


def test_a_refusal_names_the_claim_the_selector_and_the_shortage() -> None:
    wanted = {"deviceClassName": "gpu", "count": 2, "selectors": [{"cel": {"expression": SIZE_OVER_9}}]}
    devices = [{"name": f"d{at}", "attributes": {"size": {"int": 10 * at}}} for at in range(2)]
    case = case_of([{"name": "r", "exactly": wanted}], devices)
    refusal = allocate(case.claims, case.pools, case.usage, SelectorResults())
    assert refusal == ClaimRefusal(
        "c", f"2 of class gpu, selector {SIZE_OVER_9} needed, 1 free of 1 that match"
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
                "exactly": {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "base64('')"}}]},
            },
            "the function base64 is not supported",
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
