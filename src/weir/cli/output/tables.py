"""Plain tables that fit the terminal: long cells continue below, and nothing is cut off."""

import shutil
from collections.abc import Sequence

_WIDTH_UNKNOWN = 110


def terminal_width() -> int:
    """Return the width of the terminal, or a usual width if the output isn't one."""
    return shutil.get_terminal_size((_WIDTH_UNKNOWN, 24)).columns


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return a table with lines of at most `width` characters."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    plain = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for head in heads:
        plain.add_column(Text(head), overflow="fold")
    for row in rows:
        plain.add_row(*map(Text, row))
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(plain)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
