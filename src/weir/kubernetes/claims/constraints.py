"""Constraints over the devices of a claim: one value of an attribute in common, or different values."""

from typing import Any

from weir.kubernetes.api.resource_objects import DeviceConstraint
from weir.kubernetes.claims.devices import PoolDevice

_Typed = tuple[str, frozenset[Any]]


class AttributeConstraint:
    """Checks that the chosen devices agree, or all differ, in an attribute."""

    def __init__(self, written: DeviceConstraint) -> None:
        """Read a constraint.

        Raises:
            ValueError: the constraint is of a kind that isn't supported.
        """
        self.attribute = written.match_attribute or written.distinct_attribute or ""
        if not self.attribute:
            raise ValueError("a constraint is of a kind that is not supported")
        self._is_match = bool(written.match_attribute)
        self._requests = frozenset(written.requests)
        self._chosen: list[_Typed] = []

    def covers(self, request: str, subrequest: str) -> bool:
        """Return True if the constraint is about a request."""
        if not self._requests or request in self._requests:
            return True
        return bool(subrequest) and f"{request}/{subrequest}" in self._requests

    def add(self, device: PoolDevice) -> bool:
        """Choose a device; return False, and change nothing, if the constraint forbids it."""
        attribute = device.attribute(self.attribute)
        if attribute is None:
            return False
        typed = attribute[0], frozenset(attribute[1])
        if not (self._is_alike(typed) if self._is_match else self._is_distinct(typed)):
            return False
        self._chosen.append(typed)
        return True

    def remove(self) -> None:
        """Remove the device that was chosen last."""
        self._chosen.pop()

    def _is_alike(self, typed: _Typed) -> bool:
        common = typed[1]
        for kind, values in self._chosen:
            if kind != typed[0]:
                return False
            common &= values
        return bool(common)

    def _is_distinct(self, typed: _Typed) -> bool:
        return all(kind != typed[0] or not values & typed[1] for kind, values in self._chosen)
