"""The cells of one line of a trace, read as their column says; a wrong one is noted, and reading goes on."""

from collections.abc import Callable, Mapping

from weir.model.resources import UNLIMITED, amount, seconds

_BOOLEANS = {"true": True, "false": False}
_WHOLE_MAX = 1_000_000


class Cells:
    """A line of a table. Every method returns the default if the cell is empty or invalid."""

    __slots__ = ("_by_column", "note")

    def __init__(self, by_column: Mapping[str, str], note: Callable[[str], None]) -> None:
        self._by_column = by_column
        self.note = note

    def text(self, column: str) -> str:
        """Return the text of a cell without surrounding space."""
        return self._by_column.get(column, "").strip()

    def amount(self, column: str, resource: str, default: int) -> int:
        """Return an amount of a resource."""
        written = self.text(column)
        if not written:
            return default
        try:
            value = amount(resource, written)
        except ValueError as error:
            self._wrong(column, written, str(error))
            return default
        if value >= UNLIMITED:
            self.note(f"{column} {written!r} is no amount a pod can ask for")
            return default
        return value

    def time_s(self, column: str) -> float | None:
        """Return seconds, not negative; None for an empty cell."""
        written = self.text(column)
        if not written:
            return None
        try:
            value = seconds(float(written)) if _is_number(written) else seconds(written)
        except ValueError as error:
            self._wrong(column, written, str(error))
            return None
        if value < 0:
            self.note(f"{column} {written!r} is negative: write 0 or more")
            return None
        return value

    def whole(self, column: str, default: int, *, least: int) -> int:
        """Return an integer."""
        written = self.text(column)
        if not written:
            return default
        try:
            value = int(written)
        except ValueError:
            self.note(f"{column} {written!r} is not a whole number")
            return default
        if not least <= value <= _WHOLE_MAX:
            self.note(f"{column} {written} is out of range: write {least} to {_WHOLE_MAX}")
            return default
        return value

    def boolean(self, column: str, default: bool) -> bool:
        """Read true or false."""
        written = self.text(column)
        value = _BOOLEANS.get(written.lower()) if written else default
        if value is None:
            self.note(f"{column} {written!r} is neither true nor false")
            return default
        return value

    def _wrong(self, column: str, written: str, sentence: str) -> None:
        self.note(f"{column} {sentence}" if repr(written) in sentence else f"{column} {written!r} {sentence}")


def _is_number(written: str) -> bool:
    try:
        float(written)
    except ValueError:
        return False
    return True
