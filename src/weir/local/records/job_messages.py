"""Messages of jobs: lines in a file of the job's directory, and a wakeup that announces new lines.

Wakeups may get lost; the files are also read when a pod ends and when the pool starts. A file may grow
without limit, so only its end is read: the last message of a kind supersedes earlier ones.
"""

import os
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from weir.local.files.job_files import UnreadableFile, open_file
from weir.local.records import pod_files
from weir.local.records.pod_records import RUNG, SAVED, JobMessage, TimeBounds, parse_message

SOCKET = "notes.sock"
WAKEUPS = "wakeup"
"""Directory of the home with a second name of the socket."""
_ENTER = 0o711
_NAME = re.compile(rb"[0-9]{1,18}/[0-9]{1,18}-[0-9]{1,9}-[0-9]{1,9}")
_READ_MAX = 1 << 18
_LINE_MAX = 1 << 16
_LINES_MAX, _SAVED_MAX = 1000, 100
_POKES_MAX = 1024


class MessagesRead(NamedTuple):
    """Messages that were read, the position after them, and the reason if reading failed."""

    notes: list[JobMessage]
    position: int
    unreadable: UnreadableFile | None = None


def read_messages(own: str, since: int, span: TimeBounds) -> MessagesRead:
    """Read the whole lines after a position in a job's own directory.

    Raises:
        OSError: the machine is short of something.
    """
    fd = open_file(own, pod_files.NOTES)
    if fd is None:
        return MessagesRead([], since)
    if isinstance(fd, UnreadableFile):
        return MessagesRead([], since, fd)
    try:
        size = os.fstat(fd).st_size
        since = since if since <= size else 0  # the file was created again
        begin = max(since, size - _READ_MAX)
        text = os.pread(fd, _READ_MAX, begin)
    finally:
        os.close(fd)
    whole = text.rfind(b"\n") + 1
    if not whole:
        # An incomplete line isn't a message yet
        return MessagesRead([], begin + len(text) if begin > since else since)
    lines = text[:whole].split(b"\n")
    notes = [
        note for line in _latest(lines[begin > since :]) if (note := parse_message(line, span)) is not None
    ]
    return MessagesRead(notes, begin + whole)


def _latest(lines: list[bytes]) -> list[bytes]:
    """Return the last lines, and the latest earlier lines that may report a checkpoint or a rung."""
    saved_, rung = SAVED.encode(), RUNG.encode()
    saved = [line for line in lines[:-_LINES_MAX] if saved_ in line or rung in line][-_SAVED_MAX:]
    return [line for line in (*saved, *lines[-_LINES_MAX:]) if line and len(line) <= _LINE_MAX]


def _link_for_containers(home: int) -> None:
    """Link the socket into a separate directory, the only one that containers get.

    The directory stays when the socket is made again, so running containers find the new socket.
    """
    with suppress(OSError):
        with suppress(FileExistsError):
            os.mkdir(WAKEUPS, _ENTER, dir_fd=home)
        place = os.open(WAKEUPS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=home)
        try:
            os.fchmod(place, _ENTER)
            with suppress(FileNotFoundError):
                os.unlink(SOCKET, dir_fd=place)
            os.link(SOCKET, SOCKET, src_dir_fd=home, dst_dir_fd=place)
        finally:
            os.close(place)


class WakeupSocket:
    """Receives the announcements of new messages from jobs."""

    def __init__(self, home: Path, heard: Callable[[str], None], *, shared: bool = False) -> None:
        self._heard = heard
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._path = home / SOCKET
        self._path.unlink(missing_ok=True)
        # Names of sockets are limited to about 100 bytes, directories aren't
        place = os.open(home, os.O_PATH | os.O_CLOEXEC)
        try:
            self._socket.bind(f"/proc/self/fd/{place}/{SOCKET}")
            _link_for_containers(place)
            if shared:
                os.chmod(SOCKET, 0o622, dir_fd=place)  # noqa: S103 - jobs of all users announce messages
        finally:
            os.close(place)

    def fileno(self) -> int:
        """Return the file descriptor to watch."""
        return self._socket.fileno()

    def read(self) -> None:
        """Read a bounded number of wakeups; the rest follows at the next call."""
        names: set[bytes] = set()
        with suppress(BlockingIOError):
            for _ in range(_POKES_MAX):
                names.add(self._socket.recv(128))
        for name in names:
            if _NAME.fullmatch(name):
                self._heard(name.decode())

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        self._path.unlink(missing_ok=True)
