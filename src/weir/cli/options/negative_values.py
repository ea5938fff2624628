"""Values that begin with a minus sign, such as -2h: they belong to the option before, and aren't options."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from cyclopts import Token

_NEGATIVE = re.compile(r"-\.?[0-9]")
_WITHOUT_VALUE = re.compile(r"--[a-z][a-z0-9-]*")
_OWN_SYNTAX = ("sbatch", "import")
"""Commands that read their words themselves, as Slurm does."""


def negative_text(otherwise: str) -> Parameter:
    """Return an argument that may begin with a minus sign and a digit.

    `otherwise` is the end of the sentence about other words that begin with a minus sign.
    """

    def read(_type: Any, tokens: "Sequence[Token]") -> str:
        text = tokens[0].value
        if text.startswith("-") and not _NEGATIVE.match(text):
            raise ValueError(f"{text!r} {otherwise}")
        return text

    return Parameter(allow_leading_hyphen=True, converter=read)


def with_negative_values(words: Sequence[str]) -> list[str]:
    """Return the words of a command line; `--memory -8Gi` becomes `--memory=-8Gi`.

    The parser takes -8Gi for an option, and so the option before has no value. As a value it gets the
    sentence about a wrong amount or duration, or is a time in the past.
    """
    if words[:1] and words[0] in _OWN_SYNTAX:
        return list(words)
    end = words.index("--") if "--" in words else len(words)
    joined: list[str] = []
    for word in words[:end]:
        if joined and _NEGATIVE.match(word) and _WITHOUT_VALUE.fullmatch(joined[-1]):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return [*joined, *words[end:]]
