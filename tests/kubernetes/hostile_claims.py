"""Invalid claims, slices, device classes, taint rules and pod groups that an API server may accept."""

from random import Random
from typing import Any

from tests.kubernetes.claim_objects import TAINT_RULES_API
from tests.kubernetes.group_plane import GROUPS_API
from tests.kubernetes.hostile_values import DEVICES, LABELS, QUANTITIES
from tests.unit.kubernetes.claims.random_claims import API, SELECTORS

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
    f"'{'a' * 900}'.findAll('a*b|a').size() == 1",
    "lists.range(1000).exists(i, ip('::1') == ip('::2'))",
    "[[[1]], [[2]]].flatten(2).sort().transformMap(i, v, v * v) == {0: 1, 1: 4}",
    "url('http://[::1/').getHost() == ''",
)
VERSIONS = {
    "DeviceClass": API,
    "ResourceSlice": API,
    "ResourceClaim": API,
    "DeviceTaintRule": TAINT_RULES_API,
    "PodGroup": GROUPS_API,
}
"""API version of each kind."""
_DRIVER = "gpu.nvidia.com"
_ATTRIBUTES = ("example.com/a", "a/b")
_CONDITIONS = ("example.com/ready", "ready", f"{'x' * 63}/y", "failed")
_EFFECTS = ("NoSchedule", "NoSchedule", "NoExecute", "NoExecute", "None", "of-a-newer-version")


def device_class(chance: Random) -> Object:
    """Return the spec of a device class, which may stand for a resource of device plugins."""
    spec: Object = {"selectors": [_selector(chance) for _ in range(chance.choice((0, 1, 2)))]}
    if chance.random() < 0.5:
        spec["extendedResourceName"] = chance.choice((*DEVICES, "cpu", f"{'x' * 63}/y"))
    return spec


def class_labels(chance: Random) -> dict[str, str]:
    """Return the labels of a device class, which may make it one for shares of GPUs."""
    shares = ("true", "true", "auto", "draining", *LABELS)
    return {"weir.dev/gpu-sharing": chance.choice(shares)} if chance.random() < 0.5 else {}


def taint_rule(chance: Random, nodes: list[str]) -> Object:
    """Return the spec of a rule that taints devices: some, or all that there are."""
    every = {
        "driver": chance.choice((_DRIVER, "nothing")),
        "pool": chance.choice((*nodes, "pool")),
        "device": chance.choice(("d0", "nothing")),
        "deviceClassName": chance.choice(CLASSES),
        "selectors": [_selector(chance)],
    }
    chosen = {key: value for key, value in every.items() if chance.random() < 0.3}
    taint = {"key": chance.choice(("a", "x/y")), "effect": chance.choice(_EFFECTS)}
    if chance.random() < 0.5:
        taint["value"] = chance.choice(LABELS)
    return {"taint": taint, **chance.choice(({}, {"deviceSelector": chosen}, {"deviceSelector": chosen}))}


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
            device["taints"] = [{"key": "a", "value": "b", "effect": chance.choice(_EFFECTS)}]
        if chance.random() < 0.3:
            device |= _conditions(chance) | {"bindsToNode": chance.choice((True, False))}
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
    if chance.random() < 0.4:
        devices["constraints"] = [_constraint(chance) for _ in range(chance.choice((1, 2)))]
    device = {"driver": _DRIVER, "pool": chance.choice((*nodes, "pool")), "device": "d0"}
    result = {"request": "r", **device, **chance.choice(({}, _conditions(chance)))}
    where = {"key": "metadata.name", "operator": "In", "values": [chance.choice((*nodes, "nothing"))]}
    allocation = {
        "devices": {"results": [result] * chance.choice((0, 1, 1))},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [where]}]},
    }
    consumer = {"resource": "pods", "name": "a", "uid": "a"}
    status = {"allocation": allocation, "reservedFor": [consumer]}
    if chance.random() < 0.5:
        status["devices"] = [{**device, "conditions": [_reported(chance)]}]
    return {"devices": devices}, chance.choice(({}, status))


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


def extended_claim(chance: Random) -> Object:
    """Return the part of a pod's status that names the claim for its extended resources."""
    mapping = {"containerName": chance.choice(("c0", "no")), "requestName": "r", "resourceName": DEVICES[0]}
    name = f"resourceclaim-{chance.randrange(FEW)}"
    return {"resourceClaimName": name, "requestMappings": [mapping] * chance.choice((1, 1, 2))}


def _constraint(chance: Random) -> Object:
    """Return a constraint over the devices of a claim, perhaps of a request that it doesn't have."""
    kind = chance.choice(("matchAttribute", "distinctAttribute", "distinctAttribute"))
    requests = chance.choice(([], [], ["r"], ["r"], ["r"], ["r/s"], ["nothing"]))
    return {kind: chance.choice(_ATTRIBUTES), **({"requests": requests} if requests else {})}


def _conditions(chance: Random) -> Object:
    """Return the conditions that a device has to have before its pod is bound, and those it mustn't have.

    An API server takes them together, and none for both; a few are others.
    """
    names, count = chance.sample(_CONDITIONS, 4), chance.choice((1, 2, 3))
    failures = names if chance.random() < 0.1 else names[count:]
    return {"bindingConditions": names[:count], "bindingFailureConditions": failures}


def _reported(chance: Random) -> Object:
    """Return a condition of a device, as its driver reports it."""
    status, at = chance.choice(("True", "False", "Unknown")), "2026-01-01T00:00:00Z"
    reported = {"type": chance.choice(_CONDITIONS), "status": status, "lastTransitionTime": at}
    return {**reported, "reason": "Reported", "message": chance.choice(("", "a" * 900))}


def _selector(chance: Random) -> Object:
    return {"cel": {"expression": chance.choice(_EXPRESSIONS)}}


def _quantity(chance: Random) -> str:
    return str(chance.choice(("80Gi", *QUANTITIES)))


def _attributes(chance: Random) -> Object:
    return {
        "a": chance.choice(({"string": "x" * 64}, {"int": -(2**63)}, {"bool": True}, {"version": "1.0.0"})),
        "example.com/a": {"string": chance.choice("ab")},
    }
