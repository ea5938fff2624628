"""Results as a table with the machine's name, or as JSON."""

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence

from weir.service.engine_build import engine_kind


def machine(measured: str | None = None) -> str:
    """Describe the machine and the engine: this process's, or the one that another process said it runs."""
    python = platform.python_version()
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {python}, engine: {measured or engine_kind()}"
    )


def show(
    title: str,
    rows: Sequence[Mapping[str, object]],
    output: str,
    hide: Sequence[str] = (),
    measured: str | None = None,
) -> None:
    """Print the rows: `output` is text or json; `hide` are columns only JSON has.

    `measured` is the engine that was measured, where that is another process's.
    """
    if output == "json":
        json.dump(list(rows), sys.stdout, indent=1)
        print()
        return
    columns = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in hide]
    cells = [columns, *([_cell(row.get(name, "")) for name in columns] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(columns))]
    print(f"{title}  ({machine(measured)})")
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
