"""The server's end of the nursery: asks it for supervisors, and starts a new one when it dies."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from weir.local import fork_server
from weir.local.fd_watcher import FdWatcher

_ANSWER_MOST = 1 << 14
_ENDS_WITHIN_S = 5.0


class ForkClient:
    """Forks supervisors, whatever happens to it.

    `on_forked` receives each requested directory with the pidfd of its supervisor (None: there is
    none); `on_restarted` is called when a new fork server replaced a dead one: unanswered
    requests may or may not have been carried out.
    """

    def __init__(
        self, watch: FdWatcher, on_forked: Callable[[str, int | None], None], on_restarted: Callable[[], None]
    ) -> None:
        self._watch = watch
        self._on_forked = on_forked
        self._on_restarted = on_restarted
        self._lock = threading.Lock()
        self._begin()

    @property
    def pid(self) -> int:
        """Return the pid of the fork server."""
        return self._process.pid

    def fork_supervisor(self, directory: str) -> None:
        """Request a supervisor for this directory. If the fork server is dead, `on_restarted` is called."""
        with suppress(BrokenPipeError, ConnectionResetError), self._lock:
            self._socket.send(directory.encode())

    def close(self) -> None:
        """End the fork server; it still carries out earlier requests."""
        self._watch.drop(self._socket.fileno())
        self._end()

    def _begin(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-I", "-S", fork_server.__file__, str(theirs.fileno())]
            self._process = subprocess.Popen(  # noqa: S603 - our own file, by our own interpreter
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._socket = ours
        self._watch.add(ours.fileno(), self._answered)

    def _end(self) -> None:
        self._socket.close()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answered(self) -> None:
        try:
            message, processes, _, _ = socket.recv_fds(self._socket, _ANSWER_MOST, 1)
        except ConnectionResetError:
            message, processes = b"", []
        if message:
            for process in processes:
                os.set_inheritable(process, False)
            self._on_forked(message.decode(), processes[0] if processes else None)
            return
        self._watch.drop(self._socket.fileno())
        with self._lock:
            self._end()
            self._begin()
        self._on_restarted()
