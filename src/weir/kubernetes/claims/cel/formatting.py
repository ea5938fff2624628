"""`format`: texts with values, as Kubernetes' libraries write them in English."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from weir.kubernetes.claims.cel.conversions import DOUBLE_STEPS, bytes_of, to_text
from weir.kubernetes.claims.cel.literals import Unsigned
from weir.kubernetes.claims.cel.overloads import Overload, Overloads, charge_size, expect_size
from weir.kubernetes.claims.cel.strings import quoted
from weir.kubernetes.claims.cel.times import duration_text, timestamp_text
from weir.kubernetes.claims.cel.values import CelError, Charge, Duration, Timestamp, TypeValue, type_name

_CLAUSE = re.compile(r"%(?:%|(?:\.([0-9]{1,6}))?([sdfebxXo]))")
_PRECISION = 6
_NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INFINITY = "∞"
_TIMES = "\N{MULTIPLICATION SIGN}"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _formatted(text: str, arguments: list[Any], charge: Charge) -> str:
    """Return a text with its clauses replaced by arguments."""
    parts: list[str] = []
    position = used = size = 0
    while (start := text.find("%", position)) >= 0:
        match = _CLAUSE.match(text, start)
        if match is None:
            raise CelError(f"format() takes no clause {text[start : start + 8]!r}")
        parts.append(text[position:start])
        position = match.end()
        if match[2] is None:
            parts.append("%")
        elif used >= len(arguments):
            raise CelError(f"format() has no argument {used}")
        else:
            precision = _PRECISION if match[1] is None else int(match[1])
            parts.append(_clause(match[2], precision, arguments[used], charge))
            used += 1
        size += len(parts[-2]) + len(parts[-1])
        expect_size(size)
        charge_size(parts[-1], charge)
    parts.append(text[position:])
    return "".join(parts)


def _clause(clause: str, precision: int, value: Any, charge: Charge) -> str:
    if clause == "s":
        return _shown(value, charge)
    if clause in "fe":
        number = _double(value)
        expect_size(precision)
        charge(precision + DOUBLE_STEPS)
        return _fixed(number, precision) if clause == "f" else _scientific(number, precision)
    if clause in "xX" and isinstance(value, str | bytes):
        digits = (bytes_of(value) if isinstance(value, str) else value).hex()
        return digits.upper() if clause == "X" else digits
    if clause == "b" and isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, int) or isinstance(value, bool):
        raise CelError(f"format() takes no {type_name(value)} for %{clause}")
    return format(int(value), clause)


def _double(value: Any) -> float:
    if isinstance(value, str) and value in _NOT_NUMBERS:
        return _NOT_NUMBERS[value]
    if not isinstance(value, float):
        raise CelError(f"format() takes no {type_name(value)} for a number with a point")
    return value


def _special(number: float) -> str:
    """Return the text of an infinite value or of NaN, and nothing for a number."""
    if math.isnan(number):
        return "NaN"
    return "" if math.isfinite(number) else _INFINITY if number > 0 else f"-{_INFINITY}"


def _fixed(number: float, precision: int) -> str:
    return _special(number) or f"{number:,.{precision}f}"


def _scientific(number: float, width: int) -> str:
    """Return a number with an exponent; Kubernetes takes the precision for a least width."""
    if special := _special(number):
        return special.rjust(width)
    digits, _, exponent = f"{number:.{_PRECISION}e}".partition("e")
    return f"{digits}{_TIMES}10{exponent.removeprefix('+').translate(_RAISED)}".rjust(width)


# Values within %s


def _shown(value: Any, charge: Charge) -> str:
    """Return a value as %s shows it."""
    if isinstance(value, list | Mapping):
        return _nested(value, charge)
    charge(DOUBLE_STEPS if isinstance(value, float | Duration) else 0)
    if value is None:
        return "null"
    return value.name if isinstance(value, TypeValue) else to_text(value)


def _nested(value: Any, charge: Charge) -> str:
    """Return a value within a list or map as a literal of CEL; each is charged, as it may occur often."""
    charge(DOUBLE_STEPS if isinstance(value, float | Duration) else 1)
    charge_size(value, charge)
    if isinstance(value, list):
        return f"[{_joined([_nested(part, charge) for part in value])}]"
    if isinstance(value, Mapping):
        entries = sorted((_key(key), _nested(part, charge)) for key, part in value.items())
        return f"{{{_joined([f'{key}:{part}' for key, part in entries])}}}"
    for kind, show in _LITERALS:
        if isinstance(value, kind):
            return show(value)
    return _shown(value, charge)


def _key(key: Any) -> str:
    if isinstance(key, float):
        raise CelError("format() takes no map with numbers with a point as keys")
    return _quoted(key) if isinstance(key, str) else to_text(key)


def _joined(parts: list[str]) -> str:
    expect_size(sum(map(len, parts)))
    return ", ".join(parts)


def _quoted(text: str) -> str:
    """Return a text as a literal, with escapes for unprintable characters."""
    escaped = quoted(text)[1:-1]
    if not escaped.isprintable():
        escaped = "".join(char if char.isprintable() else _escaped(ord(char)) for char in escaped)
    return f'"{escaped}"'


def _escaped(code: int) -> str:
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _double_literal(number: float) -> str:
    return f"{number:.{_PRECISION}f}" if math.isfinite(number) else _quoted(to_text(number))


_LITERALS: tuple[tuple[type[Any], Callable[[Any], str]], ...] = (
    (str, _quoted),
    (bytes, lambda value: f"b{_quoted(to_text(value))}"),
    (bool, to_text),
    (Unsigned, to_text),
    (float, _double_literal),
    (Duration, lambda value: f'duration("{duration_text(value)}")'),
    (Timestamp, lambda value: f'timestamp("{timestamp_text(value)}")'),
)
METHODS: Overloads = {"format": (Overload((str, list), _formatted, charges=True),)}
