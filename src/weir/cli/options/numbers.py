"""Options that are numbers: a refusal names the allowed ones."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_origin

from cyclopts import Parameter

if TYPE_CHECKING:
    from cyclopts import Token

_WHOLE = re.compile(r"[+-]?[0-9]{1,100}", re.ASCII)
_SHOWN_MAX = 40


def whole_number(least: int | None = None, most: int | None = None) -> Parameter:
    """Return the type of an option that is a whole number between two bounds, or several of them."""
    return Parameter(converter=_WholeNumber(least, most))


def number_or_name() -> Parameter:
    """Return a parameter that is a whole number or a name."""
    return Parameter(converter=_number_or_name)


@dataclass(frozen=True)
class _WholeNumber:
    """Reads a whole number between two bounds."""

    least: int | None
    most: int | None

    def __call__(self, type_: Any, tokens: "Sequence[Token]") -> int | list[int]:
        """Return the number of each token, one alone unless the type is a sequence.

        Raises:
            ValueError: a token is no such number.
        """
        numbers = [self._read(token.value) for token in tokens]
        return numbers if get_origin(type_) is Sequence else numbers[0]

    def _read(self, text: str) -> int:
        if not _WHOLE.fullmatch(text):
            shown = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
            raise ValueError(f"{shown!r} is no whole number; write {self._allowed()}")
        number = int(text)
        if self.least is not None and number < self.least:
            raise ValueError(f"{number} is too small; write {self._allowed()}")
        if self.most is not None and number > self.most:
            raise ValueError(f"{number} is too large; write {self._allowed()}")
        return number

    def _allowed(self) -> str:
        if self.least is None:
            return "one such as 4"
        return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"


def _number_or_name(_type: Any, tokens: "Sequence[Token]") -> int | str:
    text = tokens[0].value
    return int(text) if _WHOLE.fullmatch(text) else text
