"""Start processes of Weir from a process that has imported Weir already.

Importing takes most of the processor time of a start, and the tests start Weir a hundred times. The prefork
server imports once and forks for every start. A fork is a process like any other: it has arguments, an
environment, a directory, standard streams and a session of its own, it dies of signals, and its exit status
comes back. Only /proc/PID/cmdline and /proc/PID/environ are those of the server. Tests of start-up and of
packaging start the interpreter itself.

A run of the tests has one server, which the first start brings up and which ends with the run. Without
WEIR_PREFORK in the environment every start is one of the interpreter.
"""

import atexit
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Protocol

ADDRESS = "WEIR_PREFORK"
"""The environment variable with the name of the server's socket."""
_ROOT = Path(__file__).resolve().parent.parent
_START_S = 120.0
_ORDER_MAX = 1 << 20


class Process(Protocol):
    """Process as `subprocess.Popen` and `Forked` show it."""

    @property
    def pid(self) -> int:
        """Return the process id."""

    @property
    def returncode(self) -> int | None:
        """Return the exit code as far as `poll` or `wait` has seen it."""

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process; return the exit code."""

    def send_signal(self, sig: int) -> None:
        """Send a signal."""

    def kill(self) -> None:
        """Send SIGKILL."""


class Forked:
    """Process that the prefork server forked; the socket tells its end."""

    def __init__(self, channel: socket.socket, args: Sequence[str]) -> None:
        self.args = list(args)
        self.returncode: int | None = None
        self._channel = channel
        self.pid = int(self._line())
        self._pidfd: int | None = None
        with suppress(ProcessLookupError):  # it may be over
            self._pidfd = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        if self.returncode is None and select.select([self._channel], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process; return the exit code.

        Raises:
            subprocess.TimeoutExpired: the process still runs.
        """
        if self.returncode is None:
            if not select.select([self._channel], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless the process is over."""
        if self.poll() is None and self._pidfd is not None:
            with suppress(ProcessLookupError):  # it may end meanwhile
                signal.pidfd_send_signal(self._pidfd, sig)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def _end(self) -> None:
        self.returncode = int(self._line())
        self._channel.close()
        if self._pidfd is not None:
            os.close(self._pidfd)

    def _line(self) -> str:
        """Return one line of the server; without one it is gone, and its children can't be waited for."""
        line = b""
        while not line.endswith(b"\n"):
            received = self._channel.recv(1)
            if not received:
                raise ConnectionError("the prefork server is gone")
            line += received
        return line.decode()


def start(
    command: Sequence[str],
    *,
    stdin: int = -1,
    stdout: int = -1,
    stderr: int = -1,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    start_new_session: bool = False,
) -> Process:
    """Start `python -m MODULE ...` or `python -c CODE ...`: a fork, if the environment names a server.

    Args:
        command: the interpreter that runs, and its arguments.
        stdin: a file descriptor; that of this process by default, as for the other two.
        stdout: another.
        stderr: another.
        cwd: the directory; that of this process by default.
        env: the whole environment; that of this process by default.
        start_new_session: whether the process leads a session of its own.
    """
    streams = [own if given == -1 else given for own, given in enumerate((stdin, stdout, stderr))]
    if ADDRESS not in os.environ:
        return subprocess.Popen(
            command,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            cwd=cwd,
            env=None if env is None else dict(env),
            start_new_session=start_new_session,
        )
    assert command[0] == sys.executable, "a fork runs the interpreter of its server"
    order = {
        "words": list(command[1:]),
        "environment": dict(os.environ if env is None else env),
        "directory": str(cwd or Path.cwd()),
        "session": start_new_session,
    }
    sent = json.dumps(order).encode() + b"\n"
    assert len(sent) <= _ORDER_MAX
    channel = _connect()
    socket.send_fds(channel, [sent[:1]], streams)
    channel.sendall(sent[1:])
    return Forked(channel, command)


def _pipe_with(text: str) -> int:
    """Return the end of a pipe from which a text can be read, and no more."""
    reads, writes = os.pipe()
    with open(writes, "w", encoding="utf-8") as stream:  # noqa: PTH123 - it is a descriptor
        assert len(text) < select.PIPE_BUF, "longer texts would wait for a reader"
        stream.write(text)
    return reads


def run(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    text: str = "",
    timeout: float = _START_S,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Start a process with a text to read, wait for its end, and return what it printed.

    Raises:
        subprocess.TimeoutExpired: it was killed after `timeout` seconds.
        subprocess.CalledProcessError: its exit code isn't 0, with `check`.
    """
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        given = _pipe_with(text) if text else os.open(os.devnull, os.O_RDONLY)
        try:
            process = start(command, stdin=given, stdout=out.fileno(), stderr=err.fileno(), cwd=cwd, env=env)
        finally:
            os.close(given)
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        done = subprocess.CompletedProcess(list(command), code, out.read(), err.read())
    if check:
        done.check_returncode()
    return done


_hold: dict[int, socket.socket] = {}
"""The connection by which this process keeps the server running, by the process that made it."""


def _connect() -> socket.socket:
    """Return a new connection to the server; bring it up first if there is none."""
    if os.getpid() not in _hold:
        _hold.clear()
        _hold[os.getpid()] = _connection()
        atexit.register(_release, os.getpid())
    return _connection()


def _release(pid: int) -> None:
    if os.getpid() == pid and pid in _hold:
        _hold.pop(pid).close()


def _connection() -> socket.socket:
    address = f"\0{os.environ[ADDRESS]}"
    end = time.monotonic() + _START_S
    while True:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            channel.connect(address)
        except ConnectionRefusedError:
            channel.close()
            _bring_up(address)
            if time.monotonic() > end:
                raise
        else:
            return channel


def _bring_up(address: str) -> None:
    """Run the server on a socket of this address, unless another process just does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        try:
            listening.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            time.sleep(0.02)
            return
        listening.listen(128)
        listening.set_inheritable(True)
        path = os.pathsep.join([str(_ROOT), str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "tools.prefork_server", str(listening.fileno())],
            {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep), "OPENBLAS_NUM_THREADS": "1"},
            file_actions=[(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)],
            setsid=True,
        )
