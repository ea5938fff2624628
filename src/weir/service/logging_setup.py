"""The server's own log. It never contains a command, environment or token of a job."""

import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock
from time import monotonic
from typing import Any, Literal, TextIO, cast

import structlog

Format = Literal["text", "json"]

HIDDEN = frozenset({"command", "env", "environment", "token", "authorization", "body", "headers"})
"""Keys whose values never get into the log."""
REPEATS_MAX = 20
"""Lines of one kind that are logged in a minute; the next line states how many were left out."""
DECISIONS_MAX = 6_000
"""The same limit for decisions, which are the main content of a scheduler's log."""
DECISIONS = frozenset({"planned", "placed", "evicted", "waits", "refused", "denied"})
KINDS_MAX = 256
_WINDOW_S = 60.0
_KIND_LENGTH = 80


class RepeatLimit:
    """Limits how often a kind of line is logged, so that outsiders can't fill the disk."""

    def __init__(self, repeats_max: int, clock: Callable[[], float] = monotonic) -> None:
        self._most = repeats_max
        self._clock = clock
        self._lock = Lock()
        self._counts: dict[str, tuple[float, int]] = {}

    def admit(self, kind: str) -> int | None:
        """Return None if a line is beyond the limit, else the number of lines of its kind left out before."""
        most = max(self._most, DECISIONS_MAX) if kind in DECISIONS else self._most
        now_s = self._clock()
        with self._lock:
            if kind not in self._counts and len(self._counts) >= KINDS_MAX:
                kind = ""
            since_s, count = self._counts.get(kind, (now_s, 0))
            left_out = 0
            if now_s - since_s >= _WINDOW_S:
                since_s, left_out, count = now_s, max(0, count - most), 0
            self._counts[kind] = (since_s, count + 1)
        return left_out if count < most else None


class _LossyStream:
    """A stream that loses lines instead of raising errors: a full disk ends no thread and no request."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text if the stream accepts it; return its length."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Pass the written lines on, if the stream accepts them."""
        with suppress(OSError, ValueError):
            self._stream.flush()


class _RepeatFilter(logging.Filter):
    """Applies the limit to lines of libraries."""

    def __init__(self, limit: RepeatLimit) -> None:
        super().__init__()
        self._limit = limit

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the line is logged; it then states how many were left out before it."""
        kind = f"{record.name} {str(record.msg).partition(chr(10))[0][:_KIND_LENGTH]}"
        left_out = self._limit.admit(kind)
        if left_out:
            record.msg = f"{record.msg} (and {left_out:,} similar lines were left out)"
        return left_out is not None


class _JsonFormatter(logging.Formatter):
    """Writes lines of libraries in the form of Weir's own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        line = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up(level: str = "info", *, repeats_max: int = REPEATS_MAX, form: Format = "text") -> None:
    """Log everything to standard error, one line each, repeated lines a few times a minute."""
    limit = RepeatLimit(repeats_max)
    stream = cast(TextIO, _LossyStream(sys.stderr))

    def bounded(
        _logger: object, _method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        left_out = limit.admit(str(event.get("event"))[:_KIND_LENGTH])
        if left_out is None:
            raise structlog.DropEvent
        if left_out:
            event["left_out"] = left_out
        return event

    structlog.configure(
        processors=[
            bounded,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            hidden,
            structlog.processors.format_exc_info,
            _as_json if form == "json" else _as_text,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.addFilter(_RepeatFilter(limit))
    words = logging.Formatter("%(levelname)s %(name)s %(message)s")
    handler.setFormatter(_JsonFormatter() if form == "json" else words)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


_FIRST = ("timestamp", "level", "event")
_as_text = structlog.processors.KeyValueRenderer(key_order=list(_FIRST))


def _as_json(_logger: object, _method: str, event: structlog.typing.EventDict) -> str:
    """Return one line of JSON, the time first; other values appear as text."""
    line: dict[str, Any] = {key: event[key] for key in _FIRST if key in event}
    return json.dumps({**line, **event}, default=str)


def hidden(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Remove confidential values."""
    for key in HIDDEN & event.keys():
        event[key] = "(hidden)"
    return event
