"""Small files in the home that only the server reads and writes, replaced as a whole."""

import errno
import os
import stat
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from structlog import get_logger

FILE_BYTES_MAX = 1 << 20
_LOG = get_logger(__name__)
Content = TypeVar("Content")


def read(path: Path, bytes_max: int = FILE_BYTES_MAX) -> bytes | None:
    """Return the content of a file; None if there is none.

    Raises:
        OSError: the file is irregular, such as a link, or can't be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    with os.fdopen(descriptor, "rb") as file:
        return file.read(bytes_max)


def read_entries(
    path: Path, entries: TypeAdapter[dict[str, Content]], *, unreadable: str
) -> dict[str, Content]:
    """Return the entries of a file; none if there is no file, or with a warning if it can't be used."""
    try:
        content = read(path)
        return {} if content is None else entries.validate_json(content)
    except (OSError, ValidationError) as error:
        _LOG.warning(unreadable, why=type(error).__name__)
        return {}


def write(path: Path, content: bytes, *, is_synced: bool = False) -> None:
    """Replace a file; `is_synced` writes its content to the disk first.

    Raises:
        OSError: the file can't be written; the old one stays.
    """
    beside = path.with_suffix(".new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(beside, flags, 0o600), "wb") as file:
        file.write(content)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)


def write_durably(path: Path, text: str | None) -> None:
    """Replace a file durably; None removes it.

    Raises:
        OSError: the file can't be written; the old content stays.
    """
    if text is None:
        path.unlink(missing_ok=True)
    else:
        write(path, text.encode(), is_synced=True)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
