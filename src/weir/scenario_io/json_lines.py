"""JSON files. JSON differs from YAML in tabs, long keys and surrogates, so it has its own reader.

The standard library's reader is fast but reports no positions. A second pass over the text finds the lines,
only if there is a mistake to report.
"""

import json
import re
from typing import Any

from weir.scenario_io.source_map import LineCounter, Mistakes, SourceBranch, Spot

_MARK = re.compile(r'[{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+')
_HALF = re.compile(r"\\u[dD][89abAB]", re.ASCII)


def read_json(text: str, mistakes: Mistakes) -> Any:
    """Return the values of a JSON text; `mistakes` gets their lines.

    Raises:
        ValueError: it isn't JSON.
        RecursionError: it is nested too deeply.
    """
    repeats = False

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeats
        value: dict[str, Any] = {}
        for key, below in members:
            repeats |= key in value
            value.setdefault(key, below)
        return value

    value = json.loads(text, object_pairs_hook=pairs)
    if _HALF.search(text):
        _tell_halves(text, mistakes)
    mistakes.root = spots(text, mistakes) if repeats else lambda: spots(text, None)
    return value


def spots(text: str, mistakes: Mistakes | None) -> Spot:
    """Return the lines of all values of a valid JSON text; report duplicate keys to `mistakes`."""
    lines = LineCounter(text)
    stack: list[SourceBranch] = []
    keys: list[tuple[str, int] | None] = []  # current key of each open mapping
    root: Spot = 1

    def put(spot: Spot) -> None:
        nonlocal root
        if not stack:
            root = spot
        elif isinstance(below := stack[-1].below, list):
            below.append(spot)
        elif (key := keys[-1]) is not None:
            keys[-1] = None
            if key[0] not in below:
                below[key[0]] = spot
                stack[-1].keys[key[0]] = key[1]
            elif mistakes is not None:
                first = stack[-1].keys[key[0]]
                mistakes.on(key[1], f"{key[0]} is written twice, first on line {first}; keep one of them")

    for match in _MARK.finditer(text):
        mark = match[0]
        if mark in ",:":
            continue
        line = lines.line_at(match.start())
        if mark in "{[":
            branch = SourceBranch(line, {} if mark == "{" else [])
            stack.append(branch)
            keys.append(None)
        elif mark in "}]":
            done = stack.pop()
            keys.pop()
            put(done)
        elif stack and isinstance(stack[-1].below, dict) and keys[-1] is None:
            keys[-1] = (json.loads(mark), line)
        else:
            put(line)
    return root


def _tell_halves(text: str, mistakes: Mistakes) -> None:
    lines = LineCounter(text)
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"', text):
        if _HALF.search(match[0]) and not json.loads(match[0]).isascii():
            try:
                json.loads(match[0]).encode()
            except UnicodeEncodeError:
                mistakes.on(
                    lines.line_at(match.start()),
                    "has half of a surrogate pair (\\ud8..); write both halves, or the character",
                )
