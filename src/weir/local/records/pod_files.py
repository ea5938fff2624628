"""Directories of a start, and the state of its supervisor.

Weir's own records lie below `pods`: the spec, the lock, the outcome. A job doesn't know that directory. Its
own directory lies below `jobs`, with its output and its messages; `job_files` reads them without trusting
them.

The server writes records atomically (new file, sync, rename); a supervisor, which may be another user's,
writes the files that the server opened for it. The supervisor holds the lock as long as it lives, so no
process id has to be trusted. Any other process that takes the lock must record the outcome before it
releases the lock, or pass the lock on.

Standard library only, and little of it: the interpreter that forks supervisors has to stay small.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from weir.local.files import job_files
from weir.local.files.job_files import UnreadableFile
from weir.local.records import pod_records

START, LOCK, RUNNING, STOP, EXIT = "start.json", "lock", "running.json", "stop.json", "exit.json"
NOTES, LOG = "notes.jsonl", "log"
"""File of messages in the job's own directory, where a copy of STOP lies, too."""
RECORDS, OWN = "pods", "jobs"
_START_MAX, _RECORD_MAX = 64 << 20, 1 << 16

_encoded = json.JSONEncoder(separators=(",", ":")).encode

_OVER = {b"Z", b"X"}
_CLOCK_TICKS_AT = 19
"""Field of the start time in /proc/PID/stat, counted after the name."""


def own_directory(directory: str) -> str:
    """Return the job's own directory of the start with these records."""
    home, _, uid, start = directory.rsplit("/", 3)
    return f"{home}/{OWN}/{uid}/{start}"


def make_own(directory: str) -> None:
    """Make the job's own directory; if it exists, its opener checks it.

    Raises:
        OSError: the directory couldn't be made.
    """
    own = own_directory(directory)
    try:
        os.mkdir(own, 0o700)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(own.rpartition("/")[0], 0o700)
        with suppress(FileExistsError):
            os.mkdir(own, 0o700)
    except FileExistsError:
        pass


def write(directory: str, name: str, value: Mapping[str, object], *, synced: bool = True) -> None:
    """Write a record atomically, or raise OSError and keep the old one."""
    path = f"{directory}/{name}"
    beside = f"{path}.new"
    text = _encoded(value).encode()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            fd = os.open(beside, flags, 0o600)
        except FileExistsError:  # left by a writer that was killed
            os.unlink(beside)
            fd = os.open(beside, flags, 0o600)
        try:
            written = 0
            while written < len(text):
                written += os.write(fd, text[written:])
            if synced:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(beside, path)
    except OSError:
        with suppress(OSError):
            os.unlink(beside)
        raise


def read(directory: str, name: str) -> bytes | UnreadableFile | None:
    """Return the text of a record, for `pod_records`; None if it wasn't written.

    Raises:
        OSError: the machine lacks a resource.
    """
    text = job_files.read_whole(directory, name, _START_MAX if name == START else _RECORD_MAX)
    return None if text == b"" and name != START else text


def read_object(directory: str, name: str) -> dict[str, Any] | None:
    """Return a record as it is, unchecked; None if it can't be read."""
    text = read(directory, name)
    return pod_records.parse_object(text) if isinstance(text, bytes) else None


def has(directory: str, name: str) -> bool:
    """Return True if a record has content. The server makes empty files for the records of a supervisor."""
    return job_files.is_written(directory, name)


def take_lock(directory: str) -> int | UnreadableFile | None:
    """Take the lock, held until the returned descriptor is closed; None if its supervisor lives.

    Raises:
        OSError: the machine lacks a resource.
    """
    fd = job_files.open_file(directory, LOCK, os.O_RDWR | os.O_CREAT)
    if fd is None:
        return UnreadableFile(directory.rpartition("/")[2], "is gone")
    if isinstance(fd, UnreadableFile):
        return fd
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError:
        os.close(fd)
        raise
    return fd


class ProcessIdentity:
    """Identity of a process: its id, its start time, and the boot of the machine in which both count."""

    __slots__ = ("boot", "pid", "ticks")

    def __init__(self, pid: int, ticks: int, boot: str) -> None:
        self.pid = pid
        self.ticks = ticks
        self.boot = boot

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity | None":
        """Identify a process that exists now; return None if it doesn't."""
        ticks = started_ticks(pid)
        return None if ticks is None else cls(pid, ticks, boot())

    def lives(self) -> bool:
        """Return True if this very process is alive, not only its entry in the process table."""
        fields = stat_of(self.pid) if self.boot == boot() else None
        return fields is not None and fields[0] not in _OVER and int(fields[_CLOCK_TICKS_AT]) == self.ticks


def sign(lock: int) -> None:
    """Sign a lock that this process holds."""
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    text = f"{me.pid} {me.ticks} {me.boot}\n".encode()
    os.pwrite(lock, text, 0)
    os.ftruncate(lock, len(text))


def signed(directory: str) -> ProcessIdentity | None:
    """Return the last signer of the lock; None if it is unsigned."""
    fd = job_files.open_file(directory, LOCK)
    if not isinstance(fd, int):
        return None
    try:
        return signature(fd)
    finally:
        os.close(fd)


def open_supervisor(directory: str) -> int | None:
    """Open the process of the supervisor that signed the lock; None if it is gone, or hasn't signed yet."""
    supervisor = signed(directory)
    if supervisor is None or not supervisor.lives():
        return None
    with suppress(ProcessLookupError):
        process = os.pidfd_open(supervisor.pid)
        if supervisor.lives():
            return process
        os.close(process)
    return None


def signature(lock: int) -> ProcessIdentity | None:
    """Return the last signer of an open lock; None if it is unsigned."""
    words = os.pread(lock, 256, 0).split()
    if len(words) != 3 or not all(_is_short_number(word) for word in words[:2]):
        return None
    return ProcessIdentity(int(words[0]), int(words[1]), words[2].decode(errors="replace"))


def _is_short_number(word: bytes) -> bool:
    return word.isdigit() and len(word) < 19


_boot = ""


def boot() -> str:
    """Return the id of this boot of the machine; empty if unknown."""
    global _boot  # noqa: PLW0603 - it never changes while we run
    if not _boot:
        _boot = (_read_short("/proc/sys/kernel/random/boot_id") or b"-").decode().strip() or "-"
    return _boot


def stat_of(pid: int) -> list[bytes] | None:
    """Return the fields of /proc/PID/stat from the state on; None if the process is gone."""
    text = _read_short(f"/proc/{pid}/stat")
    return text[text.rindex(b")") + 2 :].split() if text else None


def started_ticks(pid: int) -> int | None:
    """Return the start time of a process in kernel ticks; None if it is gone."""
    fields = stat_of(pid)
    return int(fields[_CLOCK_TICKS_AT]) if fields else None


def processes() -> list[int]:
    """Return the ids of all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children(parent: int) -> list[int]:
    """Return the children of a process."""
    return _children_by_parent().get(parent, [])


def descendants(root: int) -> list[int]:
    """Return the descendants of a process, parents before their children."""
    by_parent = _children_by_parent()
    pids = [root]
    for pid in pids:
        pids += by_parent.get(pid, ())
    return pids[1:]


def _children_by_parent() -> dict[int, list[int]]:
    by_parent: dict[int, list[int]] = {}
    for pid in processes():
        fields = stat_of(pid)
        if fields:
            by_parent.setdefault(int(fields[1]), []).append(pid)
    return by_parent


def _read_short(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
