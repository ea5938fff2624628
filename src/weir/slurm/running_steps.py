"""Steps of a job: their numbers, and those that run now, as files that each `srun` holds locked.

The kernel frees a lock when its process ends, in any way, so what a dead `srun` held is free.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_COUNTER = "next"


@contextmanager
def locked(file: Path) -> Iterator[int]:
    """Hold the lock of a file."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def next_step(place: Path) -> int:
    """Return the number of a new step."""
    with locked(place / "steps" / _COUNTER) as fd:
        number = int(os.pread(fd, 20, 0) or b"0")
        os.pwrite(fd, str(number + 1).encode(), 0)
        return number


def register(place: Path, step: int) -> int:
    """Record this process as that of a step until it ends; return the locked file descriptor."""
    fd = os.open(place / "steps" / f"{step}.pid", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.pwrite(fd, str(os.getpid()).encode(), 0)
    return fd


def unregister(place: Path, step: int, fd: int) -> None:
    """Remove the record of a step that is over."""
    with suppress(OSError):
        (place / "steps" / f"{step}.pid").unlink()
    os.close(fd)


def signal_steps(place: Path, number: int) -> None:
    """Send a signal to all steps that run, which pass it on to their tasks."""
    for file in (place / "steps").glob("*.pid"):
        with suppress(OSError, ValueError):
            fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
            try:
                if not _is_free(fd):
                    os.kill(int(os.pread(fd, 20, 0)), number)
            finally:
                os.close(fd)


def _is_free(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
