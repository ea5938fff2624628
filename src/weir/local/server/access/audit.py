"""Audit log: a line for each request that changes something, is refused, or reads confidential data.

An append-only file of JSON lines in the home. A line is written before its request is answered. It contains
no bodies, tokens or values. Jobs run as the server's user and can write to this file; syslog can keep a
copy that they can't reach.
"""

import json
import os
import stat
import syslog
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, time
from typing import Any, Literal

from structlog import get_logger

FILE = "audit.jsonl"
PATH = "/api/v1/audit"
FILE_BYTES_MAX = 16 << 20
FILES_KEPT = 8
"""Number of files that are kept: the current one, and older ones with a number at the end of their names."""
REFUSED_AT_ONCE = 60
REFUSED_EVERY_S = 5.0
"""Lines of refused requests per token and person, and for all of unknown callers: a burst, then a rate."""
WORD_MAX = 300
_LOG = get_logger(__name__)

Outcome = Literal["allowed", "refused", "failed"]


class _NotAFile(OSError):
    """The path of the log is not a regular file."""


class _RefusalBudget:
    """Number of lines that one source of refused requests may still cause."""

    __slots__ = ("left", "left_out", "since_s")

    def __init__(self, now_s: float) -> None:
        self.left = float(REFUSED_AT_ONCE)
        self.since_s = now_s
        self.left_out = 0

    def takes(self, now_s: float) -> bool:
        """Return True if one more line may be written now."""
        self.left = min(REFUSED_AT_ONCE, self.left + (now_s - self.since_s) / REFUSED_EVERY_S)
        self.since_s = now_s
        if self.left < 1.0:
            self.left_out += 1
            return False
        self.left -= 1.0
        return True


class AuditLog:
    """Writes lines, from any thread, and reads them. With `to_syslog` they also go to the system's log."""

    def __init__(
        self,
        home: Path,
        *,
        to_syslog: bool = False,
        file_bytes_max: int = FILE_BYTES_MAX,
        clock: Callable[[], float] = time,
    ) -> None:
        self._path = home / FILE
        self._to_syslog = to_syslog
        self._file_bytes_max = file_bytes_max
        self._clock = clock
        self._lock = threading.Lock()
        self._allowances: dict[tuple[int | None, str | None], _RefusalBudget] = {}
        self._lost = 0
        self.lines = 0
        """Number of lines of this server, without reads of the log itself: a read would make it grow."""
        self.trouble: str | None = None
        """Return why lines can't be written now; None if they can."""
        if to_syslog:
            syslog.openlog("weir-audit", syslog.LOG_PID, syslog.LOG_AUTHPRIV)

    def write(
        self,
        *,
        request: str = "",
        user: str | None = None,
        token: int | None = None,
        label: str = "",
        source: str = "",
        method: str = "",
        path: str = "",
        status: int | None = None,
        outcome: Outcome = "allowed",
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Write a line. A failure is never raised: the request has its outcome already.

        `trouble` has the failure.
        """
        with self._lock:
            entry: dict[str, object] = dict(details or {})
            if outcome != "allowed":
                allowance = self._allowances.setdefault((token, user), _RefusalBudget(monotonic()))
                if not allowance.takes(monotonic()):
                    return
                if allowance.left_out:
                    entry["left_out_before"], allowance.left_out = allowance.left_out, 0
            if self._lost:
                entry["lost_before"] = self._lost
            line = {
                "at": datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds"),
                "request": request,
                "user": user,
                "token": token,
                "label": label,
                "source": source,
                "method": method[:WORD_MAX],
                "path": path[:WORD_MAX],
                "status": status,
                "outcome": outcome,
                "details": entry,
            }
            self.lines += not path.startswith(PATH)
            self._append(json.dumps(line, separators=(",", ":"), default=str))

    def check(self) -> str | None:
        """Return why lines can't be written now; None if they can.

        After a failure this tries to write a line about the lost ones. Without it a log would stay in trouble
        as long as no request arrives.
        """
        if self.trouble is not None:
            lost = self._lost
            self.write(user="weir", details={"act": "audit log written again"})
            if self.trouble is not None:
                self._lost = lost  # the line of the check is no loss
        return self.trouble

    def _append(self, line: str) -> None:
        try:
            self._put((line + "\n").encode())
            if self._to_syslog:
                syslog.syslog(syslog.LOG_NOTICE, line)
        except OSError as error:
            self._lost += 1
            if self.trouble is None:
                _LOG.error("audit_log_failed", why=str(error))
            self.trouble = f"The audit log can't be written: {error.strerror or error}."
        else:
            self._lost = 0
            self.trouble = None

    def _put(self, line: bytes) -> None:
        """Append a line to the current file, which is rotated if it is full."""
        descriptor = _opened(self._path)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # a crash cut the last line short
            if size and size + len(line) > self._file_bytes_max:
                os.close(descriptor)
                descriptor = -1
                self._rotate()
                descriptor = _opened(self._path)
                size = 0
            written = os.write(descriptor, line)
            if written != len(line):
                os.ftruncate(descriptor, size)
                raise OSError(28, "the disk is full")
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _rotate(self) -> None:
        for number in range(FILES_KEPT - 2, -1, -1):
            older = self._former(number)
            if older.exists():
                older.replace(self._former(number + 1))

    def _former(self, number: int) -> Path:
        return self._path if number == 0 else self._path.with_name(f"{FILE}.{number}")

    def read(
        self, limit: int, *, user: str | None = None, outcome: str | None = None, path: str = ""
    ) -> list[dict[str, Any]]:
        """Return the newest lines, newest first; of the requests whose path contains `path`."""
        lines: list[dict[str, Any]] = []
        for line in self._lines():
            if user is not None and line.get("user") != user:
                continue
            if outcome is not None and line.get("outcome") != outcome:
                continue
            if path and path not in str(line.get("path")):
                continue
            lines.append(line)
            if len(lines) >= limit:
                break
        return lines

    def _lines(self) -> Iterator[dict[str, Any]]:
        for number in range(FILES_KEPT):
            try:
                descriptor = _opened(self._former(number), os.O_RDONLY)
            except OSError:
                continue
            with os.fdopen(descriptor, "rb") as file:
                lines = file.read(2 * self._file_bytes_max).splitlines()
            for raw in reversed(lines):
                try:
                    line = json.loads(raw)
                except ValueError:
                    continue
                if isinstance(line, dict):
                    yield line


def _opened(path: Path, flags: int = os.O_RDWR | os.O_APPEND | os.O_CREAT) -> int:
    """Open a regular file, never through a link, and without waiting."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _NotAFile(22, f"{path} is not a regular file")
    return descriptor
