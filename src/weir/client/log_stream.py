"""Followed output of a pool: events with positions, from which a broken response is resumed."""

from __future__ import annotations

import codecs
from base64 import b64decode
from collections.abc import Callable

import httpx

EVENTS = "text/event-stream"
UNPLACED_EVENTS = f"{EVENTS}; positions=none"
"""Type of events without positions: a broken response can't be resumed."""
OnStart = Callable[[str], None]
"""Called with each later start of a pod, such as `start 2 of worker/1`, before its output."""
_END = "end"


class LogReader:
    """Parser of the lines of followed output. That of a cluster has no positions, and can't be resumed."""

    timeout = httpx.Timeout(10.0, read=None)  # a job may print nothing for days

    def __init__(self, on_start: OnStart | None = None) -> None:
        self._on_start = on_start
        self.is_new = True
        self.is_over = False
        self.is_plain = False
        self.can_resume = True
        self._last: str | None = None
        self._fields: dict[str, str] = {}
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def headers(self) -> dict[str, str]:
        """Return the headers of a request for the output that follows."""
        accepted = {"Accept": f"{EVENTS}, text/plain;q=0.9, */*;q=0.5"}
        return accepted if self._last is None else {**accepted, "Last-Event-ID": self._last}

    def is_away(self, status: int) -> bool:
        """Return True for a status that may pass: of a server that starts or is full, or of a proxy."""
        return not self.is_new and (status >= 500 or status == httpx.codes.TOO_MANY_REQUESTS)

    def begin(self, answer: httpx.Response) -> None:
        """Process the headers of a response."""
        self.is_new = False
        kind = answer.headers.get("Content-Type", "")
        self.is_plain = not kind.startswith(EVENTS)
        self.can_resume = not self.is_plain and kind != UNPLACED_EVENTS
        self._fields = {}

    def line(self, line: str) -> str:
        """Parse a line; return the output of the event that the line completes."""
        if line:
            name, _, value = line.partition(": ")
            self._fields[name] = value
            return ""
        fields, self._fields = self._fields, {}
        for start in filter(None, fields.get("begins", "").split("; ")):
            if self._on_start is not None:
                self._on_start(start)
        self.is_over = fields.get("event") == _END
        self._last = fields.get("id", self._last)
        return self._decoder.decode(b64decode(fields.get("data", "")))
