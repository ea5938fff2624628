"""Connection to the program of a session, on its socket in the pod's own directory.

The job may put anything in the place of the socket. A link to another socket would make the server speak
there with its own rights. So no link is followed, and socket and listener must belong to the job's user.
"""

import os
import socket
import stat

from weir.local.files import job_files
from weir.local.server.http.peers import peer_of_socket
from weir.local.server.http.problem_details import RequestRefused
from weir.local.starts.session_programs import SOCKET

_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def connect(own: str) -> socket.socket:
    """Return a connection to the program of the pod with this directory.

    Raises:
        RequestRefused: it doesn't listen yet, or the file of that name isn't its socket.
    """
    directory = job_files.open_directory(own)
    if not isinstance(directory, int):
        raise RequestRefused(409, "Its pod is over.", retry_after_s=1.0)
    try:
        owner = os.fstat(directory).st_uid
        try:
            place = os.open(SOCKET, _FLAGS, dir_fd=directory)
        except FileNotFoundError:
            raise _not_yet() from None
    finally:
        os.close(directory)
    try:
        status = os.fstat(place)
        if not stat.S_ISSOCK(status.st_mode) or status.st_uid != owner:
            raise RequestRefused(502, "At the path of its socket there is no socket of its user.")
        return _connected(place, owner)
    finally:
        os.close(place)


def _connected(place: int, owner: int) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        connection.connect(f"/proc/self/fd/{place}")
    except (ConnectionError, FileNotFoundError, PermissionError):
        connection.close()
        raise _not_yet() from None
    except BlockingIOError:
        connection.close()
        raise RequestRefused(503, "Its program has too many connections.", retry_after_s=1.0) from None
    peer = peer_of_socket(connection)
    if peer is None or peer.uid != owner:
        connection.close()
        raise RequestRefused(502, "Its socket belongs to a program of another user.")
    return connection


def _not_yet() -> RequestRefused:
    return RequestRefused(409, "Its program doesn't listen yet.", retry_after_s=1.0)
