"""Finding: the outcome of a check."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Outcome of a check, with one sentence: the fact, the requirement, the remedy."""

    check: str
    severity: Severity
    text: str
