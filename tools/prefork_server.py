"""Fork processes of Weir for `tools.prefork`, with everything imported that they import.

A client connects for every start, and sends one line of JSON with three file descriptors. The server answers
with the process id, and with the exit code when the process is over. It ends with its last connection.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn, TextIO

IMPORTED = (
    *("weir.local.server.main", "httpx", "rich.table"),
    *("weir.kubernetes.process.main", "weir.kubernetes.process.server.webhook_server"),
    *("weir.kubernetes.translate.device_list", "cyclopts.help", "uvicorn.loops.auto"),
    *("uvicorn.protocols.http.httptools_impl", "uvicorn.lifespan.on", "sqlalchemy.dialects.sqlite"),
    *("alembic.command", "alembic.config", "alembic.script"),
)
PACKAGES = ("weir.cli", "weir.client")
"""Packages of which every module is imported, at any depth: commands import them when they run."""
_PARTS = 65536


class PreforkServer:
    """The connections of clients and the processes forked for them."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ, None)
        self._clients: set[socket.socket] = set()
        self._processes: dict[int, tuple[int, socket.socket]] = {}

    def run(self) -> None:
        """Serve until the last client has closed its connection."""
        served = False
        while not served or self._clients:
            for key, _ in self._selector.select():
                if key.fileobj is self._listening:
                    client, _ = self._listening.accept()
                    self._clients.add(client)
                    self._selector.register(client, selectors.EVENT_READ, None)
                    served = True
                elif key.fd in self._processes:
                    self._tell_end(key.fd)
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._serve(key.fileobj)

    def _serve(self, client: socket.socket) -> None:
        try:
            received, streams, _, _ = socket.recv_fds(client, _PARTS, 3)
            while received and not received.endswith(b"\n"):
                received += client.recv(_PARTS)
        except ConnectionError:
            received, streams = b"", []
        if not received:
            self._selector.unregister(client)
            self._clients.discard(client)
            client.close()
            return
        order = json.loads(received)
        if (pid := os.fork()) == 0:
            _become(order, streams)
        for stream in streams:
            os.close(stream)
        pidfd = os.pidfd_open(pid)
        self._processes[pidfd] = pid, client
        self._selector.register(pidfd, selectors.EVENT_READ, None)
        with suppress(ConnectionError):
            client.sendall(b"%d\n" % pid)

    def _tell_end(self, pidfd: int) -> None:
        pid, client = self._processes.pop(pidfd)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError):
            client.sendall(b"%d\n" % code)


def _become(order: dict[str, Any], streams: list[int]) -> NoReturn:
    """Run as the interpreter that the order describes, and end."""
    if order["session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["directory"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _stream(1, "strict", unbuffered or os.isatty(1))
    sys.stderr = _stream(2, "backslashreplace", True)
    gc.enable()
    code = _run(order["words"])
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for written in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            written.flush()
    os._exit(code)


def _stream(number: int, errors: str, by_line: bool) -> TextIO:
    return open(number, "w", encoding="utf-8", errors=errors, buffering=1 if by_line else -1, closefd=False)


def _run(words: list[str]) -> int:
    """Run what the arguments of an interpreter name; return its exit code."""
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            assert words[0] == "-c", words[0]
            sys.argv = ["-c", *words[2:]]
            exec(
                compile(words[1], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__}
            )
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def main() -> None:
    """Import, then serve on the socket whose file descriptor is the argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    for name in IMPORTED:
        importlib.import_module(name)
    for name in PACKAGES:
        for inner in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(inner.name)
    gc.collect()
    gc.freeze()
    gc.disable()
    PreforkServer(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
