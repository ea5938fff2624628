"""Ledger of a conversion: every field of the objects is kept, changed or left out, with a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["kept", "changed", "left out"]
_SHOWN_MAX = 80


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """Outcome of a field of an object."""

    outcome: Outcome
    source: str  # kind and name
    sentence: str

    def __str__(self) -> str:
        """Return the line as text; names from outside can't contain control characters."""
        return f"{self.outcome:8}  {printable(self.source.strip())}: {printable(self.sentence)}"


class Ledger:
    """Records in order which fields a conversion kept, changed and left out."""

    def __init__(self) -> None:
        self.lines: list[LedgerLine] = []

    def keep(self, source: str, sentence: str) -> None:
        """Record a field with the same meaning in Weir."""
        self.lines.append(LedgerLine("kept", source, sentence))

    def change(self, source: str, sentence: str) -> None:
        """Record a field with a similar meaning in Weir."""
        self.lines.append(LedgerLine("changed", source, sentence))

    def leave_out(self, source: str, sentence: str) -> None:
        """Record a field without a meaning in Weir."""
        self.lines.append(LedgerLine("left out", source, sentence))


class Fields:
    """Fields of an object, read once each. `close` records the fields without a reader as left out."""

    def __init__(self, ledger: Ledger, source: str, values: Any, path: str = "") -> None:
        """Read a mapping; another value is recorded as left out."""
        self.ledger = ledger
        self.source = source
        self._path = path
        self._values: dict[str, Any] = {}
        if isinstance(values, Mapping):
            self._values = {str(key): value for key, value in values.items()}
        elif values is not None:
            self.leave_out(path or "spec", f"{shown(values)} is no mapping")

    def take(self, key: str) -> Any:
        """Return a value and mark it as read; None if it is missing."""
        return self._values.pop(key, None)

    def text(self, *keys: str) -> str:
        """Return the text of the first key that has one; empty if none has."""
        values = [(key, self.take(key)) for key in keys]
        for key, value in values:
            if isinstance(value, str) and value:
                return value
            if value not in (None, ""):
                self.leave_out(key, f"{shown(value)} is no text")
        return ""

    def number(self, key: str) -> float | None:
        """Return a number; None if it is missing or not a finite number."""
        value = self.take(key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and abs(value) < 1e15:  # also refuses nan and infinity
            return float(value)
        if value is not None:
            self.leave_out(key, f"{shown(value)} is no number that Weir can use")
        return None

    def section(self, key: str) -> "Fields":
        """Return the fields of a mapping in this one."""
        return Fields(self.ledger, self.source, self.take(key), self._named(key))

    def sections(self, key: str) -> list["Fields"]:
        """Return the fields of each mapping of a list."""
        values = self.take(key)
        if values is None:
            return []
        if not isinstance(values, list):
            self.leave_out(key, f"{shown(values)} is no list")
            return []
        return [
            Fields(self.ledger, self.source, value, f"{self._named(key)}[{index}]")
            for index, value in enumerate(values)
        ]

    def leave_out(self, key: str, reason: str) -> None:
        """Record a field as left out, with the reason."""
        self.ledger.leave_out(self.source, f"{self._named(key)}: {reason}.")

    def leave_out_if_set(self, reasons: Mapping[str, str]) -> None:
        """Record each of these fields as left out, with its reason, if it has a value."""
        for key, reason in reasons.items():
            value = self.take(key)
            if not _is_empty(value):
                self.leave_out(key, f"{shown(value)}: {reason}")

    def close(self) -> None:
        """Record every field that was not read, unless it is empty."""
        for key, value in self._values.items():
            if not _is_empty(value):
                self.leave_out(key, f"{shown(value)} has no meaning in Weir")
        self._values = {}

    def _named(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key


def shown(value: Any) -> str:
    """Return a value as short text."""
    text = str(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 3]}..."


def printable(text: str) -> str:
    """Return a text with escapes for characters that a terminal would obey."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})
