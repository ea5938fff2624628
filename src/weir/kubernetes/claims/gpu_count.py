"""GPUs of nodes and claims, as quotas count them.

An administrator maps device classes to parts of a GPU, under the names that Kubernetes gives classes as
resources. Slices of a GPU count by their profile, shares by the part of the capacity that they take.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from msgspec import convert

from weir.kubernetes.api.resource_objects import DeviceClass, ResourceClaim
from weir.kubernetes.claims.capacity import consumed_amounts
from weir.kubernetes.claims.claim_requests import ClaimError, ClaimRequests, ExactDevices, parse_claim
from weir.kubernetes.claims.devices import PoolDevice
from weir.kubernetes.claims.gpu_shares import is_shared
from weir.kubernetes.claims.pools import DevicePool
from weir.kubernetes.claims.selector_results import SelectorResults
from weir.kubernetes.translate.device_resources import CLASS_PREFIX, DeviceResources
from weir.kubernetes.translate.requests import DEVICE_MEMORY_MAX
from weir.model.workloads import WHOLE_MILLI

_PROFILE = re.compile(r"([1-7])g\.", re.ASCII)
_SLICES = 7
_MODELS = ("productName", "model")


@dataclass(frozen=True, slots=True)
class ClaimedGpus:
    """GPUs that a pod's claims count as: whole ones, or a part of each."""

    devices: int = 0
    share_milli: int = WHOLE_MILLI
    weight_milli: int = WHOLE_MILLI


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """GPUs of a node that claims allocate."""

    count: int = 0
    memory: int = 0
    model: str | None = None


def gpu_classes(devices: DeviceResources) -> dict[str, int]:
    """Return the device classes that count as GPUs, and the thousandths that a device of each counts."""
    return {name: devices.gpu_weight_milli(f"{CLASS_PREFIX}{name}") for name in devices.classes}


def further_classes(classes: Mapping[str, DeviceClass], devices: DeviceResources) -> frozenset[str]:
    """Return the classes that count as GPUs by their extended resource, or as classes of shared GPUs."""
    return frozenset(
        name
        for name, device_class in classes.items()
        if devices.names(device_class.spec.extended_resource_name or "") or is_shared(device_class)
    )


class GpuCounter:
    """Counts GPUs by the classes that an administrator names, or the usual ones."""

    def __init__(self, devices: DeviceResources, results: SelectorResults) -> None:
        self._results = results
        self._devices = devices
        self._weights = gpu_classes(devices)
        self._selecting: list[ExactDevices] = []

    def claimed(self, claims: Iterable[ClaimRequests], pools: Sequence[Sequence[DevicePool]]) -> ClaimedGpus:
        """Return the GPUs that claims count as; `pools` are those of one node of each kind."""
        whole, parts = 0, Fraction()
        for claim in claims:
            for alternatives in claim.requests:
                most = max(
                    (self._milli(alternative, pools) for alternative in alternatives),
                    key=lambda counted: counted[0] * counted[1],
                )
                count, milli = most
                if milli == WHOLE_MILLI:
                    whole += count
                else:
                    parts += count * milli
        total = whole * WHOLE_MILLI + parts
        if not parts:
            return ClaimedGpus(whole)
        devices = math.ceil(total / WHOLE_MILLI)
        if not whole:
            return ClaimedGpus(devices, min(WHOLE_MILLI, math.ceil(total / devices)))
        return ClaimedGpus(devices, WHOLE_MILLI, min(WHOLE_MILLI, math.ceil(total / devices)))

    def _milli(self, devices: ExactDevices, pools: Sequence[Sequence[DevicePool]]) -> tuple[int, Fraction]:
        """Return the number of devices of a request, and its largest device in thousandths of a GPU."""
        weight = self._weights.get(devices.device_class.metadata.name)
        if weight is None or devices.admin:
            return 0, Fraction()
        most, count = Fraction(), 0
        for of_node in pools:
            matching = [
                device
                for pool in of_node
                for device in pool.devices
                if self._results.matches_safely(devices, device)
            ]
            count = max(count, len(matching))
            for device in matching:
                most = max(most, self._part(devices, device))
        if not count:
            most = Fraction(WHOLE_MILLI)
        return devices.count or count, most * weight / WHOLE_MILLI

    def _part(self, devices: ExactDevices, device: PoolDevice) -> Fraction:
        part = _part_of_gpu(device)
        if not device.shareable:
            return part
        consumed = consumed_amounts(device, devices.capacity) or {}
        of_capacity = [
            amount / device.capacity[name].value
            for name, amount in consumed.items()
            if device.capacity[name].value
        ]
        return part * min(Fraction(1), max(of_capacity, default=Fraction(1)))

    def set_classes(self, classes: Mapping[str, DeviceClass]) -> None:
        """Count devices of these classes from now on.

        A class that provides a resource of devices counts as that resource does.
        """
        self._weights = {
            **{
                name: self._devices.gpu_weight_milli(classes[name].spec.extended_resource_name or "")
                for name in further_classes(classes, self._devices)
            },
            **gpu_classes(self._devices),
        }
        self._selecting = [
            request for name in self._weights if (request := _requests_of(name, classes)) is not None
        ]

    def counts(self, device_class: str) -> bool:
        """Return True if devices of a class count as GPUs."""
        return device_class in self._weights

    def of_node(self, pools: Sequence[DevicePool], node: str) -> NodeGpus:
        """Return the GPUs of a node's own pools."""
        own = [
            device
            for pool in pools
            for device in pool.devices
            if device.nodes.name == node
            and any(self._results.matches_safely(request, device) for request in self._selecting)
        ]
        whole = [device for device in own if _part_of_gpu(device) == WHOLE_MILLI]
        count = len(whole) or math.ceil(sum(map(_part_of_gpu, own), Fraction()) / WHOLE_MILLI)
        return NodeGpus(count, _memory(whole), _model(whole or own))


def _requests_of(name: str, classes: Mapping[str, DeviceClass]) -> ExactDevices | None:
    """Return a request for one device of a class; None if the class is missing or unusable."""
    if name not in classes:
        return None
    request = {"name": "all", "exactly": {"deviceClassName": name}}
    claim = convert({"metadata": {"name": ""}, "spec": {"devices": {"requests": [request]}}}, ResourceClaim)
    try:
        return parse_claim(claim, classes).requests[0][0]
    except ClaimError:
        return None


def _part_of_gpu(device: PoolDevice) -> Fraction:
    """Return the size of a device in thousandths of a GPU: a slice has a profile such as 1g.10gb."""
    profile = device.attribute(f"{device.key[0]}/profile")
    match = _PROFILE.match(str(profile[1][0])) if profile is not None else None
    return Fraction(int(match[1]) * WHOLE_MILLI, _SLICES) if match is not None else Fraction(WHOLE_MILLI)


def _memory(devices: Sequence[PoolDevice]) -> int:
    amounts = [
        device.capacity[name].value
        for device in devices
        for name in ("memory", f"{device.key[0]}/memory")
        if name in device.capacity
    ]
    memory = int(min(amounts, default=Fraction()))
    return memory if 0 < memory <= DEVICE_MEMORY_MAX else 0


def _model(devices: Sequence[PoolDevice]) -> str | None:
    for device in devices[:1]:
        for name in _MODELS:
            attribute = device.attribute(f"{device.key[0]}/{name}")
            if attribute is not None and attribute[0] == "string":
                return str(attribute[1][0])
    return None
