"""Functions and methods of CEL that device selectors may use, with those that Kubernetes adds."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

from weir.kubernetes.claims.cel_syntax import Unsigned
from weir.kubernetes.claims.cel_values import (
    CelError,
    OptionalValue,
    Quantity,
    Semver,
    compare,
    equals,
    is_number,
    quantity_of,
    semver_of,
    type_name,
    whole,
)
from weir.kubernetes.claims.linear_regex import PatternError, compiled

SIZE_MOST = 100_000
"""Characters or items of a value that an expression builds."""
INCLUDES_MOST = 48
Charge = Callable[[int], None]
"""Charges a cost; raises `CelError` where the budget is spent."""
Function = Callable[..., Any]


def _expects(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise CelError(f"no such overload for {type_name(value)}")
    return value


def _text(value: Any) -> str:
    return str(_expects(value, str))


def _index(value: Any) -> int:
    return int(_expects(value, int))


# Conversions


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        digits = value[1:] if value[:1] in ("-", "+") else value
        if not digits.isdecimal() or not digits.isascii() or len(digits) > 20:
            raise CelError(f"{value!r} is no integer")
        return whole(int(value))
    if not is_number(value) or (isinstance(value, float) and not math.isfinite(value)):
        raise CelError(f"{type_name(value)} can't be converted to an integer")
    return whole(int(value))


def _to_uint(value: Any) -> int:
    return whole(int(_to_int(value)), Unsigned(0))


def _to_double(value: Any) -> float:
    try:
        return float(_expects(value, str, int, float))
    except (ValueError, OverflowError):
        raise CelError(f"{value!r} is no number") from None


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    return str(_expects(value, str, int))


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "True", "TRUE", "t", "1"):
        return True
    if value in ("false", "False", "FALSE", "f", "0"):
        return False
    raise CelError(f"{value!r} is no boolean")


def _size(value: Any) -> int:
    return len(_expects(value, str, list, Mapping))


def _can(convert: Callable[[str], object]) -> Function:
    def check(value: Any) -> bool:
        try:
            convert(_text(value))
        except CelError:
            return False
        return True

    return check


FUNCTIONS: dict[str, Function] = {
    "size": _size,
    "int": _to_int,
    "uint": _to_uint,
    "double": _to_double,
    "string": _to_string,
    "bool": _to_bool,
    "dyn": lambda value: value,
    "type": type_name,
    "quantity": lambda text: quantity_of(_text(text)),
    "isQuantity": _can(quantity_of),
    "semver": lambda text: semver_of(_text(text)),
    "isSemver": _can(semver_of),
    "optional.of": lambda value: OptionalValue(value, present=True),
    "optional.none": OptionalValue,
    "optional.ofNonZeroValue": lambda value: OptionalValue(value, present=True) if value else OptionalValue(),
    "sets.contains": lambda first, second: all(_among(each, first) for each in _items(second)),
    "sets.equivalent": lambda first, second: (
        all(_among(each, first) for each in _items(second))
        and all(_among(each, second) for each in _items(first))
    ),
    "sets.intersects": lambda first, second: any(_among(each, first) for each in _items(second)),
}
TYPE_NAMES = ("bool", "int", "uint", "double", "string", "list", "map", "null_type")


def _items(value: Any) -> list[Any]:
    items: list[Any] = _expects(value, list)
    return items


def _among(value: Any, items: Any) -> bool:
    return any(equals(value, each) for each in _items(items))


# Methods


def _matches(text: Any, pattern: Any, charge: Charge) -> bool:
    try:
        program = compiled(_text(pattern))
    except PatternError as error:
        raise CelError(str(error)) from None
    charge(1 + program.size * (len(_text(text)) + 1) // 10)
    return program.search(text)


def _slice(text: str, start: Any, end: Any = None) -> str:
    last = len(text) if end is None else _index(end)
    if not 0 <= _index(start) <= last <= len(text):
        raise CelError("index out of range")
    return text[start:last]


def _char_at(text: str, at: Any) -> str:
    if not 0 <= _index(at) <= len(text):
        raise CelError("index out of range")
    return text[at : at + 1]


def _position(value: Any, part: Any, start: Any = 0) -> int:
    if isinstance(value, str):
        return value.find(_text(part), _index(start))
    return next((at for at, each in enumerate(value) if equals(each, part)), -1)


def _last_position(value: Any, part: Any) -> int:
    if isinstance(value, str):
        return value.rfind(_text(part))
    return next((at for at in reversed(range(len(value))) if equals(value[at], part)), -1)


def _split(text: str, separator: Any, most: Any = -1) -> list[str]:
    if _index(most) == 0:
        return []
    if not _text(separator):
        return list(text) if most < 0 else [*text[: most - 1], text[most - 1 :]]
    return text.split(separator, most - 1 if most > 0 else -1)


def _replace(text: str, old: Any, new: Any, most: Any = -1) -> str:
    if len(text) + (len(text) + 1) * len(_text(new)) > SIZE_MOST:
        raise CelError("a value is too large")
    return text.replace(_text(old), new, max(-1, _index(most)))


def _join(items: list[Any], separator: Any = "") -> str:
    if len(items) * len(_text(separator)) + sum(len(_text(each)) for each in items) > SIZE_MOST:
        raise CelError("a value is too large")
    return str(separator).join(items)


def _includes(value: Any, part: Any) -> bool:
    if not isinstance(value, list):
        return equals(value, part)
    if len(value) > INCLUDES_MOST:
        raise CelError(f"includes() takes a list of at most {INCLUDES_MOST}")
    return _among(part, value)


def _sum(items: list[Any]) -> Any:
    total: Any = 0
    for each in items:
        if not is_number(each):
            raise CelError("sum() takes numbers")
        total += each
    return whole(total) if isinstance(total, int) else total


def _extreme(items: list[Any], sign: int) -> Any:
    if not items:
        raise CelError("an empty list has no least or greatest item")
    best = items[0]
    for each in items[1:]:
        if compare(each, best) == sign:
            best = each
    return best


_STRING_METHODS: dict[str, Function] = {
    "startsWith": lambda text, part: text.startswith(_text(part)),
    "endsWith": lambda text, part: text.endswith(_text(part)),
    "contains": lambda text, part: _text(part) in text,
    "size": len,
    "lowerAscii": lambda text: "".join(char.lower() if char.isascii() else char for char in text),
    "upperAscii": lambda text: "".join(char.upper() if char.isascii() else char for char in text),
    "trim": lambda text: text.strip(),
    "reverse": lambda text: text[::-1],
    "charAt": _char_at,
    "substring": _slice,
    "indexOf": _position,
    "lastIndexOf": _last_position,
    "split": _split,
    "replace": _replace,
}
_LIST_METHODS: dict[str, Function] = {
    "size": len,
    "join": _join,
    "indexOf": _position,
    "lastIndexOf": _last_position,
    "isSorted": lambda items: all(compare(a, b) <= 0 for a, b in pairwise(items)),
    "sum": _sum,
    "min": lambda items: _extreme(items, -1),
    "max": lambda items: _extreme(items, 1),
}


def _other(value: Any, kind: type[Any]) -> Any:
    return _expects(value, kind)


def _amount(value: Any) -> Fraction:
    return value.amount if isinstance(value, Quantity) else Fraction(_index(value))


_QUANTITY_METHODS: dict[str, Function] = {
    "compareTo": lambda one, other: (
        (one.amount > _other(other, Quantity).amount) - (one.amount < other.amount)
    ),
    "isGreaterThan": lambda one, other: one.amount > _other(other, Quantity).amount,
    "isLessThan": lambda one, other: one.amount < _other(other, Quantity).amount,
    "sign": lambda one: (one.amount > 0) - (one.amount < 0),
    "isInteger": lambda one: one.amount.denominator == 1 and abs(one.amount) < 1 << 63,
    "asInteger": lambda one: _to_whole(one.amount),
    "asApproximateFloat": lambda one: float(one.amount),
    "add": lambda one, other: Quantity(one.amount + _amount(other)),
    "sub": lambda one, other: Quantity(one.amount - _amount(other)),
}
_SEMVER_METHODS: dict[str, Function] = {
    "compareTo": lambda one, other: (one > _other(other, Semver)) - (one < other),
    "isGreaterThan": lambda one, other: one > _other(other, Semver),
    "isLessThan": lambda one, other: one < _other(other, Semver),
    "major": lambda one: one.major,
    "minor": lambda one: one.minor,
    "patch": lambda one: one.patch,
}


def _to_whole(amount: Fraction) -> int:
    if amount.denominator != 1:
        raise CelError("the quantity is no integer")
    return whole(int(amount))


def _present(one: OptionalValue) -> Any:
    if not one.present:
        raise CelError("the optional value is missing")
    return one.value


_OPTIONAL_METHODS: dict[str, Function] = {
    "hasValue": lambda one: one.present,
    "value": _present,
    "orValue": lambda one, other: one.value if one.present else other,
    "or": lambda one, other: one if one.present else _other(other, OptionalValue),
}
_METHODS: tuple[tuple[type[Any], dict[str, Function]], ...] = (
    (str, _STRING_METHODS),
    (list, _LIST_METHODS),
    (Mapping, {"size": len}),
    (Quantity, _QUANTITY_METHODS),
    (Semver, _SEMVER_METHODS),
    (OptionalValue, _OPTIONAL_METHODS),
)
METHOD_NAMES = frozenset(name for _, methods in _METHODS for name in methods) | {"matches", "includes"}


def call_method(name: str, target: Any, arguments: list[Any], charge: Charge) -> Any:
    """Return the value of a method.

    Raises:
        CelError: the target has no such method, or the arguments don't fit it.
    """
    if name == "includes" and len(arguments) == 1:
        return _includes(target, arguments[0])
    if name == "matches" and len(arguments) == 1:
        return _matches(target, arguments[0], charge)
    if isinstance(target, str | list):
        charge(len(target) // 10)
    for kind, methods in _METHODS:
        if isinstance(target, kind) and name in methods:
            return _applied(name, methods[name], [target, *arguments])
    raise CelError(f"no such overload: {type_name(target)}.{name}")


def call_function(name: str, arguments: list[Any], charge: Charge) -> Any:
    """Return the value of a function.

    Raises:
        CelError: the arguments don't fit it.
    """
    if name == "matches" and len(arguments) == 2:
        return _matches(arguments[0], arguments[1], charge)
    charge(sum(len(each) for each in arguments if isinstance(each, str | list)) // 10)
    return _applied(name, FUNCTIONS[name], arguments)


def _applied(name: str, function: Function, arguments: list[Any]) -> Any:
    try:
        return function(*arguments)
    except TypeError:
        raise CelError(f"{name} can't be called with {len(arguments)} arguments of these types") from None
