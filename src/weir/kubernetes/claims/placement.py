"""Choice of devices for a pod on its node: close to one another where the claims allow it.

Devices of one PCIe root, NVLink domain or NUMA node are tried first. The smallest group with enough free
devices comes before larger ones, so that large groups stay whole. A request for all devices gets all of them.
A later alternative of a request isn't preferred because its devices are closer. Neither are devices that have
to be prepared before the pod is bound.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weir.kubernetes.claims.allocator import STEPS_MAX, ChosenDevice, ClaimRefusal, allocate
from weir.kubernetes.claims.cel.evaluator import StepMeter
from weir.kubernetes.claims.claim_requests import ClaimRequests, ExactDevices
from weir.kubernetes.claims.device_usage import ClaimedDeviceUsage
from weir.kubernetes.claims.devices import PoolDevice
from weir.kubernetes.claims.pools import DevicePool
from weir.kubernetes.claims.selector_results import SelectorResults

_STANDARD = ("resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode")
_OF_DRIVERS = ("pcieRoot", "nvlinkDomain", "cliqueID", "numaNode", "numa")
"""Attributes of closeness by their names without the driver's domain, closest first."""
_GROUPS_MAX = 64


def choose_devices(
    claims: Sequence[ClaimRequests],
    pools: Sequence[DevicePool],
    usage: ClaimedDeviceUsage,
    results: SelectorResults,
) -> list[ChosenDevice] | ClaimRefusal:
    """Return devices for all claims of a pod, as close to one another as possible, or why there are none."""
    meter = StepMeter()
    anywhere = allocate(claims, pools, usage, results, meter=meter)
    if isinstance(anywhere, ClaimRefusal):
        return anywhere
    for only in _groups(pools, usage, {pick.device.key[0] for pick in anywhere}):
        if meter.steps > STEPS_MAX:
            break
        closer = allocate(claims, pools, usage, results, only=only, meter=meter)
        if isinstance(closer, ClaimRefusal) or _conditional(closer) > _conditional(anywhere):
            continue
        if _requests(closer) == _requests(anywhere):
            return closer
    return anywhere


def _conditional(chosen: Sequence[ChosenDevice]) -> int:
    """Return the number of devices that have to be prepared before the pod is bound."""
    return sum(bool(pick.device.binding_conditions) for pick in chosen)


def _requests(chosen: Sequence[ChosenDevice]) -> list[tuple[int, ExactDevices]]:
    """Return the alternative that each device serves, with its claim."""
    return [(pick.claim, pick.devices) for pick in chosen]


def _groups(
    pools: Sequence[DevicePool], usage: ClaimedDeviceUsage, drivers: set[str]
) -> Iterator[Mapping[str, Any]]:
    """Yield groups of close devices, each as an attribute and its value."""
    names = [*_STANDARD[:1], *(f"{driver}/{name}" for name in _OF_DRIVERS for driver in sorted(drivers))]
    free = [
        device
        for pool in pools
        for device in pool.devices
        if device.key[0] in drivers and not usage.uses(device.key)
    ]
    yielded = 0
    for name in (*names, *_STANDARD[1:]):
        sizes = _sizes(free, name)
        for value in sorted(sizes, key=lambda candidate: (sizes[candidate], repr(candidate))):
            yielded += 1
            if yielded > _GROUPS_MAX:
                return
            yield {name: value}


def _sizes(devices: Sequence[PoolDevice], name: str) -> Counter[Any]:
    values = (device.attribute(name) for device in devices)
    return Counter(value for value in values if value is not None)
