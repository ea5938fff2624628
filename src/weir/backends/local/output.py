"""The output of a pod: a file it appends to by itself, of which only so much is kept.

Nothing stands between a job and its file, so nothing can hold it up. When the file has grown too large, its
middle is given back to the disk: the beginning stays, and what came last. Places in the file stay what they
are, so that whoever reads it meanwhile is not disturbed.

Standard library only; runs in supervisors.
"""

import ctypes
import os
import time
from contextlib import suppress

LEAST = 1 << 20
"""The smallest bound there may be."""
_BLOCK = 4096
_PUNCH_HOLE = 0x02 | 0x01  # and keep the size
_SOON_S, _LATE_S, _FIRST_S = 0.2, 10.0, 1.0
_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)


class Output:
    """Keeps one file below `most` bytes on the disk; 0: without bound."""

    def __init__(self, path: str, most: int) -> None:
        self._path = path
        self._most = most
        self._seen = (0, time.monotonic())
        self._look_at = self._seen[1] + _FIRST_S

    def due_s(self) -> float | None:
        """In how long to look; None if never."""
        return self._look_at - time.monotonic() if self._most else None

    def look(self, *, last: bool = False) -> None:
        """Give back what is too much, if it is time; the next time comes the sooner, the faster it grows."""
        if not self._most or (self._look_at > time.monotonic() and not last):
            return
        with suppress(OSError):
            fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            try:
                self._look(fd)
            finally:
                os.close(fd)
            return
        self._look_at = time.monotonic() + _LATE_S

    def _look(self, fd: int) -> None:
        seen = os.fstat(fd)
        held, now = seen.st_blocks * 512, time.monotonic()
        if held > self._most:
            _shorten(fd, seen.st_size, self._most)
            held = os.fstat(fd).st_blocks * 512
        size, at = self._seen
        rate = max(0, seen.st_size - size) / max(now - at, 1e-3)
        self._seen = seen.st_size, now
        left_s = (self._most - held) / rate / 2 if rate else _LATE_S
        self._look_at = now + min(max(left_s, _SOON_S), _LATE_S)


def _shorten(fd: int, size: int, most: int) -> None:
    """Keep a quarter of the most from the beginning and half of it from the end."""
    begin = most // 4 // _BLOCK * _BLOCK
    end = (size - most // 2) // _BLOCK * _BLOCK
    if end > begin and _fallocate(fd, _PUNCH_HOLE, begin, end - begin) == 0:
        return
    os.ftruncate(fd, 0)  # where files can't have holes
    os.write(fd, f"weir: {size} bytes of output before this were left out\n".encode())


def read_on(path: str, position: int, most: int) -> tuple[bytes, int]:
    """What a file has from a position on, and where it goes on; a line says where something was left out."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b"", position
    try:
        if position > os.fstat(fd).st_size:
            position = 0  # it was begun anew
        try:
            there = os.lseek(fd, position, os.SEEK_DATA)
        except OSError:
            return b"", position  # its end
        if there > position:
            return f"\n[weir: {there - position:,} bytes of output were left out here]\n".encode(), there
        block = os.pread(fd, most, position)
        with suppress(OSError):
            block = block[: max(0, os.lseek(fd, position, os.SEEK_HOLE) - position)]
        return block, position + len(block)
    finally:
        os.close(fd)
