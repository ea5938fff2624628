"""Shares of GPUs that a DRA driver offers by consumable capacity: a part of each capacity of a device.

A device class with the label has shared GPUs. A pod with a fraction requests the extended resource of the
class. Weir creates the claim of the pod, as for other extended resources, once it has chosen the node: only
then the fraction of a capacity is a known amount.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from weir.kubernetes.api.resource_objects import AllocatedDevice, DeviceClass
from weir.kubernetes.claims.claim_requests import ExactDevices
from weir.kubernetes.claims.device_usage import ClaimedDeviceUsage
from weir.kubernetes.claims.pools import DevicePool
from weir.kubernetes.claims.selector_results import SelectorResults
from weir.kubernetes.translate.device_resources import CLASS_PREFIX
from weir.kubernetes.translate.gpu_sharing import GPU_SHARING, SET_ASIDE
from weir.kubernetes.translate.quantities import written_exactly
from weir.model.workloads import WHOLE_MILLI

SHARED_DEVICE = "device.allowMultipleAllocations"
"""Selector of devices that can be shared."""
_FINE = 1000
"""Amounts below are written in thousandths: more of them would be too coarse."""

ShareAmounts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class GpuShare:
    """Share of each of several devices in a pod's request."""

    milli: int
    devices: int = 1

    def __str__(self) -> str:
        return f"{self.milli / WHOLE_MILLI:g} of {self.devices if self.devices > 1 else 'a'} shared"


def shared_class(classes: Mapping[str, DeviceClass]) -> str:
    """Return the class of shared GPUs, the first by name; empty without one."""
    return min((name for name, device_class in classes.items() if is_shared(device_class)), default="")


def is_shared(device_class: DeviceClass) -> bool:
    """Return True if an administrator labelled a class as one of shared GPUs."""
    return device_class.metadata.labels.get(GPU_SHARING) == SET_ASIDE


def share_resource(classes: Mapping[str, DeviceClass]) -> str:
    """Return the resource by which pods with a fraction ask for shared GPUs; empty without a class."""
    name = shared_class(classes)
    return f"{CLASS_PREFIX}{name}" if name else ""


def share_amounts(
    share: GpuShare, wanted: Iterable[ExactDevices], pools: Sequence[DevicePool], results: SelectorResults
) -> ShareAmounts:
    """Return the part of each capacity of a node's shared devices, by the largest of them."""
    largest: dict[str, Fraction] = {}
    requests = list(wanted)
    for device in (candidate for pool in pools for candidate in pool.devices if candidate.shareable):
        if any(results.matches_safely(one, device) for one in requests):
            for name, capacity in device.capacity.items():
                largest[name] = max(largest.get(name, Fraction()), capacity.value)
    return tuple(
        sorted((name, written_exactly(_part(value, share.milli))) for name, value in largest.items())
    )


def holds_part(held: AllocatedDevice, pools: Iterable[DevicePool]) -> bool:
    """Return True if an allocation uses a part of its device, by the known slices."""
    key = held.driver, held.pool, held.device
    consumed = ClaimedDeviceUsage.of([held]).shared.get(key)
    if consumed is None:
        return False
    device = next((candidate for pool in pools for candidate in pool.devices if candidate.key == key), None)
    capacity = {} if device is None else device.capacity
    return all(amount < capacity[name].value for name, amount in consumed.items() if name in capacity)


def _part(value: Fraction, milli: int) -> Fraction:
    part = value * milli / WHOLE_MILLI
    return Fraction(math.ceil(part)) if part >= _FINE else Fraction(math.ceil(part * _FINE), _FINE)
