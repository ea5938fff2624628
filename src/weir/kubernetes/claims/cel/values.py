"""Values of CEL that Python lacks, the types of all values, and their equality and order."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import total_ordering
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from weir.kubernetes.claims.cel.literals import Unsigned

_SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)
_SEMVER_MAX = 256
_WHOLE_MAX = 1 << 63


Charge = Callable[[int], None]
"""Charges a cost; raises `CelError` where the budget is spent."""


class CelError(Exception):
    """An evaluation has no value: a missing key, a wrong type, too high a cost."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of Kubernetes.

    `whole` if Kubernetes counts it in 64 bits without a fraction, which it does not with 1000m or 100Ti.
    """

    amount: Fraction
    whole: bool = field(default=True, compare=False)


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


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type of CEL as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Cidr:
    """An address with the length of a prefix; host bits may be set."""

    address: IPv4Address | IPv6Address
    length: int


@dataclass(frozen=True, slots=True)
class Url:
    """A URL by its canonical text, with its parts; the path is unchanged."""

    canonical: str
    scheme: str = field(compare=False)
    host: str = field(compare=False)
    path: str = field(compare=False)
    query: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format of names of Kubernetes."""

    name: str


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in nanoseconds."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A time in nanoseconds since 1970, written with an offset from UTC in seconds."""

    nanoseconds: int
    offset: int = field(default=0, compare=False)


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
        CelError: the text isn't a semantic version.
    """
    match = _SEMVER.fullmatch(text) if len(text) <= _SEMVER_MAX else None
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
    version = Semver(int(match[1]), int(match[2]), int(match[3]), tuple(parts), match[5] or "")
    if (
        max(version.major, version.minor, version.patch, *(number for _, number, _ in parts), 0)
        >= 2 * _WHOLE_MAX
    ):
        raise CelError(f"{text!r} has a number beyond 64 bits")
    return version


def is_number(value: Any) -> bool:
    """Return True for a number of CEL; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPE_NAMES: tuple[tuple[type[Any], str], ...] = (
    (bool, "bool"),
    (Unsigned, "uint"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (list, "list"),
    (Mapping, "map"),
    (type(None), "null_type"),
    (TypeValue, "type"),
    (Duration, "google.protobuf.Duration"),
    (Timestamp, "google.protobuf.Timestamp"),
    (OptionalValue, "optional_type"),
    (IPv4Address, "net.IP"),
    (IPv6Address, "net.IP"),
    (Cidr, "net.CIDR"),
    (Quantity, "kubernetes.Quantity"),
    (Semver, "kubernetes.Semver"),
    (Url, "kubernetes.URL"),
    (NamedFormat, "kubernetes.NamedFormat"),
)
TYPES = {name: TypeValue(name) for _, name in _TYPE_NAMES if not name.startswith("kubernetes.")}
"""Types that an expression can name."""
_NAMES = dict(_TYPE_NAMES)
_PLAIN = frozenset((bool, int, str, bytes))
_COMPARABLE = (bool, str, bytes, Duration, Timestamp)


def type_name(value: Any) -> str:
    """Return the name of a value's type."""
    return _NAMES.get(type(value)) or ("map" if isinstance(value, Mapping) else "unknown")


def equals(first: Any, second: Any, charge: Charge) -> bool:
    """Return True if two values are equal: numbers across types, everything else within one.

    Each pair is charged: a list that holds another one many times is far larger than the text that wrote it.
    """
    charge(1)
    is_plain = type(first) is type(second) and type(first) in _PLAIN
    if is_plain or (is_number(first) and is_number(second)):
        return bool(first == second)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(
            equals(one, other, charge) for one, other in zip(first, second, strict=True)
        )
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return len(first) == len(second) and all(
            has_key(second, key) and equals(first[key], second[key], charge) for key in first
        )
    if isinstance(first, OptionalValue) and isinstance(second, OptionalValue):
        return first.present == second.present and equals(first.value, second.value, charge)
    return type_name(first) == type_name(second) and bool(first == second)


def has_key(entries: Mapping[Any, Any], key: Any) -> bool:
    """Return True if a map has a key; true and 1 are different keys, unlike in Python."""
    if not isinstance(key, str | int | float) or key not in entries:
        return False
    return isinstance(key, bool) == isinstance(next(iter(entries)), bool)


def compare(first: Any, second: Any) -> int:
    """Return -1, 0 or 1 by the order of two values.

    Raises:
        CelError: they have no order.
    """
    alike = (is_number(first) and is_number(second)) or (
        type(first) is type(second) and isinstance(first, _COMPARABLE)
    )
    if not alike:
        raise CelError(f"no order between {type_name(first)} and {type_name(second)}")
    if any(isinstance(number, float) and math.isnan(number) for number in (first, second)):
        raise CelError("NaN has no order")
    return int(first > second) - int(first < second)


def whole(value: int, like: Any = 0) -> int:
    """Return an integer within 64 bits, unsigned if `like` is.

    Raises:
        CelError: it isn't within them.
    """
    if isinstance(like, Unsigned):
        if not 0 <= value < 2 * _WHOLE_MAX:
            raise CelError("unsigned integer overflow")
        return Unsigned(value)
    if not -_WHOLE_MAX <= value < _WHOLE_MAX:
        raise CelError("integer overflow")
    return value
