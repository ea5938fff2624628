"""File that tells clients of this machine where the server is."""

import errno
import json
import os
from contextlib import suppress
from pathlib import Path

from weir.local.files.disk_reserve import is_full
from weir.local.server.http.home_socket import SOCKET_FILE

SERVER_FILE = "server.json"


def write(home: Path, url: str, *, has_socket: bool, mode: int = 0o600) -> None:
    """Write the address of the server. `has_socket`: its socket is in the same directory.

    Raises:
        OSError: it can't be written.
    """
    if (home / SERVER_FILE).is_dir():  # the error of the rename would name the other file
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(home / SERVER_FILE))
    own = SOCKET_FILE if has_socket else None
    content = json.dumps({"pid": os.getpid(), "url": url, "socket": own}) + "\n"
    beside = home / f"{SERVER_FILE}.new"
    try:
        beside.unlink(missing_ok=True)
        with beside.open("x", encoding="utf-8") as file:  # through no link
            file.write(content)
        beside.chmod(mode)
        beside.replace(home / SERVER_FILE)
    except OSError as error:
        if not is_full(error):
            raise
        beside.unlink(missing_ok=True)
        _write_in_place(home / SERVER_FILE, content.encode(), error)


def _write_in_place(path: Path, content: bytes, full: OSError) -> None:
    """Overwrite the file of a server that was killed: on a full disk only its own block is left.

    Raises:
        OSError: there is none, or it doesn't take the content.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        raise full from None
    try:
        if os.pwrite(descriptor, content, 0) != len(content):
            raise full
        os.ftruncate(descriptor, len(content))
    finally:
        os.close(descriptor)


def remove(home: Path) -> None:
    """Remove the file, unless another server has written it since."""
    path = home / SERVER_FILE
    with suppress(OSError, ValueError):
        if json.loads(path.read_text("utf-8")).get("pid") == os.getpid():
            path.unlink()
