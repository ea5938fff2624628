"""Objects that are nested too deeply for a decoder: their deepest parts are cut off, without recursion.

An API server takes objects that are nested thousands of levels deep, in fields that a kind leaves open. A
decoder goes into itself at each level, and gives up. One such object would hide all others of its kind.
"""

import re
from collections.abc import Iterator

LEVELS_MAX = 200
"""Levels of an object that are kept. Pod templates have about 20."""
CUT = b'"weir.dev/too-deep"'
"""Text in place of a part that is cut off."""
TOO_DEEP = f"it is nested more than {LEVELS_MAX} levels deep"
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{\[]|[}\]]', re.DOTALL)


def cut(body: bytes, levels: int = LEVELS_MAX) -> bytes:
    """Return a JSON text without the parts below a number of levels."""
    return b"".join(_kept(body, levels))


def _kept(body: bytes, levels: int) -> Iterator[bytes]:
    depth, begun = 0, 0
    for token in _TOKEN.finditer(body):
        first = token[0][:1]
        if first in b"{[":
            depth += 1
            if depth == levels + 1:
                yield body[begun : token.start()]
                yield CUT
        elif first in b"}]":
            if depth == levels + 1:
                begun = token.end()
            depth -= 1
    if depth <= levels:
        yield body[begun:]
