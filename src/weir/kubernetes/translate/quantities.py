"""Quantities of the API, exactly: nothing is rounded before it is summed.

Quantities from the API server are canonical. An annotation may have any text that a user typed, so forms such
as `.5` are read as Kubernetes reads them.
"""

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from weir.model.resources import UNLIMITED, in_thousandths, quantity

Written = str | int | float

COUNTED_MAX = UNLIMITED // 1024
"""Limit of an amount: a thousand of these can still be added without an overflow."""
_NO_LEADING_DIGIT = re.compile(r"\s*[+-]?\.[0-9]")
_DIGITS_SHOWN = 300
_REMEMBERED = 4096
"""Limit of cached quantities: the pods of a cluster request the same few amounts."""


@lru_cache(maxsize=_REMEMBERED, typed=True)
def exact(written: Written) -> Fraction:
    """Return the exact value of a quantity.

    Raises:
        ValueError: the text is no quantity; the message has an example.
    """
    if isinstance(written, str) and _NO_LEADING_DIGIT.match(written):
        return quantity(written.replace(".", "0.", 1))
    return quantity(written)


def amounts(written: Mapping[str, Written]) -> dict[str, Fraction]:
    """Return every quantity of a list of resources.

    Raises:
        ValueError: one of the texts is no quantity; the message names its resource.
    """
    read: dict[str, Fraction] = {}
    for resource, amount in written.items():
        try:
            read[resource] = exact(amount)
        except ValueError as error:
            raise ValueError(f"{resource}: {error}") from None
    return read


def in_unit(resource: str, exactly: Fraction) -> int:
    """Return an amount in Weir's unit of a resource, rounded up.

    Raises:
        ValueError: the amount is negative or too large.
    """
    value = math.ceil(exactly * 1000 if in_thousandths(resource) else exactly)
    if exactly < 0:
        raise ValueError(f"{resource}: {shown(exactly)} is negative: write 0 or more")
    if value > COUNTED_MAX:
        raise ValueError(f"{resource}: {shown(exactly)} is more than can be counted: write less")
    return value


def shown(exactly: Fraction) -> str:
    """Return an amount for people, even a very large one."""
    digits = len(str(abs(int(exactly)))) if abs(exactly) < 10**_DIGITS_SHOWN else _DIGITS_SHOWN
    return f"{float(exactly):g}" if digits < _DIGITS_SHOWN else f"an amount of over {_DIGITS_SHOWN} digits"


def written_exactly(amount: Fraction) -> str:
    """Return a quantity: whole, or in the smallest unit that a quantity has."""
    if amount.denominator == 1:
        return str(int(amount))
    return f"{-(-amount * 1000 // 1)}m" if (amount * 1000).denominator == 1 else f"{-(-amount * 10**9 // 1)}n"
