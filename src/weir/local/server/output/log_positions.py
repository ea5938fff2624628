"""Positions in followed output, which a client sends back to continue from there.

The position of one pod is text. Those of many pods are packed, because servers and proxies limit the size of
a header.
"""

import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import NamedTuple

from weir.local.server.http.problem_details import RequestRefused, field_refusal

PLAIN_MAX = 1024
"""Number of characters of positions up to which they are sent as plain text."""
_WRITTEN_MAX = 30
"""Limit of characters of one position with its comma."""
_PACKED = "z"
_POSITION = re.compile(r"-|([0-9]{1,9}):([0-9]{1,18})")


class LogPosition(NamedTuple):
    """Start of a pod and offset in its output, written as START:OFFSET; `-` before the first start."""

    start: int | None
    offset: int

    def __str__(self) -> str:
        return "-" if self.start is None else f"{self.start}:{self.offset}"


def write_positions(positions: Iterable[LogPosition]) -> str:
    """Return the positions of several pods as text."""
    text = ",".join(map(str, positions))
    return text if len(text) <= PLAIN_MAX else _PACKED + b64encode(zlib.compress(text.encode())).decode()


def read_positions(written: str | None, uid: int, pods: int) -> list[LogPosition]:
    """Return the positions that a client sends, one for each pod; none if it sends none.

    They are written as UID/POSITIONS: a name may have become another workload's meanwhile.

    Raises:
        RequestRefused: the text isn't that, or is of another workload.
    """
    if not written:
        return []
    owner, _, positions = written.partition("/")
    if owner.isdigit() and owner != str(uid):
        raise RequestRefused(409, "The output that was followed is that of an earlier workload of this name.")
    matches = [_POSITION.fullmatch(word) for word in _unpacked(positions, pods).split(",", pods)]
    if len(matches) != pods or None in matches:
        text = "is no position of this output; leave it out to read from the beginning"
        raise field_refusal("Last-Event-ID", text)
    return [
        LogPosition(int(match[1]), int(match[2])) if match[1] else LogPosition(None, 0)
        for match in matches
        if match
    ]


def _unpacked(positions: str, pods: int) -> str:
    """Return positions as `write_positions` joined them; an empty text if they can't be unpacked."""
    if not positions.startswith(_PACKED):
        return positions
    try:
        packed = b64decode(positions.removeprefix(_PACKED), validate=True)
        return zlib.decompressobj().decompress(packed, pods * _WRITTEN_MAX).decode()
    except (ValueError, zlib.error):
        return ""
