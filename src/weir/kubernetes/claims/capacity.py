"""Consumable capacity: the amounts that a request takes of a device, by the device's own rules."""

import math
from collections.abc import Mapping
from fractions import Fraction

from weir.kubernetes.claims.devices import Amounts, CapacityRule, PoolDevice


def consumed_amounts(device: PoolDevice, requested: Amounts) -> dict[str, Fraction] | None:
    """Return the amounts that a request takes of each capacity of a device; None if its rules forbid it."""
    if not requested.keys() <= device.capacity.keys():
        return None
    consumed = {name: _consumed(capacity, requested.get(name)) for name, capacity in device.capacity.items()}
    if any(_violates(device.capacity[name], amount) for name, amount in consumed.items()):
        return None
    return consumed


def fits(device: PoolDevice, consumed: Amounts, *others: Mapping[str, Fraction]) -> bool:
    """Return True if these amounts fit besides those in use."""
    return all(
        amount + sum((held.get(name, Fraction()) for held in others), Fraction())
        <= device.capacity[name].value
        for name, amount in consumed.items()
    )


def _consumed(capacity: CapacityRule, requested: Fraction | None) -> Fraction:
    if requested is None:
        return capacity.value if capacity.default is None else capacity.default
    if capacity.least is not None:
        return _rounded(capacity, capacity.least, requested)
    return next((value for value in capacity.valid_values if requested <= value), requested)


def _rounded(capacity: CapacityRule, least: Fraction, requested: Fraction) -> Fraction:
    """Return the next amount of a range: steps are counted in whole numbers from its minimum."""
    if requested < least:
        return least
    if not capacity.step:
        return requested
    first, step = math.ceil(least), math.ceil(capacity.step)
    steps = -((first - math.ceil(requested)) // step)
    return Fraction(first + step * max(0, steps))


def _violates(capacity: CapacityRule, amount: Fraction) -> bool:
    if capacity.default is not None and amount == capacity.default:
        return False
    if capacity.has_range:
        if capacity.most is not None and amount > capacity.most:
            return True
        if not capacity.step:
            return False
        first = math.ceil(capacity.least or 0)
        return (math.ceil(amount) - first) % math.ceil(capacity.step) != 0
    return bool(capacity.valid_values) and amount not in capacity.valid_values
