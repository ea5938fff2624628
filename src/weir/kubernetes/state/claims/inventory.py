"""Slices, taints of devices, device classes and resource claims, and the devices that allocations hold.

An allocation that Weir is about to write counts at once (`assume`), until the API server shows or refuses it.
"""

from collections.abc import Iterable, Iterator, Sequence

from weir.kubernetes.api.resource_objects import (
    AllocatedDevice,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from weir.kubernetes.claims.device_usage import ClaimedDeviceUsage
from weir.kubernetes.claims.pools import DevicePool, ParsedSlice, PoolKey, SliceIndex, parse_slice
from weir.kubernetes.claims.taint_rules import may_taint, tainted
from weir.model.nodes import Node

ClaimKey = tuple[str, str]
"""Namespace and name."""


class ClaimInventory:
    """Keeps the slices, device classes and claims of a cluster, and the devices in use."""

    def __init__(self) -> None:
        self.slices = SliceIndex()
        self._parsed: dict[str, ParsedSlice] = {}  # parsed slices, without the taints of taint rules
        self._taint_rules: dict[str, DeviceTaintRule] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.class_changes = 0
        self.claims: dict[ClaimKey, ResourceClaim] = {}
        self.assumed: dict[ClaimKey, tuple[AllocatedDevice, ...]] = {}
        self._made: set[ClaimKey] = set()  # assumed claims that have to be created, or created again
        self.changed_nodes: set[str] = set()  # nodes whose devices, or their use, have changed
        self.all_changed = False
        self.other_devices: set[str] = set()  # nodes whose devices may have changed
        self.all_other = False
        self._by_pool: dict[PoolKey, dict[ClaimKey, list[AllocatedDevice]]] = {}
        self._pools_of: dict[ClaimKey, set[PoolKey]] = {}  # pools with devices of a claim
        self._pools: dict[str, list[DevicePool]] = {}

    def see_slice(self, name: str, resource_slice: ResourceSlice | None) -> None:
        """Process a changed or deleted (None) slice."""
        self._parsed.pop(name, None)
        try:
            if resource_slice is not None:
                self._parsed[name] = parse_slice(resource_slice)
        finally:
            self._see_tainted(name)

    def _see_tainted(self, name: str) -> None:
        """Process a slice with the taints of all rules; remove it if it is deleted or unreadable."""
        parsed = self._parsed.get(name)
        if parsed is not None:
            parsed = tainted(parsed, self._taint_rules.values(), self.classes)
        self._changed(self.slices.see(name, parsed))

    def see_taint_rule(self, name: str, rule: DeviceTaintRule | None) -> None:
        """Process a changed or deleted (None) rule that taints devices."""
        before = self._taint_rules.pop(name, None)
        if rule is not None:
            self._taint_rules[name] = rule
        if before is None or rule is None or before.spec != rule.spec:
            self._taint_again(changed_rule for changed_rule in (before, rule) if changed_rule is not None)

    def _taint_again(self, rules: Iterable[DeviceTaintRule]) -> None:
        """Apply the taints again to devices that these rules may select."""
        changed = list(rules)
        for name, parsed in self._parsed.items():
            if any(may_taint(rule, parsed) for rule in changed):
                self._see_tainted(name)

    def see_class(self, name: str, device_class: DeviceClass | None) -> None:
        """Process a changed or deleted (None) device class."""
        if device_class is None:
            self.classes.pop(name, None)
        else:
            self.classes[name] = device_class
        self.class_changes += 1
        self._changed(None)
        chosen = [(rule, rule.spec.device_selector) for rule in self._taint_rules.values()]
        self._taint_again(rule for rule, by in chosen if by is not None and by.device_class_name == name)

    def see_claim(self, key: ClaimKey, claim: ResourceClaim | None) -> None:
        """Process a changed or deleted (None) claim."""
        before = self.claims.get(key)
        is_other = claim is None or (before is not None and before.metadata.uid != claim.metadata.uid)
        if is_other and key not in self._made:
            self.assumed.pop(key, None)
        if claim is None:
            self.claims.pop(key, None)
        else:
            self.claims[key] = claim
            if claim.status.allocation is not None:
                self.assumed.pop(key, None)
                self._made.discard(key)
        self._hold(key)

    def assume(self, key: ClaimKey, devices: tuple[AllocatedDevice, ...], *, is_made: bool = False) -> None:
        """Count an allocation before it is written; `is_made`: its claim is created first."""
        self.assumed[key] = devices
        if is_made:
            self._made.add(key)
        self._hold(key)

    def refused(self, key: ClaimKey, devices: tuple[AllocatedDevice, ...]) -> None:
        """Forget an allocation that wasn't written.

        Only this very allocation is forgotten: another one of the claim, for another pod, may have begun
        since.
        """
        if self.assumed.get(key) is devices:
            del self.assumed[key]
            self._made.discard(key)
            self._hold(key)

    def is_allocated(self, key: ClaimKey) -> bool:
        """Return True if the claim has devices, or is about to have them."""
        claim = self.claims.get(key)
        return key in self.assumed or (claim is not None and claim.status.allocation is not None)

    def is_settled(self, chosen: ResourceClaim) -> bool:
        """Return True if the API server shows a claim with devices, or no such claim: the outcome is final.

        A claim without a uid was to be created, and may still appear.
        """
        claim, uid = self.claims.get((chosen.metadata.namespace, chosen.metadata.name)), chosen.metadata.uid
        if claim is None or (uid and claim.metadata.uid != uid):
            return bool(uid)
        return claim.status.allocation is not None

    def set_node(self, name: str) -> None:
        """Process a changed or deleted node: its labels select the slices that it reaches."""
        if len(self.slices) or self.classes:
            self._changed({name})

    def pools(self, node: Node) -> list[DevicePool]:
        """Return the pools that a node reaches."""
        pools = self._pools.get(node.name)
        if pools is None:
            pools = self._pools[node.name] = self.slices.pools(node)
        return pools

    def names_devices(self, node: str, devices: Iterable[AllocatedDevice]) -> bool:
        """Return True if the slices of a node name these devices now."""
        named = {device.key for pool in self.pools_of_node(node) for device in pool.devices}
        return all((device.driver, device.pool, device.device) in named for device in devices)

    def allocated_to(self, claims: Iterable[ClaimKey]) -> Iterator[tuple[ResourceClaim, AllocatedDevice]]:
        """Yield the devices that the API server shows as allocated to claims, each with its claim."""
        for claim in filter(None, map(self.claims.get, claims)):
            if claim.status.allocation is not None:
                yield from ((claim, device) for device in claim.status.allocation.devices.results)

    def holders(self, device: AllocatedDevice) -> list[ClaimKey]:
        """Return the claims that hold a device, or a part of it."""
        in_pool = self._by_pool.get((device.driver, device.pool), {})
        return [
            key
            for key, held in in_pool.items()
            if any(held_device.device == device.device for held_device in held)
        ]

    def known_pools(self) -> Iterable[Sequence[DevicePool]]:
        """Return the pools of each node that was examined."""
        return self._pools.values()

    def pools_of_node(self, node: str) -> Sequence[DevicePool]:
        """Return the pools of a node by its name; none if it wasn't examined."""
        return self._pools.get(node, ())

    def usage(self, pools: Iterable[DevicePool]) -> ClaimedDeviceUsage:
        """Return the usage of these pools by allocations."""
        return ClaimedDeviceUsage.of(
            device
            for pool in pools
            for devices in self._by_pool.get(pool.key, {}).values()
            for device in devices
        )

    def _hold(self, key: ClaimKey) -> None:
        claim = self.claims.get(key)
        allocation = None if claim is None else claim.status.allocation
        devices = self.assumed.get(key, ()) if allocation is None else allocation.devices.results
        for pool in self._pools_of.pop(key, ()):
            del self._by_pool[pool][key]
            if not self._by_pool[pool]:
                del self._by_pool[pool]
            self._use_changed(pool)
        for device in devices:
            pool = (device.driver, device.pool)
            self._by_pool.setdefault(pool, {}).setdefault(key, []).append(device)
            self._pools_of.setdefault(key, set()).add(pool)
            self._use_changed(pool)

    def _use_changed(self, pool: PoolKey) -> None:
        nodes = self.slices.nodes_of(pool)
        if nodes is None:
            self.all_changed = True
        else:
            self.changed_nodes |= nodes

    def _changed(self, nodes: set[str] | None) -> None:
        if nodes is None:
            self.all_changed = self.all_other = True
            self._pools.clear()
            return
        self.changed_nodes |= nodes
        self.other_devices |= nodes
        for name in nodes:
            self._pools.pop(name, None)
