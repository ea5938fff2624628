"""Fork server: a small warm interpreter that forks supervisors, so that a start costs one fork.

The server starts it and sends the path of a pod's directory over a socket; the answer is the same path and
a pidfd of the supervisor. The fork server ends with the server; supervisors run on.

Standard library only, and little of it: every fork carries all imported modules.
"""

import gc
import os
import signal
import socket
import sys

_PATH_MOST = 1 << 14
_SOURCE_AT = -3
"""Index of this file's name below the directory that contains the package."""


def serve(asked: socket.socket) -> None:
    """Fork a supervisor for each path that comes in, until the server is gone."""
    from weir.local.supervisor import supervise

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # this process never waits for supervisors
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))  # a supervisor hears it once it can act on it
    gc.disable()
    gc.freeze()
    while path := asked.recv(_PATH_MOST):
        try:
            pid = os.fork()
        except OSError:
            _answer(asked, path, None)
            continue
        if pid == 0:
            asked.close()
            try:
                supervise(path.decode())
            finally:
                os._exit(0)
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            process = None
        _answer(asked, path, process)


def _answer(asked: socket.socket, path: bytes, process: int | None) -> None:
    """Say that it was done, or with no process that it is over already or was never begun."""
    try:
        socket.send_fds(asked, [path], [] if process is None else [process])
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server is gone; its request was carried out
    finally:
        if process is not None:
            os.close(process)


if __name__ == "__main__":
    sys.path.append(os.sep.join(os.path.abspath(__file__).split(os.sep)[:_SOURCE_AT]))
    serve(socket.socket(fileno=int(sys.argv[1])))
