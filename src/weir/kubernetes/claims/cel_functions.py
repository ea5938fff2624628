"""Functions and methods of CEL that device selectors may use, with those that Kubernetes adds."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

from weir.kubernetes.claims.cel_syntax import Unsigned
from weir.kubernetes.claims.cel_values import (
    CelError,
    Charge,
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
from weir.kubernetes.claims.linear_regex import COST_MOST, PatternError, compiled

SIZE_MOST = 100_000
"""Characters or items of a value that an expression builds."""
INCLUDES_MOST = 48
_PATTERN_COST = 4
"""Parts of a pattern that are compiled, or tried on a character, in the time of a step."""
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
}
TYPE_NAMES = ("bool", "int", "uint", "double", "string", "list", "map", "null_type")


def _items(value: Any) -> list[Any]:
    items: list[Any] = _expects(value, list)
    return items


def _among(value: Any, items: Any, charge: Charge) -> bool:
    return any(equals(value, each, charge) for each in _items(items))


def _contains(first: Any, second: Any, charge: Charge) -> bool:
    return all(_among(each, first, charge) for each in _items(second))


_SET_FUNCTIONS: dict[str, Callable[[Any, Any, Charge], bool]] = {
    "sets.contains": _contains,
    "sets.equivalent": lambda first, second, charge: (
        _contains(first, second, charge) and _contains(second, first, charge)
    ),
    "sets.intersects": lambda first, second, charge: any(
        _among(each, first, charge) for each in _items(second)
    ),
}
FUNCTION_NAMES = frozenset(FUNCTIONS) | frozenset(_SET_FUNCTIONS) | {"matches"}


# Methods


def _matches(text: Any, pattern: Any, charge: Charge) -> bool:
    try:
        program = compiled(_text(pattern))
    except PatternError as error:
        charge(COST_MOST // _PATTERN_COST)  # the attempt may have taken as long as the largest pattern
        raise CelError(str(error)) from None
    charge(1 + program.cost * (len(_text(text)) + 2) // _PATTERN_COST)
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


def _position(items: list[Any], part: Any, charge: Charge) -> int:
    return next((at for at, each in enumerate(items) if equals(each, part, charge)), -1)


def _last_position(items: list[Any], part: Any, charge: Charge) -> int:
    return next((at for at in reversed(range(len(items))) if equals(items[at], part, charge)), -1)


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


def _includes(value: Any, part: Any, charge: Charge) -> bool:
    if not isinstance(value, list):
        return equals(value, part, charge)
    if len(value) > INCLUDES_MOST:
        raise CelError(f"includes() takes a list of at most {INCLUDES_MOST}")
    return _among(part, value, charge)


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
    "indexOf": lambda text, part, start=0: text.find(_text(part), _index(start)),
    "lastIndexOf": lambda text, part: text.rfind(_text(part)),
    "split": _split,
    "replace": _replace,
}
_LIST_METHODS: dict[str, Function] = {
    "size": len,
    "join": _join,
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
_LIST_SEARCHES: dict[str, Callable[[list[Any], Any, Charge], int]] = {
    "indexOf": _position,
    "lastIndexOf": _last_position,
}
METHOD_NAMES = frozenset(name for _, methods in _METHODS for name in methods) | {"matches", "includes"}


def call_method(name: str, target: Any, arguments: list[Any], charge: Charge) -> Any:
    """Return the value of a method.

    Raises:
        CelError: the target has no such method, or the arguments don't fit it.
    """
    if name == "includes" and len(arguments) == 1:
        return _includes(target, arguments[0], charge)
    if name == "matches" and len(arguments) == 1:
        return _matches(target, arguments[0], charge)
    if isinstance(target, list) and name in _LIST_SEARCHES and len(arguments) == 1:
        return _LIST_SEARCHES[name](target, arguments[0], charge)
    if isinstance(target, str | list):
        charge(len(target) // 10 if isinstance(target, str) else len(target))
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
    if name in _SET_FUNCTIONS and len(arguments) == 2:
        return _SET_FUNCTIONS[name](arguments[0], arguments[1], charge)
    charge(sum(len(each) for each in arguments if isinstance(each, str | list)) // 10)
    if name not in FUNCTIONS:
        raise CelError(f"{name} can't be called with {len(arguments)} arguments")
    return _applied(name, FUNCTIONS[name], arguments)


def _applied(name: str, function: Function, arguments: list[Any]) -> Any:
    try:
        return function(*arguments)
    except TypeError:
        raise CelError(f"{name} can't be called with {len(arguments)} arguments of these types") from None
    except OverflowError:
        raise CelError(f"{name} can't be called with a number that large") from None
