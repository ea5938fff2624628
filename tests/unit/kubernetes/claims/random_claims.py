"""Random device slices, claims and earlier allocations of one node, as the API server takes them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from weir.kubernetes.api.resource_objects import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from weir.kubernetes.claims.claim_requests import ClaimRequests, parse_claim
from weir.kubernetes.claims.device_usage import ClaimedDeviceUsage
from weir.kubernetes.claims.pools import DevicePool, SliceIndex, parse_slice
from weir.kubernetes.claims.taint_rules import tainted
from weir.model.nodes import Node

API = "resource.k8s.io/v1"
GPU, NIC = "gpu.example.com", "nic.example.com"
CLASSES: dict[str, list[str]] = {
    "gpu": [f'device.driver == "{GPU}"'],
    "nic": [f'device.driver == "{NIC}"'],
    "any": [],
    "fast": [f'device.driver == "{GPU}"', f'device.attributes["{GPU}"].?speed.orValue(0) >= 3'],
}
SELECTORS = (
    f'has(device.attributes["{GPU}"].model) && device.attributes["{GPU}"].model == "a"',
    f'device.attributes["{GPU}"].?model.orValue("") in ["a", "b"]',
    f'cel.bind(own, device.attributes["{GPU}"], has(own.numa) && own.numa == 0)',
    f'device.attributes["{GPU}"].?firmware.orValue(semver("0.0.1")).isGreaterThan(semver("1.1.9"))',
    f'device.capacity["{GPU}"].?memory.orValue(quantity("0")).compareTo(quantity("20Gi")) >= 0',
    f'has(device.attributes["{GPU}"].model) && device.attributes["{GPU}"].model.matches("^[ab]$")',
    f'!device.attributes["{GPU}"].?healthy.orValue(true) || device.driver.startsWith("gpu")',
    f'has(device.attributes["{GPU}"].model) && ["a", "c"].exists(m, m == device.attributes["{GPU}"].model)',
    f'device.driver == "{NIC}" ? device.attributes["{NIC}"].?numa.orValue(1) == 1 : true',
    "device.allowMultipleAllocations",
    f'device.attributes["{GPU}"].all(name, value, name != "model" || value == "a")',
    f'device.driver.find("^[[:alpha:]]+") == "{GPU}".split(".")[0] && has(device.attributes.nothing)',
    'format.dns1123Subdomain().validate(device.driver).hasValue() || cidr("10.0.0.0/8").containsIP("10.1.2.3")',
    f'lists.range(1).exists(numa, numa == device.attributes["{GPU}"].?numa.orValue(7))',
)
TAINTS = ("NoSchedule", "NoExecute", "None")


@dataclass
class ClaimCase:
    """Node with its slices, rules that taint devices, a pod's claims, and claims allocated before."""

    node: str
    slices: list[dict[str, Any]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    allocated: list[dict[str, Any]] = field(default_factory=list)
    taint_rules: list[dict[str, Any]] = field(default_factory=list)


def classes() -> list[dict[str, Any]]:
    """Return the device classes of all cases."""
    return [
        {
            "apiVersion": API,
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": each}} for each in selectors]},
        }
        for name, selectors in CLASSES.items()
    ]


def random_case(chance: Random, node: str = "n") -> ClaimCase:
    """Return a case."""
    case = ClaimCase(node)
    drivers = [GPU] if chance.random() < 0.6 else [GPU, NIC]
    for driver in drivers:
        _add_pool(case, chance, driver)
    for at in range(chance.choice((1, 1, 1, 2))):
        case.claims.append(_claim(chance, f"{node}-claim-{at}"))
    _allocate_some(case, chance)
    return case


def add_taint_rules(case: ClaimCase, chance: Random) -> None:
    """Have rules taint some devices of a case, and of no other one."""
    for at in range(chance.choice((0, 1, 1, 2))):
        spec = chance.choice(case.slices)["spec"]
        chosen = {"pool": spec["pool"]["name"]}
        if chance.random() < 0.5:
            chosen["driver"] = chance.choice((GPU, NIC))
        if chance.random() < 0.6:
            chosen["device"] = f"d{chance.randint(0, 4)}"
        taint = {"key": "example.com/sick", "effect": chance.choice(TAINTS)}
        if chance.random() < 0.5:
            taint["value"] = "yes"
        case.taint_rules.append(
            {
                "kind": "DeviceTaintRule",
                "metadata": {"name": f"{case.node}-{at}"},
                "spec": {"deviceSelector": chosen, "taint": taint},
            }
        )
    tolerating = chance.choice(
        (
            {"operator": "Equal", "key": "example.com/sick", "value": "yes"},
            {"operator": "Exists", "effect": "NoSchedule"},
            {"operator": "Exists"},
        )
    )
    for claim in case.claims:
        for request in claim["spec"]["devices"]["requests"]:
            if "exactly" in request and chance.random() < 0.3:
                request["exactly"]["tolerations"] = [tolerating]


def _add_pool(case: ClaimCase, chance: Random, driver: str) -> None:
    name = f"{case.node}-{driver.partition('.')[0]}"
    kind = chance.choice(("plain", "plain", "partitions", "shared", "shared_counted"))
    count = chance.randint(1, 5)
    devices: list[dict[str, Any]] = []
    counters: list[dict[str, Any]] = []
    for at in range(count):
        device = _device(chance, driver, f"d{at}")
        if kind in ("shared", "shared_counted") and chance.random() < 0.7:
            _share(device, chance)
        if kind in ("partitions", "shared_counted"):
            counters.append(
                {"name": f"c{at}", "counters": {"memory": {"value": "40Gi"}, "slices": {"value": "7"}}}
            )
            _consume(device, at, "40Gi", 7)
        devices.append(device)
        if kind == "partitions":
            for part in range(chance.randint(0, 4)):
                partition = _device(chance, driver, f"d{at}-p{part}")
                slices = chance.choice((1, 2, 3))
                _consume(partition, at, f"{5 * slices}Gi", slices)
                devices.append(partition)
    chance.shuffle(devices)
    parts = [devices] if len(devices) < 4 or chance.random() < 0.6 else [devices[:3], devices[3:]]
    specs: list[dict[str, Any]] = [{"devices": part} for part in parts]
    if counters:
        specs.append({"sharedCounters": counters})
    total = len(specs) + (chance.random() < 0.04)  # an incomplete pool
    for at, spec in enumerate(specs):
        spec |= {"driver": driver, "nodeName": case.node}
        spec["pool"] = {"name": name, "generation": 1, "resourceSliceCount": total}
        case.slices.append(
            {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"{name}-{at}"}, "spec": spec}
        )


def _device(chance: Random, driver: str, name: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    if chance.random() < 0.9:
        attributes["model"] = {"string": chance.choice("aab")}
    if chance.random() < 0.9:
        attributes["numa"] = {"int": chance.randint(0, 1)}
    if chance.random() < 0.7:
        attributes["speed"] = {"int": chance.randint(1, 5)}
    if chance.random() < 0.7:
        attributes["firmware"] = {"version": chance.choice(("1.0.0", "1.2.0", "2.0.0-rc.1"))}
    if chance.random() < 0.4:
        attributes["healthy"] = {"bool": chance.random() < 0.7}
    if chance.random() < 0.8:
        attributes["resource.kubernetes.io/pcieRoot"] = {"string": f"pci{chance.randint(0, 1)}"}
    device: dict[str, Any] = {"name": name, "attributes": attributes}
    if chance.random() < 0.8:
        device["capacity"] = {"memory": {"value": chance.choice(("10Gi", "40Gi"))}}
    if chance.random() < 0.12:
        device["taints"] = [{"key": "example.com/sick", "value": "yes", "effect": chance.choice(TAINTS)}]
    return device


def _share(device: dict[str, Any], chance: Random) -> None:
    device["allowMultipleAllocations"] = True
    memory: dict[str, Any] = {"value": "40Gi"}
    policy = chance.choice(("none", "values", "range"))
    if policy == "values":
        memory["requestPolicy"] = {"default": "10Gi", "validValues": ["5Gi", "10Gi", "20Gi"]}
    if policy == "range":
        limits = {"min": "2Gi", "max": "30Gi", "step": "2Gi"}
        memory["requestPolicy"] = {"default": "4Gi", "validRange": limits}
    device["capacity"] = {"memory": memory}


def _consume(device: dict[str, Any], at: int, memory: str, slices: int) -> None:
    device["consumesCounters"] = [
        {"counterSet": f"c{at}", "counters": {"memory": {"value": memory}, "slices": {"value": str(slices)}}}
    ]


def _claim(chance: Random, name: str) -> dict[str, Any]:
    requests = []
    names = []
    for at in range(chance.choice((1, 1, 2, 3))):
        request = f"r{at}"
        names.append(request)
        if chance.random() < 0.2:
            alternatives = [{"name": f"s{sub}", **_exactly(chance)} for sub in range(chance.randint(1, 3))]
            requests.append({"name": request, "firstAvailable": alternatives})
        else:
            exactly = _exactly(chance)
            if chance.random() < 0.06:
                exactly["adminAccess"] = True
            requests.append({"name": request, "exactly": exactly})
    devices: dict[str, Any] = {"requests": requests}
    if chance.random() < 0.4:
        devices["constraints"] = [_constraint(chance, names, requests)]
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": devices},
    }


def _exactly(chance: Random) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": chance.choice(("gpu", "gpu", "nic", "any", "fast"))}
    if chance.random() < 0.6:
        chosen = chance.sample(SELECTORS, chance.choice((1, 1, 2)))
        exactly["selectors"] = [{"cel": {"expression": each}} for each in chosen]
    if chance.random() < 0.12:
        exactly["allocationMode"] = "All"
    else:
        exactly |= {"allocationMode": "ExactCount", "count": chance.choice((1, 1, 1, 2, 3))}
    if chance.random() < 0.25:
        exactly["capacity"] = {"requests": {"memory": chance.choice(("1Gi", "7Gi", "10Gi", "25Gi", "40Gi"))}}
    if chance.random() < 0.2:
        exactly["tolerations"] = [{"key": "example.com/sick", "operator": "Exists"}]
    return exactly


def _constraint(chance: Random, names: list[str], requests: list[dict[str, Any]]) -> dict[str, Any]:
    attribute = chance.choice(("resource.kubernetes.io/pcieRoot", f"{GPU}/numa", f"{GPU}/model"))
    single = all(each.get("exactly", {}).get("count", 9) == 1 for each in requests)
    if single and chance.random() < 0.4:  # kube-scheduler forgets all devices of a request but the last
        return {"requests": names, "distinctAttribute": attribute}
    return {"requests": chance.sample(names, chance.randint(1, len(names))), "matchAttribute": attribute}


def _allocate_some(case: ClaimCase, chance: Random) -> None:
    """Allocate some devices before: shares of shared ones, and partitions only of whole devices left alone."""
    for found in case.slices:
        spec = found["spec"]
        for device in spec.get("devices", ()):
            if chance.random() > 0.25:
                continue
            result: dict[str, Any] = {
                "request": "r",
                "driver": spec["driver"],
                "pool": spec["pool"]["name"],
                "device": device["name"],
            }
            if device.get("allowMultipleAllocations"):
                at = len(case.allocated)
                result["shareID"] = f"00000000-0000-4000-8000-{chance.randrange(16**8):08x}{at:04x}"
                result["consumedCapacity"] = {"memory": chance.choice(("4Gi", "10Gi", "20Gi"))}
            name = f"{case.node}-allocated-{len(case.allocated)}"
            case.allocated.append(
                {
                    "apiVersion": API,
                    "kind": "ResourceClaim",
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any"}}]}},
                    "status": {"allocation": {"devices": {"results": [result]}}},
                }
            )


@dataclass
class ReadCase:
    """A case as the allocator takes it."""

    claims: list[ClaimRequests]
    pools: list[DevicePool]
    usage: ClaimedDeviceUsage


def read_case(case: ClaimCase) -> ReadCase:
    """Return a case as the allocator takes it."""
    known = {each["metadata"]["name"]: msgspec.convert(each, DeviceClass) for each in classes()}
    index = slice_index([case])
    allocated = [msgspec.convert(each, ResourceClaim) for each in case.allocated]
    results = [
        result
        for each in allocated
        if each.status.allocation is not None
        for result in each.status.allocation.devices.results
    ]
    claims = [parse_claim(msgspec.convert(each, ResourceClaim), known) for each in case.claims]
    return ReadCase(claims, index.pools(Node(case.node, 0, 0, {})), ClaimedDeviceUsage.of(results))


def slice_index(cases: Iterable[ClaimCase]) -> SliceIndex:
    """Return the slices of several cases in one cluster."""
    index = SliceIndex()
    for case in cases:
        rules = [msgspec.convert(each, DeviceTaintRule) for each in case.taint_rules]
        for each in case.slices:
            parsed = parse_slice(msgspec.convert(each, ResourceSlice))
            index.see(each["metadata"]["name"], tainted(parsed, rules, {}))
    return index
