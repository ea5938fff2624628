"""The process that forks supervisors: a small warm interpreter, so that a start costs a fork.

The server starts it and asks over a socket: the path of a pod's directory in, the same path and a
descriptor of the supervisor's process out. It ends when the server does; supervisors don't care.

Standard library only, and little of it: what it imports, every fork of it carries.
"""

import gc
import os
import signal
import socket
import sys

_PATH_MOST = 1 << 14
_SOURCE_AT = -3
"""This file is so many names below the directory that holds the package."""


def serve(asked: socket.socket) -> None:
    """Fork a supervisor for each path that comes in, until the server is gone."""
    from weir.local.supervisor import supervise

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for supervisors here
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
        pass  # the server is gone; what it asked for is done all the same
    finally:
        if process is not None:
            os.close(process)


if __name__ == "__main__":
    sys.path.append(os.sep.join(os.path.abspath(__file__).split(os.sep)[:_SOURCE_AT]))
    serve(socket.socket(fileno=int(sys.argv[1])))
