"""Finding: the outcome of a check."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "warning", "failure"]
Verdict = tuple[Severity, str]
"""Outcome of a check, with one sentence: the fact, the requirement, the remedy."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A check and its verdict."""

    check: str
    severity: Severity
    text: str
