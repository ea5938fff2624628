"""Output of a pod: a file to which the job appends directly, limited in size.

Nothing stands between a job and its file, so nothing can block the job. If the file grows too large, a hole
is punched in its middle: the beginning and the end stay. Offsets in the file don't change, so readers are
not disturbed.

Standard library only; runs in supervisors.
"""

import ctypes
import os
import time
from contextlib import suppress

from weir.local.files.job_files import UnreadableFile, open_file

MIN_OUTPUT_BYTES = 1 << 20
"""The smallest bound there may be."""
_BLOCK = 4096
_BACK_BLOCK, _BACK_MAX = 1 << 18, 64 << 20
"""Size of one read backwards, and the most bytes to search for the last lines."""
_PUNCH_HOLE = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_SOON_S, _LATE_S, _FIRST_S = 0.2, 10.0, 1.0
_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)


class OutputFile:
    """Keeps one open file below `most` bytes on the disk; 0: without bound."""

    def __init__(self, fd: int, most: int) -> None:
        self._fd = fd
        self._most = most
        self._seen = (0, time.monotonic())
        self._look_at = self._seen[1] + _FIRST_S

    def due_s(self) -> float | None:
        """Return the seconds until the next trim; None if there is none."""
        return self._look_at - time.monotonic() if self._most else None

    def look(self, *, last: bool = False) -> None:
        """Punch a hole if it is time and the file is too large; a fast-growing file is checked sooner."""
        if not self._most or (self._look_at > time.monotonic() and not last):
            return
        with suppress(OSError):
            self._look(self._fd)
            return
        self._look_at = time.monotonic() + _LATE_S

    def _look(self, fd: int) -> None:
        seen = os.fstat(fd)
        allocated, now = seen.st_blocks * 512, time.monotonic()
        if allocated > self._most:
            _shorten(fd, seen.st_size, self._most)
            allocated = os.fstat(fd).st_blocks * 512
        size, before_s = self._seen
        rate = max(0, seen.st_size - size) / max(now - before_s, 1e-3)
        self._seen = seen.st_size, now
        left_s = (self._most - allocated) / rate / 2 if rate else _LATE_S
        self._look_at = now + min(max(left_s, _SOON_S), _LATE_S)


def _shorten(fd: int, size: int, most: int) -> None:
    """Keep a quarter of the limit from the beginning and half of it from the end."""
    begin = most // 4 // _BLOCK * _BLOCK
    end = (size - most // 2) // _BLOCK * _BLOCK
    if end > begin and _fallocate(fd, _PUNCH_HOLE, begin, end - begin) == 0:
        return
    os.ftruncate(fd, 0)  # the file system has no holes
    os.write(fd, f"weir: {size} bytes of output before this were left out\n".encode())


def read_on(path: str, position: int, most: int) -> tuple[bytes, int]:
    """Return a block of a file and the position after it; a line of text marks a gap."""
    directory, _, name = path.rpartition("/")
    fd = open_file(directory, name)
    if fd is None:
        return b"", position
    if isinstance(fd, UnreadableFile):
        return (_refusal(fd), 1) if position == 0 else (b"", position)
    try:
        if position > os.fstat(fd).st_size:
            position = 0  # the file was truncated
        try:
            data_start = os.lseek(fd, position, os.SEEK_DATA)
        except OSError:
            return b"", position  # end of the file
        if data_start > position:
            return (
                f"\n[weir: {data_start - position:,} bytes of output were left out here]\n".encode(),
                data_start,
            )
        block = os.pread(fd, most, position)
        with suppress(OSError):
            block = block[: max(0, os.lseek(fd, position, os.SEEK_HOLE) - position)]
        return block, position + len(block)
    finally:
        os.close(fd)


def _refusal(unreadable: UnreadableFile) -> bytes:
    return f"[weir: the output can't be read: {unreadable.sentence}]\n".encode()


def size_of(path: str) -> int:
    """Return the size of a readable file; an unreadable one has the size of its error message."""
    directory, _, name = path.rpartition("/")
    fd = open_file(directory, name)
    if not isinstance(fd, int):
        return 0 if fd is None else 1
    try:
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def tail_of(path: str, lines: int) -> int:
    """Return the offset of the last lines: at most `_BACK_MAX` bytes before the end.

    The search doesn't cross a gap.
    """
    directory, _, name = path.rpartition("/")
    fd = open_file(directory, name)
    if not isinstance(fd, int):
        return 0
    try:
        size = os.fstat(fd).st_size
        ends_whole = size > 0 and os.pread(fd, 1, size - 1) == b"\n"
        return _tail(fd, size, lines + 1 if ends_whole else lines)
    except OSError:
        return 0
    finally:
        os.close(fd)


def _tail(fd: int, size: int, newlines: int) -> int:
    """Return the offset after the newline with this number, counted from the end."""
    least, position = max(0, size - _BACK_MAX), size
    if newlines <= 0:
        return size
    while position > least:
        begin = max(least, position - _BACK_BLOCK)
        block = os.pread(fd, position - begin, begin)
        if not block.strip(b"\0"):
            return os.lseek(fd, begin, os.SEEK_DATA)
        count = block.count(b"\n")
        if count < newlines:
            newlines -= count
            position = begin
            continue
        offset = len(block)
        for _ in range(newlines):
            offset = block.rfind(b"\n", 0, offset)
        return begin + offset + 1
    return least
