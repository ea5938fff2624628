"""Socket in the home, for the owner's own command line and programs.

A port of loopback doesn't prove who listens on it; for this socket the kernel does. Only the owner can use
the home. Requests need a token here too: every job of the pool runs as that user.
"""

import os
import socket
from contextlib import suppress
from pathlib import Path

from structlog import get_logger

SOCKET_FILE = "weir.sock"
_BACKLOG = 256
_LOG = get_logger(__name__)


def listen_in(home: Path) -> socket.socket | None:
    """Listen on the socket of a home that this process occupies; None if its file system has no sockets."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(FileNotFoundError):
            os.unlink(SOCKET_FILE, dir_fd=directory)  # of a server that was killed
        listening.bind(
            f"/proc/self/fd/{directory}/{SOCKET_FILE}"
        )  # names of sockets are short, homes needn't be
        os.chmod(SOCKET_FILE, 0o600, dir_fd=directory)
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
