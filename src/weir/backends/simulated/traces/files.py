"""Opening a trace, plain or gzipped, with an answer for every way in which that can fail."""

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from weir.backends.simulated.traces.mistakes import Mistakes


def text(path: Path) -> str:
    """The whole text of a file.

    Raises:
        Refused: it can't be read.
    """
    mistakes = Mistakes(str(path))
    try:
        raw = path.read_bytes()
        if path.suffix == ".gz":
            raw = gzip.decompress(raw)
        return raw.decode("utf-8-sig")
    except FileNotFoundError:
        mistakes.add(0, "there is no such file")
    except (OSError, EOFError, zlib.error) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        mistakes.add(0, f"can't be read: {said}")
    except UnicodeDecodeError as error:
        mistakes.add(0, f"is not text: byte {error.start} is not UTF-8")
    mistakes.refuse_if_any()
    raise AssertionError("refused above")


class Table:
    """The lines of a CSV file by column, each with its line number."""

    def __init__(
        self, path: Path, mistakes: Mistakes, *, known: Sequence[str] | None, required: Sequence[str]
    ) -> None:
        self._mistakes = mistakes
        self._lines = csv.reader(text(path).splitlines(keepends=True))
        self.columns = self._header(known, required)

    def _header(self, known: Sequence[str] | None, required: Sequence[str]) -> list[str]:
        columns = [name.strip() for name in next(self._lines, [])]
        for name in required:
            if name not in columns:
                self._mistakes.add(1, f"has no column {name!r}: every trace needs {', '.join(required)}")
        for at, name in enumerate(columns):
            if columns.index(name) != at:
                self._mistakes.add(1, f"has the column {name!r} twice")
            elif known is not None and name not in known:
                self._mistakes.add(1, f"has a column {name!r}, which is unknown: use {', '.join(known)}")
        self._mistakes.refuse_if_any()
        return columns

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        width = len(self.columns)
        try:
            for values in self._lines:
                if not values:
                    continue
                if len(values) == width:
                    yield self._lines.line_num, values
                else:
                    wrong = f"has {len(values)} values, the header {width}"
                    self._mistakes.add(self._lines.line_num, wrong)
        except csv.Error as error:
            self._mistakes.add(self._lines.line_num, f"is not CSV: {error}")
