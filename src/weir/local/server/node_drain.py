"""Drained state of the pool's node, kept in a file of the home: it survives restarts."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from structlog import get_logger

FILE = "drained.json"
REASON_MAX = 200
"""Characters of a reason."""
_BYTES_MAX = 1 << 20
_LOG = get_logger(__name__)


class NodeDrain(BaseModel):
    """A drained node: the person, the time, the reason, and True if running work was left to end."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    user: Annotated[str, Field(max_length=500)]
    at_s: float
    reason: Annotated[str, Field(max_length=REASON_MAX)] = ""
    keeps_running: bool = False

    @property
    def sentence(self) -> str:
        """Return the state in words, for lists of nodes."""
        return f"drained by {self.user}{f': {self.reason}' if self.reason else ''}"


def read_drain(home: Path) -> NodeDrain | None:
    """Return the drained state of a home; None if the node isn't drained.

    A file that can't be read counts as drained: nothing starts until an administrator decides.
    """
    try:
        text = read_file(home / FILE)
        return None if text is None else NodeDrain.model_validate_json(text)
    except (OSError, ValidationError) as error:
        _LOG.warning("drained_state_unreadable", why=type(error).__name__)
        return NodeDrain(user="weir", at_s=0.0, reason=f"{FILE} can't be read", keeps_running=True)


def write_drain(home: Path, drain: NodeDrain | None) -> None:
    """Write the drained state durably; None removes it.

    Raises:
        OSError: it can't be written; the old state stays.
    """
    write_file(home / FILE, None if drain is None else drain.model_dump_json())


def read_file(path: Path) -> bytes | None:
    """Return the content of a small file of the home, which is no link; None if there is none.

    Raises:
        OSError: it can't be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_BYTES_MAX)


def write_file(path: Path, text: str | None) -> None:
    """Replace a file of the home durably; None removes it.

    Raises:
        OSError: it can't be written; the old content stays.
    """
    if text is None:
        path.unlink(missing_ok=True)
    else:
        beside = path.with_suffix(".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
