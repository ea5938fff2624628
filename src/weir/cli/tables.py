"""Plain tables that fit the terminal: long cells continue below, and nothing is cut off."""

import shutil
import textwrap
from collections.abc import Sequence

_GAP = "  "
_COLUMN_WIDTH_MIN = 8
_WIDTH_UNKNOWN = 110


def terminal_width() -> int:
    """Return the width of the terminal, or a usual width if the output isn't one."""
    return shutil.get_terminal_size((_WIDTH_UNKNOWN, 24)).columns


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return a table with lines of at most `width` characters, if possible."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    room = width - len(_GAP) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _COLUMN_WIDTH_MIN:
        widest = widths.index(max(widths))
        second = max((each for at, each in enumerate(widths) if at != widest), default=0)
        over = sum(widths) - room
        widths[widest] = max(_COLUMN_WIDTH_MIN, min(widths[widest] - 1, max(second, widths[widest] - over)))
    return "\n".join(line for row in (heads, *rows) for line in _lines(row, widths))


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    cells = [
        textwrap.wrap(cell, size, break_on_hyphens=False) if len(cell) > size else [cell]
        for cell, size in zip(row, widths, strict=True)
    ]
    height = max(map(len, cells))
    lines = []
    for at in range(height):
        parts = [
            (cell[at] if at < len(cell) else "").ljust(size) for cell, size in zip(cells, widths, strict=True)
        ]
        lines.append(_GAP.join(parts).rstrip())
    return lines
