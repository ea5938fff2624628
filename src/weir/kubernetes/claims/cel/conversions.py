"""Conversions between the basic types of CEL."""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from weir.kubernetes.claims.cel.literals import Unsigned
from weir.kubernetes.claims.cel.overloads import ANY, Overload, Overloads
from weir.kubernetes.claims.cel.times import duration_text, timestamp_text
from weir.kubernetes.claims.cel.values import CelError, Duration, Timestamp, TypeValue, type_name, whole

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_DOUBLE = re.compile(
    rf"[+-]?(?:inf|infinity|nan|(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?)",
    re.IGNORECASE,
)
_DOUBLE_MAX = 1000
DOUBLE_STEPS = 40
"""Steps for writing a number with a point."""
_BOOLEANS = dict.fromkeys(("true", "True", "TRUE", "t", "T", "1"), True)
_BOOLEANS |= dict.fromkeys(("false", "False", "FALSE", "f", "F", "0"), False)
_INT_MAX = 1 << 63


def _int_of(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise CelError(f"{text[:100]!r} is no integer")
    return whole(int(text))


def _uint_of(text: str) -> int:
    if not text[:1].isdecimal():
        raise CelError(f"{text[:100]!r} is no unsigned integer")
    return _unsigned(int(text) if _INTEGER.fullmatch(text) else -1)


def _unsigned(value: int) -> int:
    return whole(value, Unsigned(0))


def _truncated(value: float) -> int:
    if not -_INT_MAX < value < _INT_MAX:
        raise CelError("integer overflow")
    return int(value)


def _truncated_unsigned(value: float) -> int:
    if not 0 <= value < 2 * _INT_MAX:
        raise CelError("unsigned integer overflow")
    return Unsigned(value)


def _double_of(text: str) -> float:
    if len(text) > _DOUBLE_MAX or _DOUBLE.fullmatch(text) is None:
        raise CelError(f"{text[:100]!r} is no number")
    value = float(text)
    if math.isinf(value) and text.lstrip("+-")[:1] not in ("i", "I"):
        raise CelError(f"{text[:100]!r} is no 64-bit number")
    return value


def to_text(value: Any) -> str:
    """Return a value of a basic type as text.

    Raises:
        CelError: the value has no text: it isn't UTF-8, or has another type.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CelError("the bytes are no UTF-8") from None
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if not isinstance(value, str | int):
        raise CelError(f"no such overload: string({type_name(value)})")
    return str(value)


def _double_text(value: float) -> str:
    """Return the shortest digits of a number, with an exponent from 10**6 on and below 10**-4."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    exact = Decimal(repr(value)).normalize()
    exponent = exact.adjusted()
    if value == 0 or -4 <= exponent < 6:
        return format(exact, "f")
    return f"{exact.scaleb(-exponent).normalize():f}e{exponent:+03}"


def _bool_of(text: str) -> bool:
    if text not in _BOOLEANS:
        raise CelError(f"{text[:100]!r} is no boolean")
    return _BOOLEANS[text]


def bytes_of(text: str) -> bytes:
    """Return a text in UTF-8.

    Raises:
        CelError: the text has a part of a character.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise CelError("the text is no UTF-8") from None


def _same(value: Any) -> Any:
    return value


FUNCTIONS: Overloads = {
    "int": (
        Overload((int,), _same),
        Overload((Unsigned,), lambda value: whole(int(value))),
        Overload((float,), _truncated),
        Overload((str,), _int_of),
    ),
    "uint": (
        Overload((Unsigned,), _same),
        Overload((int,), _unsigned),
        Overload((float,), _truncated_unsigned),
        Overload((str,), _uint_of),
    ),
    "double": (
        Overload((float,), _same),
        Overload((int,), float),
        Overload((Unsigned,), float),
        Overload((str,), _double_of),
    ),
    "string": (
        *(Overload((kind,), to_text) for kind in (str, bool, int, Unsigned, bytes)),
        Overload((float,), to_text, steps=DOUBLE_STEPS),
    ),
    "bool": (Overload((bool,), _same), Overload((str,), _bool_of)),
    "bytes": (Overload((bytes,), _same), Overload((str,), bytes_of)),
    "dyn": (Overload((ANY,), _same),),
    "type": (Overload((ANY,), lambda value: TypeValue(type_name(value))),),
    "size": tuple(Overload((kind,), len) for kind in (str, bytes, list, Mapping)),
}
METHODS: Overloads = {"size": FUNCTIONS["size"]}
