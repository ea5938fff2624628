"""Drained state of the pool's node, kept in a file of the home: it survives restarts."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from structlog import get_logger

from weir.local.server.home import private_files

FILE = "drained.json"
REASON_MAX = 200
"""Characters of a reason."""
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
        text = private_files.read(home / FILE)
        return None if text is None else NodeDrain.model_validate_json(text)
    except (OSError, ValidationError) as error:
        _LOG.warning("drained_state_unreadable", why=type(error).__name__)
        return NodeDrain(user="weir", at_s=0.0, reason=f"{FILE} can't be read", keeps_running=True)


def write_drain(home: Path, drain: NodeDrain | None) -> None:
    """Write the drained state durably; None removes it.

    Raises:
        OSError: the file can't be written; the old state stays.
    """
    private_files.write_durably(home / FILE, None if drain is None else drain.model_dump_json())
