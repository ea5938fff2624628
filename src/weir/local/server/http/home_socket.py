"""Unix sockets of a pool: in its home for its owner, and of the machine for everyone.

A port of loopback doesn't prove who listens on it. For a Unix socket the kernel proves it, and also names the
caller.
"""

import os
import socket
from contextlib import suppress
from pathlib import Path

from structlog import get_logger

SOCKET_FILE = "weir.sock"
_BACKLOG = 256
_LOG = get_logger(__name__)


def listen_in(home: Path, mode: int = 0o600) -> socket.socket | None:
    """Listen on the socket of a directory of this process; None if its file system has no sockets."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(FileNotFoundError):
            os.unlink(SOCKET_FILE, dir_fd=directory)  # left by a server that was killed
        # Names of sockets are limited to about 100 bytes, directories aren't
        listening.bind(f"/proc/self/fd/{directory}/{SOCKET_FILE}")
        os.chmod(SOCKET_FILE, mode, dir_fd=directory)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        _LOG.warning("no_socket_in_home", why=error.strerror or str(error))
        return None
    finally:
        os.close(directory)
    return listening


def remove_from(home: Path) -> None:
    """Remove the socket of a home."""
    with suppress(OSError):
        (home / SOCKET_FILE).unlink()
