"""Socket of an installed pool: everyone on the machine may connect, and the kernel names the caller.

Its directory belongs to the server, and others can't write there. It holds the address of the port, too.
"""

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weir.local.server.http import home_socket

_LOCK_FILE = "lock"
_EVERYONE = 0o666


class SocketNotAvailable(Exception):
    """The machine's socket can't be used; the text says why."""


@contextmanager
def listen(path: Path) -> Iterator[socket.socket]:
    """Listen on the socket of the machine until the block ends.

    Raises:
        SocketNotAvailable: another pool has it, or its directory isn't safe.
    """
    directory = path.parent
    if path.name != home_socket.SOCKET_FILE:
        raise SocketNotAvailable(f"{path} isn't called {home_socket.SOCKET_FILE}")
    lock = _occupy(directory)
    try:
        listening = home_socket.listen_in(directory, _EVERYONE)
        if listening is None:
            raise SocketNotAvailable(f"{path} can't be listened on")
        with listening:
            yield listening
    finally:
        home_socket.remove_from(directory)
        os.close(lock)


def _occupy(directory: Path) -> int:
    """Return the lock of a directory that belongs to this user alone."""
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise SocketNotAvailable(f"{directory} must belong to the pool's user, with mode 0755")
        directory.chmod(0o755)  # regardless of the umask, so that others can connect
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(directory / _LOCK_FILE, flags, 0o600)
    except OSError as error:
        raise SocketNotAvailable(f"{directory} can't be used: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise SocketNotAvailable(f"another pool serves {directory} already") from None
    return lock
