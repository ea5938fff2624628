"""Disk of the home: recognise a full disk, and keep a reserve so that a job can still be stopped.

The reserve is a file that occupies disk space. It is deleted when a stop can't be written, and halved when a
server starts on a full disk. It is created again once there is enough space.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from structlog import get_logger

FILE = "reserve"
BYTES = 8 << 20
_PART_MAX = 16
"""Largest part of the free disk space that the reserve uses."""
BYTES_MIN = 64 << 10
"""A stop needs this much; with less left the disk counts as full."""
_LOG = get_logger(__name__)
Result = TypeVar("Result")
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
        """Return True if a reserve exists that can be released."""
        return self._path.exists()

    @property
    def trouble(self) -> str | None:
        """Return the sentence for a full disk; None if the disk isn't full."""
        try:
            has_space = self._free() >= BYTES_MIN and self._has_inodes()
        except OSError as error:
            return f"The disk can't be checked: {error.strerror}."
        if has_space:
            return None
        kept = "Stopping jobs still works" if self.is_there else "Even stopping jobs may fail"
        return f"The disk that holds {self._path.parent} is full. {kept}; free some space."

    def restore(self) -> bool:
        """Make a missing or small reserve again if the disk has plenty; return True if it exists."""
        with suppress(OSError):
            size = min(BYTES, self._free() // _PART_MAX)
            if size >= BYTES_MIN and (not self.is_there or self._path.stat().st_size <= size // 2):
                self._make(size)
        return self.is_there

    def _free(self) -> int:
        """Return the bytes of the disk that are free to this user."""
        file_system = os.statvfs(self._path.parent)
        return file_system.f_bavail * file_system.f_frsize

    def _has_inodes(self) -> bool:
        """Return True if this user can make files; file systems without a fixed number of them count none."""
        file_system = os.statvfs(self._path.parent)
        return file_system.f_favail > 0 or file_system.f_files == 0

    def retry(self, write: Callable[[], Result]) -> Result:
        """Return the result of a write that a starting server needs; a full disk gets the reserve for it.

        It gets half of the reserve at each try, since the job that fills the disk may take it first.

        Raises:
            OSError: the write failed, and no reserve could help.
        """
        while True:
            try:
                return write()
            except OSError as error:
                if not is_full(error) or not self._release_half():
                    raise

    def _release_half(self) -> bool:
        """Give half of the space back to the disk, or all if little is left; False if there was none."""
        try:
            size = self._path.stat().st_size // 2
            if size < BYTES_MIN:
                released = self.release()
            else:
                os.truncate(self._path, size)
                released = True
        except OSError:
            return False
        if released:
            _LOG.warning("reserve_released", why="The disk is full, and the server is starting.")
        return released

    def release(self) -> bool:
        """Delete the reserve to free its disk space; return False if it didn't exist."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def _make(self, size: int) -> None:
        beside = self._path.with_suffix(".new")
        try:
            beside.unlink(missing_ok=True)
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, size)
            finally:
                os.close(fd)
            beside.replace(self._path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
