"""Values of CEL that Python lacks: quantities, semantic versions, optional values, maps with a default."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import total_ordering
from typing import Any

from weir.kubernetes.claims.cel_syntax import Unsigned
from weir.kubernetes.translate.quantities import exact

_SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)
_SEMVER_MOST = 256
_WHOLE_MOST = 1 << 63


Charge = Callable[[int], None]
"""Charges a cost; raises `CelError` where the budget is spent."""


class CelError(Exception):
    """An evaluation has no value: a missing key, a wrong type, too high a cost."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of Kubernetes."""

    amount: Fraction


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A semantic version; build metadata doesn't count in comparisons of order."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[tuple[int, int, str], ...] = ()
    build: str = ""

    def _order(self) -> tuple[object, ...]:
        return (self.major, self.minor, self.patch, not self.prerelease, self.prerelease)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._order() == other._order()

    def __lt__(self, other: "Semver") -> bool:
        return self._order() < other._order()

    def __hash__(self) -> int:
        return hash(self._order())


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """An optional value of CEL."""

    value: Any = None
    present: bool = False


class DefaultMap(Mapping[str, Any]):
    """A map that gives an empty map for a missing key, as device attributes do for a missing domain."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self._entries = entries

    def __getitem__(self, key: str) -> Any:
        return self._entries.get(key, {})

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def semver_of(text: str) -> Semver:
    """Return a semantic version.

    Raises:
        CelError: the text isn't one.
    """
    match = _SEMVER.fullmatch(text) if len(text) <= _SEMVER_MOST else None
    if match is None:
        raise CelError(f"{text!r} is no semantic version")
    parts = []
    for part in (match[4] or "").split(".") if match[4] else ():
        if part.isdecimal():
            if len(part) > 1 and part[0] == "0":
                raise CelError(f"{text!r} is no semantic version")
            parts.append((0, int(part), ""))
        else:
            parts.append((1, 0, part))
    return Semver(int(match[1]), int(match[2]), int(match[3]), tuple(parts), match[5] or "")


def quantity_of(text: str) -> Quantity:
    """Return a quantity.

    Raises:
        CelError: the text isn't one.
    """
    try:
        return Quantity(exact(text))
    except ValueError:
        raise CelError(f"{text!r} is no quantity") from None


def is_number(value: Any) -> bool:
    """Return True for a number of CEL; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def type_name(value: Any) -> str:
    """Return the name of a value's type."""
    if value is None:
        return "null_type"
    names = (
        (bool, "bool"),
        (Unsigned, "uint"),
        (int, "int"),
        (float, "double"),
        (str, "string"),
        (list, "list"),
        (Mapping, "map"),
        (Quantity, "quantity"),
        (Semver, "semver"),
        (OptionalValue, "optional"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "unknown")


def equals(first: Any, second: Any, charge: Charge) -> bool:
    """Return True if two values are equal: numbers across types, everything else within one.

    Each pair is charged: a list that holds another one many times is far larger than the text that wrote it.
    """
    charge(1)
    if is_number(first) and is_number(second):
        return bool(first == second)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(
            equals(one, other, charge) for one, other in zip(first, second, strict=True)
        )
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return len(first) == len(second) and all(
            key in second and equals(first[key], second[key], charge) for key in first
        )
    if type_name(first) != type_name(second):
        return False
    return bool(first == second)


def compare(first: Any, second: Any) -> int:
    """Return -1, 0 or 1 by the order of two values.

    Raises:
        CelError: they have no order.
    """
    alike = (is_number(first) and is_number(second)) or (
        type_name(first) == type_name(second) and isinstance(first, bool | str)
    )
    if not alike:
        raise CelError(f"no order between {type_name(first)} and {type_name(second)}")
    return int(first > second) - int(first < second)


def whole(value: int, like: Any = 0) -> int:
    """Return an integer within 64 bits, unsigned if `like` is.

    Raises:
        CelError: it isn't within them.
    """
    if isinstance(like, Unsigned):
        if not 0 <= value < 2 * _WHOLE_MOST:
            raise CelError("unsigned integer overflow")
        return Unsigned(value)
    if not -_WHOLE_MOST <= value < _WHOLE_MOST:
        raise CelError("integer overflow")
    return value
