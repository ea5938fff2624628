"""Open files of a start: all that its supervisor can reach of Weir's records.

The server opens them in a directory that users can't enter, takes the lock, and passes them on. So a
supervisor reads and writes its own records with the rights of its user, and no others. The lock is held as
long as an open copy exists: in the supervisor, or in a message that it hasn't received yet.

Standard library only; runs in supervisors.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from weir.local.files import job_files
from weir.local.files.job_files import UnreadableFile
from weir.local.records import pod_files

_READ_MAX = 64 << 20
_encoded = json.JSONEncoder(separators=(",", ":")).encode


class StartFiles(NamedTuple):
    """Descriptors of the lock, the spec, the records of a start, and the values of its secrets."""

    lock: int
    spec: int
    stop: int
    running: int
    exit: int
    secrets: int = -1

    def close(self) -> None:
        """Close all open files of the start."""
        for fd in self:
            if fd >= 0:
                os.close(fd)


class StartUnreadable(Exception):
    """A record of a start isn't a file that can be used; the text names it."""


def open_start_files(directory: str, secrets: bytes | None) -> StartFiles | None:
    """Lock a start and open its files; None if it has a supervisor or is over.

    Raises:
        StartUnreadable: a record isn't a regular file.
        OSError: the machine is short of something.
    """
    lock = pod_files.take_lock(directory)
    if lock is None:
        return None
    opened = [_usable(lock, pod_files.LOCK)]
    try:
        if pod_files.has(directory, pod_files.EXIT):
            return None
        opened.append(_usable(job_files.open_file(directory, pod_files.START), pod_files.START))
        opened += _records(directory)
        if secrets is not None:
            opened.append(os.memfd_create("secrets"))
            os.write(opened[-1], secrets)
        files = StartFiles(*opened)
        opened = []
        return files
    finally:
        for fd in opened:
            os.close(fd)


def _records(directory: str) -> Iterator[int]:
    for name in (pod_files.STOP, pod_files.RUNNING, pod_files.EXIT):
        yield _usable(job_files.open_file(directory, name, os.O_RDWR | os.O_CREAT), name)


def read(fd: int) -> bytes:
    """Return the content of an open record."""
    size = min(os.fstat(fd).st_size, _READ_MAX)
    text, offset = b"", 0
    while offset < size and (block := os.pread(fd, size - offset, offset)):
        text, offset = text + block, offset + len(block)
    return text


def write(fd: int, value: Mapping[str, object], *, synced: bool = True) -> None:
    """Write an open record.

    Raises:
        OSError: it couldn't be written; the record isn't whole.
    """
    text, offset = _encoded(value).encode(), 0
    while offset < len(text):
        offset += os.pwrite(fd, text[offset:], offset)
    os.ftruncate(fd, len(text))
    if synced:
        os.fsync(fd)


def write_stop(directory: str, grace_s: float, cause: str) -> None:
    """Write the request to stop into the file that the start's supervisor has open.

    Raises:
        OSError: it couldn't be written.
    """
    fd = job_files.open_file(directory, pod_files.STOP, os.O_RDWR | os.O_CREAT)
    if isinstance(fd, int):
        try:
            write(fd, {"grace_s": grace_s, "cause": cause}, synced=False)
        finally:
            os.close(fd)


def _usable(fd: int | UnreadableFile | None, name: str) -> int:
    if isinstance(fd, int):
        return fd
    raise StartUnreadable(f"{name} is gone." if fd is None else fd.sentence)
