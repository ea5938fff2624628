"""Invalid resource claims, slices, device classes and pod groups that an API server may accept."""

from random import Random
from typing import Any

from tests.kubernetes.group_plane import GROUPS_API
from tests.kubernetes.hostile_values import QUANTITIES
from tests.unit.kubernetes.random_claims import API, SELECTORS

Object = dict[str, Any]
CLASSES = ("gpu.nvidia.com", "gpu", "nothing")
FEW = 30
"""Names of claims and groups are few, so that pods find those that they name."""
_EXPRESSIONS = (
    *SELECTORS,
    "true",
    "device.gone.too",
    "1 / 0 == 1",
    "[1, 2, 3].all(x, x > device.attributes.size())",
    f"'{'a' * 900}'.matches('(a*)*b')",
)
VERSIONS = {
    "DeviceClass": API,
    "ResourceSlice": API,
    "ResourceClaim": API,
    "PodGroup": GROUPS_API,
}
"""API version of each kind."""
_DRIVER = "gpu.nvidia.com"


def device_class(chance: Random) -> Object:
    """Return the spec of a device class."""
    return {"selectors": [_selector(chance) for _ in range(chance.choice((0, 1, 2)))]}


def resource_slice(chance: Random, nodes: list[str]) -> Object:
    """Return the spec of a slice of one of these nodes, perhaps of an incomplete or invalid pool."""
    counted = chance.random() < 0.3
    devices: list[Object] = []
    for at in range(chance.choice((0, 1, 4, 16))):
        amount = {"memory": {"value": _quantity(chance)}}
        device: Object = {"name": f"d{at}", "capacity": amount, "attributes": _attributes(chance)}
        if chance.random() < 0.2:
            device["allowMultipleAllocations"] = True
        if chance.random() < 0.1:
            effect = chance.choice(("NoSchedule", "NoExecute", "None"))
            device["taints"] = [{"key": "a", "value": "b", "effect": effect}]
        if counted:
            device["consumesCounters"] = [{"counterSet": chance.choice(("c", "no")), "counters": amount}]
        devices.append(device)
    pool = {
        "name": chance.choice((*nodes, "pool")),
        "generation": chance.choice((0, 1, 2**62)),
        "resourceSliceCount": chance.choice((1, 1, 2, 2**62)),
    }
    reached = chance.choice(({"nodeName": chance.choice((*nodes, "nothing"))}, {"allNodes": True}))
    return {"driver": _DRIVER, "pool": pool, "devices": devices, **reached}


def resource_claim(chance: Random, nodes: list[str]) -> tuple[Object, Object]:
    """Return the spec of a claim, and a status that may allocate what isn't there."""
    exactly: Object = {"deviceClassName": chance.choice(CLASSES)}
    if chance.random() < 0.3:
        exactly["allocationMode"] = "All"
    else:
        exactly |= {"allocationMode": "ExactCount", "count": chance.choice((1, 2, 32, 2**62))}
    if chance.random() < 0.3:
        exactly["selectors"] = [_selector(chance)]
    if chance.random() < 0.3:
        exactly["capacity"] = {"requests": {"memory": _quantity(chance)}}
    devices: Object = {"requests": [{"name": "r", "exactly": exactly}]}
    if chance.random() < 0.3:
        devices["requests"] = [{"name": "r", "firstAvailable": [{"name": "s", **exactly}]}]
    if chance.random() < 0.2:
        devices["constraints"] = [{"matchAttribute": chance.choice(("example.com/a", "a/b"))}]
    result = {"request": "r", "driver": _DRIVER, "pool": chance.choice((*nodes, "pool")), "device": "d0"}
    where = {"key": "metadata.name", "operator": "In", "values": [chance.choice((*nodes, "nothing"))]}
    allocation = {
        "devices": {"results": [result] * chance.choice((0, 1, 1))},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [where]}]},
    }
    consumer = {"resource": "pods", "name": "a", "uid": "a"}
    return {"devices": devices}, chance.choice(({}, {"allocation": allocation, "reservedFor": [consumer]}))


def pod_group(chance: Random) -> Object:
    """Return the spec of a pod group."""
    policy = chance.choice(({"basic": {}}, {"gang": {"minCount": chance.choice((1, 2, 1000, 2**31 - 1))}}))
    spec: Object = {"schedulingPolicy": policy}
    if chance.random() < 0.3:
        spec["schedulingConstraints"] = {"topology": [{"key": chance.choice(("a", "x/y", "l" * 63))}]}
    if chance.random() < 0.3:
        spec["disruptionMode"] = chance.choice(("Pod", "PodGroup"))
    return spec


def name_them(chance: Random, spec: Object) -> None:
    """Have a pod use a claim or name a group now and then."""
    if chance.random() < 0.1:
        claim = f"resourceclaim-{chance.randrange(FEW)}"
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
        if spec["containers"][0]["resources"]:
            spec["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    if chance.random() < 0.1:
        spec["schedulingGroup"] = {"podGroupName": f"podgroup-{chance.randrange(FEW)}"}


def _selector(chance: Random) -> Object:
    return {"cel": {"expression": chance.choice(_EXPRESSIONS)}}


def _quantity(chance: Random) -> str:
    return str(chance.choice(("80Gi", *QUANTITIES)))


def _attributes(chance: Random) -> Object:
    return {
        "a": chance.choice(({"string": "x" * 64}, {"int": -(2**63)}, {"bool": True}, {"version": "1.0.0"})),
        "example.com/a": {"string": chance.choice("ab")},
    }
