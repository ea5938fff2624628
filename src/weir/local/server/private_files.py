"""Small files in the home that only the server reads and writes, replaced as a whole."""

import os
from pathlib import Path

FILE_BYTES_MAX = 1 << 20


def read(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: it isn't there, is a link, or can't be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(FILE_BYTES_MAX)


def write(path: Path, content: bytes) -> None:
    """Replace a file.

    Raises:
        OSError: it can't be written; the old one stays.
    """
    beside = path.with_suffix(".new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(beside, flags, 0o600), "wb") as file:
        file.write(content)
    beside.replace(path)
