"""Distinct sets of claims, and how many copies of each fit a node.

Nodes with devices of equal content in equal use share one count: a large cluster has few kinds of nodes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from weir.kubernetes.api.resource_objects import DeviceClass
from weir.kubernetes.claims.allocation_status import new_allocations
from weir.kubernetes.claims.allocator import STEPS_MAX, ClaimRefusal, allocate
from weir.kubernetes.claims.cel.evaluator import StepMeter
from weir.kubernetes.claims.cel.values import CelError
from weir.kubernetes.claims.claim_requests import ClaimError, ClaimRequests, ExactDevices
from weir.kubernetes.claims.device_usage import ClaimedDeviceUsage
from weir.kubernetes.claims.devices import PoolDevice
from weir.kubernetes.claims.extended_resources import ExtendedResources
from weir.kubernetes.claims.gpu_shares import ShareAmounts
from weir.kubernetes.claims.pools import DevicePool
from weir.kubernetes.claims.selector_results import SelectorResults
from weir.kubernetes.state.claims.inventory import ClaimInventory
from weir.kubernetes.translate.requests import PLENTY
from weir.model.nodes import Node
from weir.model.resources import CLAIMS_PREFIX, TAINTED_PREFIX

COPIES_MAX = 128
"""Limit of counted copies of a claim set on a node. Once these are allocated, more are counted."""
USUAL_STEPS = 1000
"""Devices tried to count the free copies of a set on a node."""
FURTHER_STEPS_MAX = 200_000
"""Limit of further devices tried for one set on all nodes, which takes a second or two."""
_TEXT_MAX = 160
AmountsOn = Callable[[Node, ExtendedResources], ShareAmounts]
"""Returns the amounts of a share on a node."""
_COUNTS_MAX = 100_000


@dataclass(slots=True)
class ClaimSet:
    """A distinct set of claims, and the pods that need one copy of it."""

    resource: str
    claims: list[ClaimRequests]
    # Extended resources to claim on nodes without a device plugin for them
    extended: ExtendedResources | None = None
    pods: set[str] = field(default_factory=set)
    variants: dict[object, list[ClaimRequests]] = field(default_factory=dict)

    def claims_on(
        self, node: Node, classes: Mapping[str, DeviceClass], amounts_on: AmountsOn
    ) -> list[ClaimRequests]:
        """Return the claims that a pod needs on a node."""
        names = () if self.extended is None else self.extended.claimed_on(node)
        if self.extended is None or not names:
            return self.claims
        amounts = amounts_on(node, self.extended)
        variant = self.variants.get((names, amounts))
        if variant is None:
            claim = self.extended.claim_requests(names, classes, amounts)
            variant = self.variants[names, amounts] = [*self.claims, claim]
        return variant


class ClaimSets:
    """Groups pods by the claims that they need, so that each set is counted once."""

    def __init__(self, inventory: ClaimInventory, results: SelectorResults, amounts_on: AmountsOn) -> None:
        self._inventory = inventory
        self._amounts_on = amounts_on
        self._results = results
        self._sets: dict[str, ClaimSet] = {}  # by resource
        self._set_of: dict[str, str] = {}
        self._copies: dict[tuple[object, ...], int] = {}
        self._on_node: dict[str, dict[str, int]] = {}  # copies that fit, by node and resource
        self.further_steps: Counter[str] = Counter()  # devices tried beyond the usual number, by resource
        self._added = False

    def take_added(self) -> bool:
        """Return True if a set of claims was added since the last call."""
        added, self._added = self._added, False
        return added

    def forget_copies(self) -> None:
        """Discard all counts of copies, because classes or devices have changed."""
        self._copies.clear()

    def count_again(self, nodes: Iterable[str] | None) -> None:
        """Mark all sets on these nodes for a recount, because devices changed; None: on all."""
        if nodes is None:
            self._on_node.clear()
            return
        for name in nodes:
            self._on_node.pop(name, None)

    def join(
        self,
        key: str,
        counted: Sequence[tuple[str, ClaimRequests]],
        extended: ExtendedResources | None = None,
    ) -> str:
        """Count a pod among those that need a copy of the same claims; return their resource.

        Raises:
            ClaimError: the class of an extended resource can't be used.
        """
        named = list(counted)
        if extended is not None:
            whole = extended.claim_requests(extended.names, self._inventory.classes)
            share = () if extended.share is None else (str(extended.share),)
            named.append((", ".join((*share, *extended.names)), whole))
        specs = msgspec.json.encode(
            [
                (label, claim.claim.spec.devices.requests, claim.claim.spec.devices.constraints)
                for label, claim in named
            ]
        )
        resource = f"{CLAIMS_PREFIX}{_described(named)} #{sha256(specs).hexdigest()[:8]}"
        if self._set_of.get(key) != resource:
            self.leave(key)
        claim_set = self._sets.get(resource)
        if claim_set is None:
            claim_set = self._sets[resource] = ClaimSet(resource, [])
            self._added = True
        claim_set.claims, claim_set.extended = [claim for _, claim in counted], extended
        claim_set.variants.clear()
        claim_set.pods.add(key)
        self._set_of[key] = resource
        return resource

    def leave(self, key: str) -> None:
        """Stop counting a pod among those that need a copy."""
        resource = self._set_of.pop(key, None)
        if resource is not None:
            self._sets[resource].pods.discard(key)
            if not self._sets[resource].pods:
                del self._sets[resource], self.further_steps[resource]

    def copies(self, node: Node) -> dict[str, int]:
        """Return how many more copies of each set of claims fit a node, by resource.

        A new set is counted alone: the counts of other sets stay valid until the node changes.
        """
        pools = self._inventory.pools(node)
        sets = (
            self._sets.values()
            if pools
            else [claim_set for claim_set in self._sets.values() if claim_set.extended]
        )
        if not sets:
            return {}
        before = self._on_node.get(node.name, {})
        missing = [claim_set for claim_set in sets if claim_set.resource not in before]
        counted: dict[str, int] = {}
        if missing:
            usage = self._inventory.usage(pools)
            counted = {
                claim_set.resource: self._fitting(claim_set, node, pools, usage) for claim_set in missing
            }
        copies = {
            claim_set.resource: before[claim_set.resource]
            if claim_set.resource in before
            else counted[claim_set.resource]
            for claim_set in sets
        }
        self._on_node[node.name] = copies
        return {**copies, **_provided_amounts(sets, node), **self._tainted(sets, copies, node, pools)}

    def _tainted(
        self, sets: Iterable[ClaimSet], copies: Mapping[str, int], node: Node, pools: Sequence[DevicePool]
    ) -> dict[str, int]:
        """Return by claim set without a fitting copy the number of free devices that only taints refuse."""
        usage = self._inventory.usage(pools)
        devices = [
            device
            for pool in pools
            for device in pool.devices
            if device.taints and device.key not in usage.exclusive
        ]
        tainted = {}
        for claim_set in sets if devices else ():
            if copies[claim_set.resource]:
                continue
            with suppress(ClaimError):
                wanted = _wanted(claim_set.claims_on(node, self._inventory.classes, self._amounts_on))
                count = sum(any(self._keeps(device, one) for one in wanted) for device in devices)
                if count:
                    tainted[f"{TAINTED_PREFIX}{claim_set.resource.removeprefix(CLAIMS_PREFIX)}"] = count
        return tainted

    def _keeps(self, device: PoolDevice, wanted: ExactDevices) -> bool:
        """Return True if a device matches a request that doesn't tolerate its taints."""
        return _verdict(self._results, wanted, device) is True and not wanted.tolerates(device)

    def _fitting(
        self, claim_set: ClaimSet, node: Node, pools: Sequence[DevicePool], usage: ClaimedDeviceUsage
    ) -> int:
        try:
            claims = claim_set.claims_on(node, self._inventory.classes, self._amounts_on)
        except ClaimError:
            return 0  # the device class was deleted while a pod of it runs
        if not claims:
            return PLENTY  # device plugins count the devices of this node
        alike = (claim_set.resource, *_likeness(claims, pools, usage, self._results))
        copies = self._copies.get(alike)
        if copies is None:
            if len(self._copies) >= _COUNTS_MAX:
                self._copies.clear()
            if self.further_steps[claim_set.resource] > FURTHER_STEPS_MAX:
                return 0  # the search takes too long, and other sets would have to wait
            meter = StepMeter()
            copies = self._copies[alike] = self._counted(claims, pools, usage, meter)
            self.further_steps[claim_set.resource] += max(0, meter.steps - USUAL_STEPS)
        return copies

    def _counted(
        self,
        claims: Sequence[ClaimRequests],
        pools: Sequence[DevicePool],
        usage: ClaimedDeviceUsage,
        meter: StepMeter,
    ) -> int:
        held = ClaimedDeviceUsage(
            set(usage.exclusive), {key: dict(consumed) for key, consumed in usage.shared.items()}
        )
        for copies in range(COPIES_MAX):
            chosen = allocate(claims, pools, held, self._results, meter=meter)
            if isinstance(chosen, ClaimRefusal):
                return copies
            for allocation in new_allocations(claims, chosen, ""):
                for device in allocation.devices:
                    held.add(device)
            if not any(not pick.devices.admin for pick in chosen):
                return COPIES_MAX  # admin access uses no device up
            if meter.steps > STEPS_MAX:
                return copies + 1  # a lower bound: the rest is counted after this allocation
        return COPIES_MAX


def _provided_amounts(sets: Iterable[ClaimSet], node: Node) -> dict[str, int]:
    """Return the resources that nodes count in amounts and that are claimed on this one."""
    return {
        name: PLENTY
        for claim_set in sets
        if claim_set.extended is not None and claim_set.extended.amounts
        for name in claim_set.extended.claimed_on(node)
        if name in claim_set.extended.amounts
    }


def _described(counted: Sequence[tuple[str, ClaimRequests]]) -> str:
    """Return the claims of a pod in words: the name that the pod gives each of them, and the request."""
    parts = []
    for label, claim in counted:
        wishes = [
            " or ".join(
                f"{alternative.count or 'all'} of {alternative.describe()}" for alternative in alternatives
            )
            for alternatives in claim.requests
        ]
        parts.append(f"{label} ({'; '.join(wishes)})")
    text = ", ".join(parts)
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"


def _likeness(
    claims: Sequence[ClaimRequests],
    pools: Sequence[DevicePool],
    usage: ClaimedDeviceUsage,
    results: SelectorResults,
) -> tuple[object, ...]:
    """Return a value that is equal for nodes whose devices are equal for these claims, and equally in use."""
    wanted = _wanted(claims)
    named = sorted({constraint.attribute for claim in claims for constraint in claim.constraints()})
    return tuple(
        (
            pool.problem,
            tuple(sorted((pool.counters or {}).items())),
            tuple(
                (
                    tuple(_verdict(results, alternative, device) for alternative in wanted),
                    tuple(device.attribute(name) for name in named),
                    tuple(device.capacity.items()),
                    device.shareable,
                    device.counters,
                    device.taints,
                    device.key in usage.exclusive,
                    tuple(sorted(usage.shared[device.key].items())) if device.key in usage.shared else None,
                )
                for device in pool.devices
            ),
            tuple(
                device.counters for device in pool.all_devices if device.counters and usage.uses(device.key)
            ),
        )
        for pool in pools
    )


def _wanted(claims: Iterable[ClaimRequests]) -> list[ExactDevices]:
    """Return the alternatives of all requests of these claims."""
    return [
        alternative for claim in claims for alternatives in claim.requests for alternative in alternatives
    ]


def _verdict(results: SelectorResults, devices: ExactDevices, device: PoolDevice) -> bool | str:
    try:
        return results.matches(devices, device)
    except CelError as error:
        return str(error)
