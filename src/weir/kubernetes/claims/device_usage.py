"""Usage of devices by allocated claims."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from weir.kubernetes.api.resource_objects import AllocatedDevice
from weir.kubernetes.claims.devices import DeviceKey
from weir.kubernetes.translate.quantities import exact


@dataclass(slots=True)
class ClaimedDeviceUsage:
    """Counts the devices in exclusive use, and the amounts held of shared ones."""

    exclusive: set[DeviceKey] = field(default_factory=set)
    shared: dict[DeviceKey, dict[str, Fraction]] = field(default_factory=dict)

    @classmethod
    def of(cls, allocated: Iterable[AllocatedDevice]) -> "ClaimedDeviceUsage":
        """Return the usage of allocated devices; access for administration uses nothing."""
        usage = cls()
        for device in allocated:
            usage.add(device)
        return usage

    def add(self, device: AllocatedDevice) -> None:
        """Count a device of an allocation; all of it if its amounts can't be read."""
        if device.admin_access:
            return
        key = (device.driver, device.pool, device.device)
        if device.share_id is None:
            self.exclusive.add(key)
            return
        try:
            consumed = {name: exact(amount) for name, amount in device.consumed_capacity.items()}
        except ValueError:
            consumed = {"": Fraction(-1)}
        if any(amount < 0 for amount in consumed.values()):
            self.exclusive.add(key)  # the remaining amount is unknown
            return
        held = self.shared.setdefault(key, {})
        for name, amount in consumed.items():
            held[name] = held.get(name, Fraction()) + amount

    def uses(self, key: DeviceKey) -> bool:
        """Return True if a claim holds the device or a share of it."""
        return key in self.exclusive or key in self.shared
