"""Outcome of each directive: kept, changed or ignored, with the reason."""

from dataclasses import dataclass
from typing import Literal

OutcomeKind = Literal["kept", "changed", "ignored"]


@dataclass(frozen=True, slots=True)
class DirectiveOutcome:
    """Outcome of a directive. `where` is its line or variable; empty: the command line."""

    outcome: OutcomeKind
    written: str
    sentence: str
    where: str = ""

    def __str__(self) -> str:
        """Return the line as text."""
        place = f" ({self.where})" if self.where else ""
        text = f"{self.outcome:7}  {self.written}{place}: {self.sentence}"
        return "".join(letter if letter.isprintable() else "?" for letter in text)
