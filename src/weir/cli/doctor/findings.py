"""Finding: the outcome of a check."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Outcome of a check, with one sentence: what was found, what is needed, what to do."""

    check: str
    severity: Severity
    text: str
