"""Functions and methods of CEL that device selectors may use: those of Kubernetes 1.36."""

from typing import Any

from weir.kubernetes.claims.cel import (
    addresses,
    conversions,
    formatting,
    lists,
    named_formats,
    patterns,
    quantities,
    strings,
    times,
    urls,
)
from weir.kubernetes.claims.cel.lists import is_zero
from weir.kubernetes.claims.cel.overloads import ANY, Overload, Overloads, called, merged, succeeds
from weir.kubernetes.claims.cel.values import (
    CelError,
    Charge,
    OptionalValue,
    Semver,
    semver_of,
    whole,
)

_STEPS = 5
"""Steps for reading a version."""


def _semver(text: str, normalize: bool = False) -> Semver:
    """Return a semantic version; normalized, a text may lack parts, and have leading zeros and a "v"."""
    if not normalize:
        return semver_of(text)
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if any(sign in parts[-1] for sign in "+-"):
            raise CelError(f"{text[:100]!r} is no semantic version")
        parts += ["0"] * (3 - len(parts))
    return semver_of(".".join(parts))


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1].isdecimal() else f"0{stripped}"


def _ordered(first: Semver, second: Semver) -> int:
    return int(first > second) - int(first < second)


def _value(one: OptionalValue) -> Any:
    if not one.present:
        raise CelError("the optional value is missing")
    return one.value


_FUNCTIONS: Overloads = {
    "semver": (Overload((str,), _semver, steps=_STEPS), Overload((str, bool), _semver, steps=_STEPS)),
    "isSemver": (
        Overload((str,), succeeds(_semver), steps=_STEPS),
        Overload((str, bool), succeeds(_semver), steps=_STEPS),
    ),
    "optional.of": (Overload((ANY,), lambda value: OptionalValue(value, present=True)),),
    "optional.none": (Overload((), OptionalValue),),
    "optional.ofNonZeroValue": (
        Overload(
            (ANY,),
            lambda value: OptionalValue() if is_zero(value) else OptionalValue(value, present=True),
        ),
    ),
}
_METHODS: Overloads = {
    "compareTo": (Overload((Semver, Semver), _ordered),),
    "isGreaterThan": (Overload((Semver, Semver), lambda one, other: one > other),),
    "isLessThan": (Overload((Semver, Semver), lambda one, other: one < other),),
    "major": (Overload((Semver,), lambda one: whole(one.major)),),
    "minor": (Overload((Semver,), lambda one: whole(one.minor)),),
    "patch": (Overload((Semver,), lambda one: whole(one.patch)),),
    "hasValue": (Overload((OptionalValue,), lambda one: one.present),),
    "value": (Overload((OptionalValue,), _value),),
}
FUNCTIONS = merged(
    _FUNCTIONS,
    addresses.FUNCTIONS,
    conversions.FUNCTIONS,
    lists.FUNCTIONS,
    named_formats.FUNCTIONS,
    patterns.FUNCTIONS,
    quantities.FUNCTIONS,
    strings.FUNCTIONS,
    times.FUNCTIONS,
    urls.FUNCTIONS,
)
METHODS = merged(
    _METHODS,
    addresses.METHODS,
    conversions.METHODS,
    formatting.METHODS,
    lists.METHODS,
    named_formats.METHODS,
    patterns.METHODS,
    quantities.METHODS,
    strings.METHODS,
    times.METHODS,
    urls.METHODS,
)
CHOICES = ("or", "orValue")
"""Methods of an optional value that evaluate their argument only if the value is missing."""
FUNCTION_NAMES = frozenset(FUNCTIONS)
METHOD_NAMES = frozenset(METHODS) | frozenset(CHOICES)


def call_function(name: str, arguments: list[Any], charge: Charge) -> Any:
    """Return the value of a function.

    Raises:
        CelError: the arguments don't fit it.
    """
    return called(name, FUNCTIONS[name], arguments, charge)


def call_method(name: str, arguments: list[Any], charge: Charge) -> Any:
    """Return the value of a method of the first argument.

    Raises:
        CelError: the first has no such method, or the others don't fit it.
    """
    return called(name, METHODS[name], arguments, charge)
