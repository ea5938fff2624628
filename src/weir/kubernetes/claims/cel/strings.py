"""Methods of text, and `strings.quote`."""

from collections.abc import Callable
from typing import Any

from weir.kubernetes.claims.cel.overloads import SIZE_MAX, Kind, Overload, Overloads, expect_size
from weir.kubernetes.claims.cel.values import CelError

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTED = str.maketrans(
    {
        "\a": r"\a",
        "\b": r"\b",
        "\f": r"\f",
        "\n": r"\n",
        "\r": r"\r",
        "\t": r"\t",
        "\v": r"\v",
        "\\": r"\\",
        '"': r"\"",
    }
)
_SEARCHED_PER_STEP = 1_000
"""Pairs of characters that a search compares in the time of a step, where each start needs all."""


def _searching(search: Callable[..., Any], *kinds: Kind) -> Overload:
    """Return the overload of a search of a text for a part, with the cost of comparing all pairs."""

    def charged(text: str, part: str, *arguments: Any) -> Any:
        *others, charge = arguments
        charge(len(text) * len(part) // _SEARCHED_PER_STEP)
        return search(text, part, *others)

    return Overload((str, str, *kinds), charged, charges=True)


def _slice(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if not 0 <= start <= last <= len(text):
        raise CelError("index out of range")
    return text[start:last]


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError("index out of range")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise CelError("index out of range")
    return text.find(part, min(start, len(text)))


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    if not part:
        return start
    if start < 0:
        raise CelError("index out of range")
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _split(text: str, separator: str, most: int = -1) -> list[str]:
    if most == 0 or not (text or separator):
        return []
    if separator:
        return text.split(separator, most - 1 if 0 < most <= SIZE_MAX else -1)
    if not 0 < most < len(text):
        return list(text)
    return [*text[: most - 1], text[most - 1 :]]


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    expect_size(len(text) + (len(text) + 1) * len(new))
    return text.replace(old, new, most if 0 <= most <= SIZE_MAX else -1)


def quoted(text: str) -> str:
    """Return a text as a literal of CEL."""
    return f'"{text.translate(_QUOTED)}"'


FUNCTIONS: Overloads = {"strings.quote": (Overload((str,), quoted),)}
METHODS: Overloads = {
    "startsWith": (Overload((str, str), str.startswith),),
    "endsWith": (Overload((str, str), str.endswith),),
    "contains": (_searching(str.__contains__),),
    "lowerAscii": (Overload((str,), lambda text: text.translate(_LOWER)),),
    "upperAscii": (Overload((str,), lambda text: text.translate(_UPPER)),),
    "trim": (Overload((str,), lambda text: text.strip(_SPACE)),),
    "charAt": (Overload((str, int), _char_at),),
    "substring": (Overload((str, int), _slice), Overload((str, int, int), _slice)),
    "indexOf": (_searching(_index_of), _searching(_index_of, int)),
    "lastIndexOf": (_searching(_last_index_of), _searching(_last_index_of, int)),
    "split": (_searching(_split), _searching(_split, int)),
    "replace": (_searching(_replace, str), _searching(_replace, str, int)),
}
