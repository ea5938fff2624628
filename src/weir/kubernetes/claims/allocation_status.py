"""Allocations as the status of a claim states them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from weir.kubernetes.api.objects import NodeSelector, NodeSelectorRequirement
from weir.kubernetes.api.resource_objects import AllocatedDevice, ResourceClaim
from weir.kubernetes.claims.allocator import ChosenDevice
from weir.kubernetes.claims.claim_requests import ClaimRequests
from weir.kubernetes.claims.extended_resources import SpecialClaim
from weir.kubernetes.translate.quantities import written_exactly


@dataclass(frozen=True, slots=True)
class NewAllocation:
    """A claim with chosen devices and its new status; or one that has its devices already.

    `special` is for the claim that Weir makes itself for a pod's extended resources.
    """

    claim: ResourceClaim
    devices: tuple[AllocatedDevice, ...] = ()
    body: Mapping[str, Any] | None = None
    special: SpecialClaim | None = None


def new_allocations(
    claims: Sequence[ClaimRequests],
    chosen: Sequence[ChosenDevice],
    node: str,
    special: SpecialClaim | None = None,
) -> list[NewAllocation]:
    """Return the allocation of each claim, including that of Weir's own claim."""
    allocations = []
    for index, claim in enumerate(claims):
        picks = [pick for pick in chosen if pick.claim == index]
        results = [_result(pick) for pick in picks]
        body: dict[str, Any] = {"devices": {"results": results}}
        config = [*_class_config(picks), *_claim_config(claim, picks)]
        if config:
            body["devices"]["config"] = config
        selector = _node_selector(picks, node)
        if selector is not None:
            body["nodeSelector"] = selector
        own = special if special is not None and claim.name == special.name else None
        allocations.append(
            NewAllocation(claim.claim, tuple(_allocated(result) for result in results), body, own)
        )
    return allocations


def _result(chosen: ChosenDevice) -> dict[str, Any]:
    driver, pool, name = chosen.device.key
    result: dict[str, Any] = {
        "request": chosen.devices.name,
        "driver": driver,
        "pool": pool,
        "device": name,
    }
    if chosen.devices.admin:
        result["adminAccess"] = True
    if chosen.devices.tolerations:
        result["tolerations"] = [
            {
                "key": toleration.key,
                "operator": toleration.operator,
                "value": toleration.value,
                "effect": toleration.effect,
                **(
                    {}
                    if toleration.toleration_seconds is None
                    else {"tolerationSeconds": toleration.toleration_seconds}
                ),
            }
            for toleration in chosen.devices.tolerations
        ]
    if chosen.device.binding_conditions:
        result["bindingConditions"] = list(chosen.device.binding_conditions)
        if chosen.device.failure_conditions:
            result["bindingFailureConditions"] = list(chosen.device.failure_conditions)
    if chosen.device.shareable:
        result["shareID"] = str(uuid4())
        if chosen.consumed:
            result["consumedCapacity"] = {
                name: written_exactly(amount) for name, amount in chosen.consumed.items()
            }
    return result


def _allocated(result: Mapping[str, Any]) -> AllocatedDevice:
    return AllocatedDevice(
        result["request"],
        result["driver"],
        result["pool"],
        result["device"],
        result.get("adminAccess", False),
        result.get("shareID"),
        result.get("consumedCapacity", {}),
    )


def _class_config(chosen: Sequence[ChosenDevice]) -> list[dict[str, Any]]:
    """Return the configuration of each class once, for all requests of it."""
    requests: dict[str, list[str]] = {}
    classes = {}
    for pick in chosen:
        device_class = pick.devices.device_class
        classes[device_class.metadata.name] = device_class
        names = requests.setdefault(device_class.metadata.name, [])
        if pick.devices.name not in names:
            names.append(pick.devices.name)
    return [
        {"source": "FromClass", "requests": names, **config}
        for name, names in requests.items()
        for config in classes[name].spec.config
    ]


def _claim_config(claim: ClaimRequests, chosen: Sequence[ChosenDevice]) -> list[dict[str, Any]]:
    """Return the configuration of a claim for all its requests, or for one with chosen devices."""
    names = {pick.devices.request for pick in chosen} | {pick.devices.name for pick in chosen}
    return [
        {"source": "FromClaim", **config}
        for config in claim.claim.spec.devices.config
        if not config.get("requests") or names & set(config["requests"])
    ]


def _node_selector(chosen: Sequence[ChosenDevice], node: str) -> dict[str, Any] | None:
    """Return the nodes that reach all devices; None if all nodes do."""
    expressions: list[dict[str, Any]] = []
    fields: list[dict[str, Any]] = []
    for pick in chosen:
        choice = pick.device.nodes
        if choice.name or pick.device.binds_to_node:
            only = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        if choice.selector is not None:
            _add_terms(choice.selector, expressions, fields)
    term = {
        **({"matchExpressions": expressions} if expressions else {}),
        **({"matchFields": fields} if fields else {}),
    }
    return {"nodeSelectorTerms": [term]} if term else None


def _add_terms(
    selector: NodeSelector, expressions: list[dict[str, Any]], fields: list[dict[str, Any]]
) -> None:
    for term in selector.node_selector_terms[:1]:  # a slice has one
        for to, written in ((expressions, term.match_expressions), (fields, term.match_fields)):
            to += [requirement for requirement in map(_requirement, written) if requirement not in to]


def _requirement(written: NodeSelectorRequirement) -> dict[str, Any]:
    requirement: dict[str, Any] = {"key": written.key, "operator": written.operator}
    return {**requirement, "values": written.values} if written.values else requirement
