"""Operators of CEL on values: arithmetic, order, membership, and the entries of lists and maps."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from weir.kubernetes.claims.cel.literals import Unsigned
from weir.kubernetes.claims.cel.overloads import TEXT_PER_STEP, expect_size
from weir.kubernetes.claims.cel.times import added, subtracted
from weir.kubernetes.claims.cel.values import (
    CelError,
    Charge,
    DefaultMap,
    Duration,
    OptionalValue,
    Timestamp,
    compare,
    equals,
    has_key,
    is_number,
    type_name,
    whole,
)

_STRICT = ("kubernetes.", "net.")
"""Prefixes of the types of Kubernetes: `==` with a value of another type is an error, and `!=` is true."""
_ORDERS: dict[str, Callable[[int], bool]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def computed(sign: str, first: Any, second: Any, charge: Charge) -> Any:
    """Return the value of an operator with two sides.

    Raises:
        CelError: the operator has no value for these operands.
    """
    if isinstance(first, str | bytes | list | Mapping):
        charge(len(first) // TEXT_PER_STEP)
    if sign == "==":
        _expect_comparable(first, second)
    if sign in ("==", "!="):
        return equals(first, second, charge) == (sign == "==")
    if sign == "in":
        return _is_in(first, second, charge)
    if sign in _ORDERS:
        return _ORDERS[sign](compare(first, second))
    if isinstance(first, Duration | Timestamp) and isinstance(second, Duration | Timestamp):
        if sign in ("+", "-"):
            return (added if sign == "+" else subtracted)(first, second)
    elif sign == "+" and not is_number(first):
        return _joined(first, second, charge)
    return _calculated(sign, first, second)


def negated(value: Any) -> Any:
    """Return a number with the other sign.

    Raises:
        CelError: the operand is no signed number.
    """
    if not is_number(value) or isinstance(value, Unsigned):
        raise CelError(f"no such overload for {type_name(value)}")
    return -value if isinstance(value, float) else whole(-value)


def entry(target: Any, key: Any) -> Any:
    """Return an item of a list or the value of a map's key.

    Raises:
        CelError: the item doesn't exist.
    """
    if isinstance(target, list):
        index = _index(key)
        if not 0 <= index < len(target):
            raise CelError("index out of range")
        return target[index]
    if has_entry(target, key):
        return target[key]
    if isinstance(target, Mapping):
        raise CelError(f"no such key: {str(key)[:100]}")
    raise CelError(f"{type_name(target)} has no fields")


def optional_entry(target: Any, key: Any) -> OptionalValue:
    """Return an item of a list or a map as an optional value; also of an optional list or map.

    Raises:
        CelError: the key can't be one of a list or map.
    """
    if isinstance(target, OptionalValue):
        if not target.present:
            return target
        target = target.value
    if isinstance(target, list):
        index = _index(key)
        return OptionalValue(target[index], present=True) if 0 <= index < len(target) else OptionalValue()
    return OptionalValue(entry(target, key), present=True) if has_entry(target, key) else OptionalValue()


def has_entry(target: Any, key: Any) -> bool:
    """Return True if a value is a map with an entry for a key, by default or as its own.

    Raises:
        CelError: the key is none of a map.
    """
    if isinstance(target, list) or not isinstance(key, str | int | float):
        raise CelError(f"{type_name(key)} is no key of {type_name(target)}")
    return isinstance(target, Mapping) and (has_key(target, key) or isinstance(target, DefaultMap))


def _index(key: Any) -> int:
    if not is_number(key) or not float(key).is_integer():
        raise CelError(f"{type_name(key)} is no index of a list")
    return int(key)


def _expect_comparable(first: Any, second: Any) -> None:
    if type(first) is type(second):
        return
    one, other = type_name(first), type_name(second)
    if one != other and one.startswith(_STRICT):
        raise CelError(f"no such overload: {one} == {other}")


def _is_in(item: Any, items: Any, charge: Charge) -> bool:
    if isinstance(items, list):
        return any(equals(item, member, charge) for member in items)
    if isinstance(items, Mapping):
        return has_key(items, item)
    raise CelError(f"no such overload: in {type_name(items)}")


def _joined(first: Any, second: Any, charge: Charge) -> Any:
    if type(first) is not type(second) or not isinstance(first, str | bytes | list):
        raise CelError(f"no such overload: {type_name(first)} + {type_name(second)}")
    size = len(first) + len(second)
    expect_size(size)
    charge(size // TEXT_PER_STEP)
    return first + second


def _calculated(sign: str, first: Any, second: Any) -> Any:
    if not is_number(first) or type_name(first) != type_name(second):
        raise CelError(f"no such overload: {type_name(first)} {sign} {type_name(second)}")
    if isinstance(first, float):
        return _calculated_double(sign, first, second)
    if sign in "/%" and second == 0:
        raise CelError("division by zero")
    if sign == "/":
        quotient = abs(first) // abs(second)
        return whole(quotient if (first < 0) == (second < 0) else -quotient, first)
    if sign == "%":
        rest = abs(first) % abs(second)
        return whole(-rest if first < 0 else rest, first)
    return whole({"+": first + second, "-": first - second, "*": first * second}[sign], first)


def _calculated_double(sign: str, first: float, second: float) -> float:
    if sign == "/":
        if second == 0:
            infinite = math.copysign(math.inf, first) * math.copysign(1, second)
            return infinite if first and not math.isnan(first) else math.nan
        return first / second
    if sign == "%":
        raise CelError("no such overload: double % double")
    return {"+": first + second, "-": first - second, "*": first * second}[sign]
