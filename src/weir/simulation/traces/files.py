"""Opening a trace, plain or gzipped, with an answer for every way in which that can fail."""

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from weir.simulation.traces.cells import Cells
from weir.simulation.traces.mistakes import TraceMistakes

BYTES_MAX = 256 << 20
"""Largest size of an unpacked trace: some two million jobs."""
COLUMNS_MAX = 1000
_BLOCK = 1 << 20


def text(path: Path) -> str:
    """Return the whole text of a file.

    Raises:
        InvalidFile: it can't be read, is too large, or isn't text.
    """
    mistakes = TraceMistakes(str(path))
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return _read(file, mistakes).decode("utf-8-sig")
    except FileNotFoundError:
        mistakes.add(0, "there is no such file")
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        mistakes.add(0, f"can't be read: {reason}")
    except UnicodeDecodeError as error:
        mistakes.add(0, f"is not text: byte {error.start} is not UTF-8")
    mistakes.refuse_if_any()
    raise AssertionError("refused above")


def _read(file: BinaryIO | gzip.GzipFile, mistakes: TraceMistakes) -> bytes:
    """Return the bytes of a file, read block by block so that a bad one is refused early."""
    blocks: list[bytes] = []
    size = 0
    while block := file.read(_BLOCK):
        zero = block.find(b"\0")
        if zero >= 0:
            mistakes.add(0, f"is not text: byte {size + zero} is zero; name a trace in CSV or JSON")
            break
        size += len(block)
        if size > BYTES_MAX:
            mistakes.add(0, f"is larger than {BYTES_MAX >> 20} MiB unpacked; write a shorter trace")
            break
        blocks.append(block)
    mistakes.refuse_if_any()
    return b"".join(blocks)


class TraceTable:
    """The lines of a CSV file, each with its line number."""

    def __init__(
        self, path: Path, mistakes: TraceMistakes, *, allowed: Sequence[str] | None, required: Sequence[str]
    ) -> None:
        self._mistakes = mistakes
        self._lines = csv.reader(text(path).splitlines(keepends=True))
        self.columns = self._header(allowed, required)

    def _header(self, allowed: Sequence[str] | None, required: Sequence[str]) -> list[str]:
        try:
            columns = [name.strip() for name in next(self._lines, [])]
        except csv.Error as error:
            self._mistakes.add(1, f"is not CSV: {error}; write a first line that names the columns")
            columns = []
        self._mistakes.refuse_if_any()
        if len(columns) > COLUMNS_MAX:
            self._mistakes.add(1, f"has {len(columns)} columns; write at most {COLUMNS_MAX}")
            self._mistakes.refuse_if_any()
        for name in required:
            if name not in columns:
                self._mistakes.add(1, f"has no column {name!r}: every trace needs {', '.join(required)}")
        for index, name in enumerate(columns):
            if columns.index(name) != index:
                self._mistakes.add(1, f"has the column {name!r} twice")
            elif allowed is not None and name not in allowed:
                self._mistakes.add(1, f"has a column {name!r}, which is unknown: use {', '.join(allowed)}")
        self._mistakes.refuse_if_any()
        return columns

    def __iter__(self) -> Iterator[tuple[int, Cells]]:
        width = len(self.columns)
        try:
            for values in self._lines:
                if not values:
                    continue
                line = self._lines.line_num
                if len(values) == width:
                    by_column = dict(zip(self.columns, values, strict=True))
                    yield line, Cells(by_column, partial(self._mistakes.add, line))
                else:
                    self._mistakes.add(line, f"has {len(values)} values, the header {width}")
        except csv.Error as error:
            self._mistakes.add(self._lines.line_num, f"is not CSV: {error}")
