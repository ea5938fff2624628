"""What a pool says as things change: server-sent events, read line by line."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

if TYPE_CHECKING:
    from weir.api.answers import EventRow, NodeRow, QueueRow, WorkloadRow

WAIT_S_MIN, WAIT_S_MAX = 0.25, 5.0
"""Between two attempts to come back."""

RESET = "reset"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is new: `kind` says which of the four `row` is, `id` where to go on from.

    After a `reset`, which has no row, something was missed: ask for the lists again.
    """

    kind: str
    row: WorkloadRow | EventRow | QueueRow | NodeRow | None
    id: str | None = None


class Reader:
    """Puts the lines of a stream together. What a newer server says besides is passed over."""

    def __init__(self, last: str | None = None) -> None:
        self.last = last
        self.retry_s: float | None = None
        self._kind = ""
        self._text: list[str] = []

    def line(self, line: str) -> Change | None:
        """Take in one line; a change if it was complete with it."""
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._text.append(value)
        elif name == "id":
            self.last = value or None
        elif name == "retry" and value.isdigit():
            self.retry_s = int(value) / 1000
        return None

    def broken(self) -> None:
        """The connection ended: what was half read is read again, whole."""
        self._kind, self._text = "", []

    def _complete(self) -> Change | None:
        kind, text = self._kind, "\n".join(self._text)
        self._kind, self._text = "", []
        if kind == RESET:
            return Change(kind, None, self.last)
        try:
            row = _row_of(kind, text)
        except ValidationError:
            return None
        return None if row is None else Change(kind, row, self.last)


def wait_s(attempt: int) -> float:
    """How long to wait before attempt number `attempt`, from 1: longer each time, and never all at once."""
    most: float = min(WAIT_S_MAX, WAIT_S_MIN * 2 ** min(attempt - 1, 10))
    return most * random.uniform(0.5, 1.0)  # noqa: S311  - spreads clients, guards nothing


def _row_of(kind: str, text: str) -> WorkloadRow | EventRow | QueueRow | NodeRow | None:
    """Return the row of a change; None for a kind this client doesn't know.

    Raises:
        ValidationError: the text isn't such a row.
    """
    from weir.api import answers

    match kind if text else "":
        case "workload":
            return answers.WorkloadRow.model_validate_json(text)
        case "event":
            return answers.EventRow.model_validate_json(text)
        case "queue":
            return answers.QueueRow.model_validate_json(text)
        case "node":
            return answers.NodeRow.model_validate_json(text)
    return None
