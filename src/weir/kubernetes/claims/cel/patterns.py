"""Regular expressions of RE2, bounded in size: `matches`, `find` and `findAll`.

Kubernetes evaluates patterns with Go's engine, which has the syntax of RE2. Both take linear time.
"""

import re
from functools import lru_cache
from typing import Any

import re2

from weir.kubernetes.claims.cel.overloads import Overload, Overloads
from weir.kubernetes.claims.cel.values import CelError, Charge

PATTERN_MAX = 1000
_MEMORY_MAX = 1 << 19
"""Bytes of a compiled pattern and of the states that a search builds."""
_INSTRUCTIONS_PER_STEP = 32
"""Instructions that are tried on a character in the time of a step, if each character needs all of them."""
_COMPILED_PER_STEP = 2
"""Instructions that are compiled in the time of a step."""
_CLASS_STEPS = 200
"""Steps for reading one of Unicode's classes, which have hundreds of ranges."""
_REFUSAL_STEPS = 10_000
"""Steps for a pattern that turns out to be too large."""
_PART_STEPS = 5
"""Steps for each part that `findAll` finds."""
_CLASS = re.compile(r"\\[pP]")
_SINGLE_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = _MEMORY_MAX
    options.never_capture = True
    options.log_errors = False
    return options


@lru_cache(maxsize=128)
def _compiled(pattern: str) -> Any:
    """Return a compiled pattern, or the reason why it can't be compiled."""
    if _SINGLE_BYTE.search(pattern):
        return "\\C is not supported"  # it would split a character
    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    except UnicodeEncodeError:
        return "it is no UTF-8"


def _program(pattern: str, charge: Charge) -> Any:
    """Return a compiled pattern; compiling is charged each time, so that a cache changes no result.

    Raises:
        CelError: the text is no pattern, or the pattern is too large.
    """
    if len(pattern) > PATTERN_MAX:
        raise CelError(f"a pattern has at most {PATTERN_MAX} characters")
    charge(len(_CLASS.findall(pattern)) * _CLASS_STEPS)
    compiled = _compiled(pattern)
    if isinstance(compiled, str):
        charge(_REFUSAL_STEPS)
        raise CelError(f"the pattern {pattern[:100]!r} is invalid: {compiled}")
    charge(compiled.programsize // _COMPILED_PER_STEP)
    return compiled


def _charge_search(program: Any, size: int, charge: Charge) -> None:
    charge(1 + program.programsize * (size + 2) // _INSTRUCTIONS_PER_STEP)


def _first_match(text: str, pattern: str, charge: Charge) -> Any:
    program = _program(pattern, charge)
    _charge_search(program, len(text), charge)
    try:
        return program.search(text)
    except UnicodeEncodeError:
        raise CelError("the text is no UTF-8") from None


def matches(text: str, pattern: str, charge: Charge) -> bool:
    """Return True if a pattern matches a part of a text."""
    return _first_match(text, pattern, charge) is not None


def _find(text: str, pattern: str, charge: Charge) -> str:
    match = _first_match(text, pattern, charge)
    return "" if match is None else str(match.group())


def _find_all(text: str, pattern: str, most: int, charge: Charge) -> list[str]:
    """Return the parts that match, up to a count; as in Go, no empty part follows another directly."""
    program = _program(pattern, charge)
    parts: list[str] = []
    end = -1
    _charge_search(program, len(text), charge)
    if most == 0:
        return parts
    try:
        for match in program.finditer(text):
            first, last = match.span()
            if not first == last == end:
                parts.append(text[first:last])
                if len(parts) == most:
                    break
            end = last
            _charge_search(program, len(text) - last, charge)
            charge(_PART_STEPS)
    except UnicodeEncodeError:
        raise CelError("the text is no UTF-8") from None
    return parts


FUNCTIONS: Overloads = {"matches": (Overload((str, str), matches, charges=True),)}
METHODS: Overloads = {
    "matches": (Overload((str, str), matches, charges=True),),
    "find": (Overload((str, str), _find, charges=True),),
    "findAll": (
        Overload(
            (str, str), lambda text, pattern, charge: _find_all(text, pattern, -1, charge), charges=True
        ),
        Overload((str, str, int), _find_all, charges=True),
    ),
}
