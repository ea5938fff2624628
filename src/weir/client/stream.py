"""Changes from a pool: server-sent events, read line by line."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
from pydantic import ValidationError

if TYPE_CHECKING:
    from weir.api.answers import EventRow, NodeRow, QueueRow, WorkloadRow

WAIT_S_MIN, WAIT_S_MAX = 0.25, 5.0
"""Pause between two attempts to reconnect."""

RESET = "reset"


@dataclass(frozen=True, slots=True)
class Change:
    """A change: `kind` is the type of `row`, `id` the position from which a stream can continue.

    A `reset` has no row. Changes before it were missed: read the lists again.
    """

    kind: str
    row: WorkloadRow | EventRow | QueueRow | NodeRow | None
    id: str | None = None


class Reader:
    """Parser of a stream's lines. Unknown kinds of a newer server are ignored."""

    timeout = httpx.Timeout(10.0, read=60.0)  # a healthy pool sends something at least once a minute

    def __init__(self, last: str | None = None) -> None:
        self.last = last
        self.retry_s: float | None = None
        self._kind = ""
        self._text: list[str] = []

    def headers(self) -> dict[str, str]:
        """Return the headers of a request for the changes that follow."""
        return {} if self.last is None else {"Last-Event-ID": self.last}

    def is_away(self, status: int) -> bool:
        """Return True for a status of a server that fails, or of a proxy."""
        return status >= 500

    def line(self, line: str) -> Change | None:
        """Parse a line; return a change if the line completes one."""
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
        """Discard an incomplete change after the connection broke."""
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
    """Return the random pause before an attempt, numbered from 1; it grows with each attempt."""
    most: float = min(WAIT_S_MAX, WAIT_S_MIN * 2 ** min(attempt - 1, 10))
    return most * random.uniform(0.5, 1.0)  # noqa: S311  - spreads clients, guards nothing


def _row_of(kind: str, text: str) -> WorkloadRow | EventRow | QueueRow | NodeRow | None:
    """Return the row of a change; None for a kind this client doesn't know.

    Raises:
        ValidationError: the text isn't such a row.
    """
    from weir.api import answers
    from weir.api.workload_list import FROM_SERVER

    match kind if text else "":
        case "workload":
            return answers.WorkloadRow.model_validate_json(text, context=FROM_SERVER)
        case "event":
            return answers.EventRow.model_validate_json(text, context=FROM_SERVER)
        case "queue":
            return answers.QueueRow.model_validate_json(text, context=FROM_SERVER)
        case "node":
            return answers.NodeRow.model_validate_json(text, context=FROM_SERVER)
    return None
