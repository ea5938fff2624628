"""File that tells clients of this machine where the server is."""

import errno
import json
import os
from contextlib import suppress
from pathlib import Path

SERVER_FILE = "server.json"


def write(home: Path, url: str, own: str | None, mode: int = 0o600) -> None:
    """Write the address of the server. `own`: name of its socket in the same directory; None without one.

    Raises:
        OSError: it can't be written.
    """
    if (home / SERVER_FILE).is_dir():  # the error of the rename would name the other file
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(home / SERVER_FILE))
    beside = home / f"{SERVER_FILE}.new"
    beside.write_text(json.dumps({"pid": os.getpid(), "url": url, "socket": own}) + "\n", "utf-8")
    beside.chmod(mode)
    beside.replace(home / SERVER_FILE)


def remove(home: Path) -> None:
    """Remove the file, unless another server has written it since."""
    path = home / SERVER_FILE
    with suppress(OSError, ValueError):
        if json.loads(path.read_text("utf-8")).get("pid") == os.getpid():
            path.unlink()
