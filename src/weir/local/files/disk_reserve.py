"""Disk of the home: recognise a full disk, and keep a reserve so that a job can still be stopped.

The reserve is a file that occupies disk space. It is deleted when a stop can't be written, and created
again once there is enough space.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

FILE = "reserve"
BYTES = 8 << 20
_PART_MAX = 16
"""The reserve takes at most this part of the free space."""
BYTES_MIN = 64 << 10
"""A stop needs this much; with less left the disk counts as full."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: OSError) -> bool:
    """Return True if a write failed because the disk, or its owner's quota of it, is full."""
    return error.errno in _FULL


class DiskReserve:
    """Holds disk space in the home, and releases it when the disk is full."""

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
            return f"The disk can't be checked: {error.strerror}."
        if left >= BYTES_MIN:
            return None
        kept = "Stopping jobs still works" if self.is_there else "Even stopping jobs may fail"
        return f"The disk that holds {self._path.parent} is full. {kept}; free some space."

    def restore(self) -> bool:
        """Make the reserve where it is missing or small and the disk has plenty; True if it is there."""
        with suppress(OSError):
            size = min(BYTES, self._free() // _PART_MAX)
            if size >= BYTES_MIN and (not self.is_there or self._path.stat().st_size < size // 2):
                self._make(size)
        return self.is_there

    def _free(self) -> int:
        """Return the bytes of the disk that are free to this user."""
        file_system = os.statvfs(self._path.parent)
        return file_system.f_bavail * file_system.f_frsize

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
