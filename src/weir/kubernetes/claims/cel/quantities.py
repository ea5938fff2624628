"""Quantities of Kubernetes, and their functions."""

import math
import re
from fractions import Fraction

from weir.kubernetes.claims.cel.overloads import Overload, Overloads, succeeds
from weir.kubernetes.claims.cel.values import CelError, Quantity, whole
from weir.kubernetes.translate.quantities import exact

_WRITTEN = re.compile(r"[+-]?0*(?P<digits>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<suffix>[A-Za-z]?i?[-+0-9]*)")
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DIGITS_MAX = 18
_BINARY_DIGITS_MAX = 14
"""Decimal digits of an integer with a binary suffix; each suffix takes three."""
_INT_MAX = 1 << 63
_NANO = 10**9
_STEPS = 10
"""Steps for reading, adding or dividing quantities."""


def quantity_of(text: str) -> Quantity:
    """Return a quantity, rounded up to a billionth.

    Raises:
        CelError: the text is none.
    """
    match = _WRITTEN.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)  # noqa: TRY301
        amount = exact(text)
    except ValueError:
        raise CelError(f"{text[:100]!r} is no quantity") from None
    return Quantity(_rounded(amount, is_binary=match["suffix"] in _BINARY), whole=_is_whole(match))


def _rounded(amount: Fraction, *, is_binary: bool) -> Fraction:
    """Return an amount in billionths, rounded away from zero; one with a binary suffix has 64 bits."""
    size = abs(amount)
    if _NANO % size.denominator:
        size = Fraction(math.ceil(size * _NANO), _NANO)
    if is_binary and size >= _INT_MAX:
        size = Fraction(_INT_MAX - 1)
    return -size if amount < 0 else size


def _is_whole(match: re.Match[str]) -> bool:
    digits, fraction, suffix = len(match["digits"]), len(match["fraction"] or ""), match["suffix"]
    if suffix in _BINARY:
        return not fraction and digits + 3 * (_BINARY.index(suffix) + 1) <= _BINARY_DIGITS_MAX
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    return digits + fraction <= _DIGITS_MAX and exponent >= fraction


def _compared(one: Quantity, other: Quantity) -> int:
    return int(one.amount > other.amount) - int(one.amount < other.amount)


def _added(one: Quantity, other: Quantity) -> Quantity:
    if not (one.amount and other.amount):
        return one if one.amount else other
    total = one.amount + other.amount
    return Quantity(total, whole=one.whole and other.whole and _fits(total))


def _subtracted(one: Quantity, other: Quantity) -> Quantity:
    return _added(one, Quantity(-other.amount, whole=other.whole))


def _fits(amount: Fraction) -> bool:
    return -_INT_MAX <= amount < _INT_MAX


def _is_integer(one: Quantity) -> bool:
    return one.whole and _fits(one.amount)


def _as_integer(one: Quantity) -> int:
    if not _is_integer(one):
        raise CelError("the quantity is no integer")
    return whole(int(one.amount))


FUNCTIONS: Overloads = {
    "quantity": (Overload((str,), quantity_of, steps=_STEPS),),
    "isQuantity": (Overload((str,), succeeds(quantity_of), steps=_STEPS),),
    "sign": (Overload((Quantity,), lambda one: _compared(one, Quantity(Fraction(0)))),),
}
METHODS: Overloads = {
    "compareTo": (Overload((Quantity, Quantity), _compared),),
    "isGreaterThan": (Overload((Quantity, Quantity), lambda one, other: _compared(one, other) > 0),),
    "isLessThan": (Overload((Quantity, Quantity), lambda one, other: _compared(one, other) < 0),),
    "isInteger": (Overload((Quantity,), _is_integer),),
    "asInteger": (Overload((Quantity,), _as_integer),),
    "asApproximateFloat": (Overload((Quantity,), lambda one: float(one.amount), steps=_STEPS),),
    "add": (
        Overload((Quantity, Quantity), _added, steps=_STEPS),
        Overload((Quantity, int), lambda one, other: _added(one, Quantity(Fraction(other))), steps=_STEPS),
    ),
    "sub": (
        Overload((Quantity, Quantity), _subtracted, steps=_STEPS),
        Overload(
            (Quantity, int), lambda one, other: _subtracted(one, Quantity(Fraction(other))), steps=_STEPS
        ),
    ),
}
