"""Functions of lists and sets."""

from collections.abc import Mapping
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from weir.kubernetes.claims.cel.literals import Unsigned
from weir.kubernetes.claims.cel.overloads import ANY, Overload, Overloads, expect_size
from weir.kubernetes.claims.cel.times import added
from weir.kubernetes.claims.cel.values import (
    CelError,
    Charge,
    Duration,
    OptionalValue,
    compare,
    equals,
    is_number,
    type_name,
    whole,
)

INCLUDES_MAX = 48
_COMPARED_PER_STEP = 50
"""Characters of each of two texts that are compared in the time of a step."""

Items = list[Any]


def _among(value: Any, items: Items, charge: Charge) -> bool:
    return any(equals(value, item, charge) for item in items)


def _contains(first: Items, second: Items, charge: Charge) -> bool:
    return all(_among(item, first, charge) for item in second)


def _equivalent(first: Items, second: Items, charge: Charge) -> bool:
    return _contains(first, second, charge) and _contains(second, first, charge)


def _intersects(first: Items, second: Items, charge: Charge) -> bool:
    return any(_among(item, first, charge) for item in second)


def _position(items: Items, part: Any, charge: Charge) -> int:
    return next((index for index, item in enumerate(items) if equals(item, part, charge)), -1)


def _last_position(items: Items, part: Any, charge: Charge) -> int:
    return next((index for index in reversed(range(len(items))) if equals(items[index], part, charge)), -1)


def _includes(value: Any, part: Any, charge: Charge) -> bool:
    """Return True if a value is the part, or a list that has it among its first items."""
    if not isinstance(value, list):
        return equals(value, part, charge)
    is_included = _among(part, value[:INCLUDES_MAX], charge)
    if not is_included and len(value) > INCLUDES_MAX:
        raise CelError(f"includes() takes a list of at most {INCLUDES_MAX}")
    return is_included


def _join(items: Items, separator: str = "") -> str:
    if not all(isinstance(item, str) for item in items):
        raise CelError("join() takes texts")
    expect_size(len(items) * len(separator) + sum(map(len, items)))
    return separator.join(items)


def _sum(items: Items) -> Any:
    if len({type_name(item) for item in items}) > 1 or not all(map(_is_summable, items)):
        raise CelError("sum() takes numbers or durations, all of one type")
    total: Any = items[0] if items else 0
    for item in items[1:]:
        if isinstance(item, Duration):
            total = added(total, item)
        else:
            total = total + item if isinstance(item, float) else whole(total + item, total)
    return total


def _is_summable(value: Any) -> bool:
    return is_number(value) or isinstance(value, Duration)


def _extreme(items: Items, sign: int) -> Any:
    if not items:
        raise CelError("an empty list has no least or greatest item")
    best = items[0]
    compare(best, best)
    for item in items[1:]:
        if compare(item, best) == sign:
            best = item
    return best


def _is_sorted(items: Items) -> bool:
    return all(compare(first, second) <= 0 for first, second in pairwise(items))


def sorted_by(items: Items, keys: Items, charge: Charge) -> Items:
    """Return items in the order of their keys, which have one type.

    Raises:
        CelError: the keys have no order.
    """

    def ordered(first: int, second: int) -> int:
        one, other = keys[first], keys[second]
        size = min(len(one), len(other)) if isinstance(one, str | bytes) and type(one) is type(other) else 0
        charge(1 + size // _COMPARED_PER_STEP)
        return compare(one, other)

    if len({type_name(key) for key in keys}) > 1:
        raise CelError("items are sorted by keys of one type")
    for key in keys[:1]:
        compare(key, key)
    return [items[index] for index in sorted(range(len(items)), key=cmp_to_key(ordered))]


def _range(count: int, charge: Charge) -> Items:
    expect_size(count)
    charge(max(count, 0))
    return list(range(count))


def _slice(items: Items, start: int, end: int) -> Items:
    if not 0 <= start <= end <= len(items):
        raise CelError(f"slice({start}, {end}) of a list of {len(items)}")
    return items[start:end]


def _distinct(items: Items, charge: Charge) -> Items:
    distinct: Items = []
    for item in items:
        if not _among(item, distinct, charge):
            distinct.append(item)
    return distinct


def _flatten(items: Items, depth: int, charge: Charge) -> Items:
    """Return the items of lists nested to this depth; each is charged, as it may occur often."""
    if depth < 0:
        raise CelError("flatten() takes a level of at least 0")
    flat: Items = []
    for item in items:
        charge(1)
        if isinstance(item, list) and depth:
            flat += _flatten(item, depth - 1, charge)
        else:
            flat.append(item)
        expect_size(len(flat))
    return flat


def _unwrapped(items: Items) -> Items:
    if not all(isinstance(item, OptionalValue) for item in items):
        raise CelError("unwrap takes optional values")
    return [item.value for item in items if item.present]


def _optional_item(items: Items, index: int) -> OptionalValue:
    return OptionalValue(items[index], present=True) if items else OptionalValue()


def is_zero(value: Any) -> bool:
    """Return True for an empty or zero value of a basic type."""
    if isinstance(value, Duration):
        return value.nanoseconds == 0
    return value is None or (
        isinstance(value, bool | int | Unsigned | float | str | bytes | list | Mapping) and not value
    )


FUNCTIONS: Overloads = {
    "sets.contains": (Overload((list, list), _contains, charges=True),),
    "sets.equivalent": (Overload((list, list), _equivalent, charges=True),),
    "sets.intersects": (Overload((list, list), _intersects, charges=True),),
    "lists.range": (Overload((int,), _range, charges=True),),
    "optional.unwrap": (Overload((list,), _unwrapped),),
}
METHODS: Overloads = {
    "join": (Overload((list,), _join), Overload((list, str), _join)),
    "isSorted": (Overload((list,), _is_sorted),),
    "sum": (Overload((list,), _sum),),
    "min": (Overload((list,), lambda items: _extreme(items, -1)),),
    "max": (Overload((list,), lambda items: _extreme(items, 1)),),
    "indexOf": (Overload((list, ANY), _position, charges=True),),
    "lastIndexOf": (Overload((list, ANY), _last_position, charges=True),),
    "includes": (Overload((ANY, ANY), _includes, charges=True),),
    "slice": (Overload((list, int, int), _slice),),
    "flatten": (
        Overload((list,), lambda items, charge: _flatten(items, 1, charge), charges=True),
        Overload((list, int), _flatten, charges=True),
    ),
    "reverse": (Overload((list,), lambda items: items[::-1]),),
    "distinct": (Overload((list,), _distinct, charges=True),),
    "sort": (Overload((list,), lambda items, charge: sorted_by(items, items, charge), charges=True),),
    "first": (Overload((list,), lambda items: _optional_item(items, 0)),),
    "last": (Overload((list,), lambda items: _optional_item(items, -1)),),
    "unwrapOpt": (Overload((list,), _unwrapped),),
}
