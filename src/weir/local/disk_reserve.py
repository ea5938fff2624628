"""The disk of a home: a full one is recognised, and a reserve lets a job be stopped on it.

The reserve is a file that takes up part of the disk. It is removed when a stop can't be written down, and
made again once there is plenty of space.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

FILE = "reserve"
BYTES = 8 << 20
_PART_MOST = 16
"""On a small disk the reserve is so small a part of what is free."""
BYTES_LEAST = 64 << 10
"""A stop needs this much; with less left the disk counts as full."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: OSError) -> bool:
    """Return True if a write failed because the disk, or its owner's quota of it, is full."""
    return error.errno in _FULL


class DiskReserve:
    """Space on the disk of a home, kept for when there is none."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    @property
    def is_there(self) -> bool:
        """Return True if there is a reserve to release."""
        return self._path.exists()

    @property
    def trouble(self) -> str | None:
        """Return the sentence for a full disk; None if the disk isn't full."""
        try:
            left = self._free()
        except OSError as error:
            return f"The disk can't be looked at: {error.strerror}."
        if left >= BYTES_LEAST:
            return None
        kept = "Stops work" if self.is_there else "Even stops may fail"
        return f"The disk that holds {self._path.parent} is full. {kept}; free some space."

    def restore(self) -> bool:
        """Make the reserve where it is missing or small and the disk has plenty; True if it is there."""
        with suppress(OSError):
            size = min(BYTES, self._free() // _PART_MOST)
            if size >= BYTES_LEAST and (not self.is_there or self._path.stat().st_size < size // 2):
                self._make(size)
        return self.is_there

    def _free(self) -> int:
        """Return the bytes of the disk that are free to this user."""
        there = os.statvfs(self._path.parent)
        return there.f_bavail * there.f_frsize

    def release(self) -> bool:
        """Give the space back to the disk; False if there was none."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def _make(self, size: int) -> None:
        beside = self._path.with_suffix(".new")
        try:
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, size)
            finally:
                os.close(fd)
            beside.replace(self._path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
