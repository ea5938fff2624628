"""Capacity that pods use on a node."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from weir.engine.overcommit import DeviceHolding, NodeDeviceUsage, node_device_usage
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.state.nodes.shared import SharedNode
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.gpu_sharing import DRAINING, SET_ASIDE, is_share
from weir.kubernetes.translate.requests import DEVICES_MAX, has_unstated, host_ports, in_units, requested
from weir.model.nodes import Node, Taint
from weir.model.resources import CLAIMS_PREFIX, PODS
from weir.model.workloads import WHOLE_MILLI, Request

Amounts = tuple[tuple[str, int], ...]
"""Amounts by resource that a pod uses: with one of `pods`, without devices."""


@dataclass(frozen=True, slots=True)
class ForeignUsage:
    """Resources that a pod of another scheduler holds on a node."""

    node: str
    amounts: Amounts
    devices: int = 0
    marks: tuple[str, ...] = ()
    attached: Amounts = ()  # volumes by driver, if the driver limits them by node

    @property
    def takes(self) -> Amounts:
        """Amounts besides devices."""
        return (*self.amounts, *self.attached)


@dataclass(frozen=True, slots=True)
class PodUsage:
    """Resources that a pod of Weir's holds on a node, or will once it is bound."""

    node: str
    request: Request
    devices: tuple[int, ...]


def foreign_usage(
    pod: KubePod,
    devices: DeviceResources,
    marks: tuple[str, ...],
    attached: Amounts,
    once: Callable[[Any], Any],
) -> ForeignUsage:
    """Return the resources that a foreign pod holds; `once` returns one object for equal values."""
    try:
        pod_request = requested(pod)
        counted = in_units(pod_request, devices)
    except ValueError:  # an unreadable amount: the other scheduler can't have counted it
        pod_request, counted = {}, {}
    count = min(
        DEVICES_MAX, sum(int(amount) for name, amount in pod_request.items() if devices.has_gpus(name))
    )
    amounts = tuple(sorted({**counted, **host_ports(pod.spec), PODS: 1}.items()))
    return ForeignUsage(once(pod.spec.node_name), once(amounts), count, once(marks), once(attached))


@dataclass(slots=True, eq=False)
class NodeUse:
    """A node and the pods on it."""

    base: Node | None = None  # the node without pods; None: it doesn't exist
    shared: SharedNode | None = None  # its label and taint for shares, if any
    unschedulable: bool = False
    limits: dict[str, int] = field(default_factory=dict)  # limits of volumes by driver, as resources
    foreign: dict[str, ForeignUsage] = field(default_factory=dict)
    numbers: dict[str, tuple[int, ...]] = field(default_factory=dict)  # assumed devices of foreign pods
    own_pods: dict[str, PodUsage] = field(default_factory=dict)
    reported: Node | None = None


def amounts_of(request: Request) -> Amounts:
    """Return the resources that a request takes of a node besides devices."""
    return (("cpu", request.cpu_milli), ("memory", request.memory), (PODS, 1), *request.further)


def are_devices_of(place: PodUsage, gpus: int) -> bool:
    """Return True if the devices are distinct, of a node with this number, and as many as requested."""
    devices = place.devices
    in_range = all(0 <= device < gpus for device in devices)
    return in_range and len(set(devices)) == len(devices) == place.request.devices


def device_shares(places: Iterable[PodUsage], device_memory: int) -> dict[int, int]:
    """Return the used thousandths of each device."""
    shares: dict[int, int] = {}
    for place in places:
        share = place.request.share_on(device_memory)
        for device in place.devices:
            shares[device] = shares.get(device, 0) + share
    return shares


def device_usage(site: NodeUse, base: Node) -> NodeDeviceUsage:
    """Count the devices in use on a node."""
    memory = base.gpu_memory
    holdings = (
        DeviceHolding(usage.devices, usage.request.devices, min(WHOLE_MILLI, usage.request.share_on(memory)))
        for usage in site.own_pods.values()
        if usage.request.devices
    )
    return node_device_usage(base.gpus, sum(usage.devices for usage in site.foreign.values()), holdings)


def least_held(site: NodeUse, base: Node, request: Request, *, may_exceed: bool) -> tuple[int, ...]:
    """Return the lowest free devices for a request; where too few are free, the least held others too.

    `may_exceed`: devices beyond those of the node are free. A running pod keeps the devices that its claims
    name, even while the driver of the node is missing.
    """
    memory = base.gpu_memory
    taken = dict.fromkeys((device for assumed in site.numbers.values() for device in assumed), WHOLE_MILLI)
    for device, share in device_shares(site.own_pods.values(), memory).items():
        taken[device] = taken.get(device, 0) + share
    pod_request = request.share_on(memory)
    device_count = len(taken) + request.devices if may_exceed else 0
    least = sorted(
        range(max(base.gpus, device_count)),
        key=lambda device: (
            taken.get(device, 0) if taken.get(device, 0) + pod_request > WHOLE_MILLI else 0,
            device,
        ),
    )
    return tuple(sorted(least[: request.devices]))


def is_tolerated(request: Request, taint: Taint) -> bool:
    """Return True if the request tolerates the taint."""
    return any(toleration.tolerates(taint) for toleration in request.tolerations)


def total_amounts(amounts: Iterable[Amounts]) -> dict[str, int]:
    """Return the sum of several amounts."""
    totals: dict[str, int] = {}
    for request_amounts in amounts:
        for name, amount in request_amounts:
            totals[name] = totals.get(name, 0) + amount
    return totals


def refusal_by_amount(pod: str, place: PodUsage, site: NodeUse, base: Node) -> str:
    """Return the amount or device that a charged pod lacks because of other pods; empty if none.

    Copies of claims aren't amounts: the allocator has chosen their devices already.
    """
    allocated = [amounts_of(usage.request) for usage in site.own_pods.values()]
    totals = total_amounts([*allocated, *(usage.takes for usage in site.foreign.values())])
    for name, amount in amounts_of(place.request):
        has = site.limits.get(name, has_unstated(name))
        has = base.capacity.get(name, 0) if has is None else has
        if name.startswith(CLAIMS_PREFIX):
            continue
        if amount and totals.get(name, 0) > has:
            return f"Others took the {name} of node {place.node} that pod {pod} was to have."
    shares = device_shares(site.own_pods.values(), base.gpu_memory)
    if any(shares.get(device, 0) > WHOLE_MILLI for device in place.devices):
        return f"Another pod has devices of node {place.node} that pod {pod} was to have."
    theirs = sum(usage.devices for usage in site.foreign.values())
    if place.devices and len(shares) + theirs > base.gpus:
        return f"Others took devices of node {place.node} that pod {pod} was to have."
    return ""


def sharing_state(site: NodeUse) -> str:
    """Return how far a node is reserved for shares; empty if it serves whole devices."""
    shared = site.shared
    if shared is None:
        return ""
    if not shared.set_aside:
        return DRAINING if any(is_share(usage.request) for usage in site.own_pods.values()) else ""
    whole = any(usage.devices for usage in site.foreign.values()) or any(
        usage.request.devices and not is_share(usage.request) for usage in site.own_pods.values()
    )
    return SET_ASIDE if shared.tainted and not whole else DRAINING


def device_numbers(site: NodeUse, base: Node) -> dict[str, tuple[int, ...]]:
    """Return the devices assumed for each foreign pod: the highest free ones, which then stay the same."""
    own_devices = {device for usage in site.own_pods.values() for device in usage.devices}
    for pod, numbers in list(site.numbers.items()):
        if own_devices.intersection(numbers) or max(numbers, default=-1) >= base.gpus:
            del site.numbers[pod]  # one of Weir's pods has these devices
    theirs = {device for assumed in site.numbers.values() for device in assumed}
    for pod, usage in site.foreign.items():
        if usage.devices and pod not in site.numbers:
            # if too few are free, take used ones last
            best = sorted(
                range(base.gpus), key=lambda device: (device in theirs, device in own_devices, -device)
            )
            site.numbers[pod] = tuple(sorted(best[: usage.devices]))
            theirs.update(site.numbers[pod])
    return site.numbers
