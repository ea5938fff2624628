"""The server's end of the node process: orders starts of pods, and actions on processes of other users."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from weir.local.cgroups import Cgroups
from weir.local.files import secret_files
from weir.local.node import __main__ as node_process
from weir.local.node.orders import MESSAGE_MAX, GpuMemoryOrder, NodeAnswer, Order, StartOrder
from weir.local.processes.fd_watcher import FdWatcher
from weir.local.records.start_files import StartUnreadable, open_start_files

_ENDS_WITHIN_S = 5.0
SocketPair = tuple[socket.socket, socket.socket]
"""The server's two sockets: for starts, answered when they are forked, and for calls, answered at once."""


def encode(order: Order) -> bytes:
    """Return an order as a message."""
    return json.dumps([type(order).__name__, *order]).encode()


def _decode(message: bytes) -> NodeAnswer:
    """Return the answer in a message of the node process."""
    return NodeAnswer(*json.loads(message))


class NodeGone(OSError):
    """The node process is gone."""


class NodeLink(Protocol):
    """Connection to a node process."""

    @property
    def pid(self) -> int:
        """Return the pid of the node process."""
        ...

    def connect(self) -> SocketPair:
        """Return sockets to a node process; start a new one if the last has ended.

        Raises:
            NodeGone: there is none any more.
        """
        ...

    def close(self) -> None:
        """End the connection that `connect` began."""
        ...


class OwnNode:
    """A node process of the server's own user, which the server starts."""

    def __init__(self, home: str, groups: Cgroups) -> None:
        self._home = home
        self._groups = groups
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the pid of the node process."""
        assert self._process is not None
        return self._process.pid

    def connect(self) -> SocketPair:
        """Start a node process."""
        self.close()
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        theirs = [theirs for _, theirs in pairs]
        fds = [end.fileno() for end in theirs]
        config = {"home": self._home, "groups": self._groups, "sockets": fds}
        command = [sys.executable, "-I", "-S", node_process.__file__, json.dumps(config)]
        self._process = subprocess.Popen(  # noqa: S603 - our own file, by our own interpreter
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            pass_fds=fds,
            start_new_session=True,
        )
        for end in theirs:
            end.close()
        return pairs[0][0], pairs[1][0]

    def close(self) -> None:
        """Wait for the end of the node process, whose sockets are closed."""
        if self._process is None:
            return
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class RootNode:
    """The node process of a pool for several users: it has started the server, and ends with it.

    `gone` is called when it is gone: without it nothing can be started or stopped.
    """

    def __init__(self, described: str, gone: Callable[[], None]) -> None:
        """Use the sockets that the node process describes in the variable `SOCKETS_VARIABLE`."""
        record = json.loads(described)
        self.groups = Cgroups(*record["groups"])
        self.devices: str = record["devices"]
        self.socket_path = Path(record["socket"])
        self._gone = gone
        starts, calls = (socket.socket(fileno=fd) for fd in record["sockets"])
        self._sockets: SocketPair | None = (starts, calls)

    @property
    def pid(self) -> int:
        """Return the pid of the node process."""
        return os.getppid()

    def connect(self) -> SocketPair:
        """Return the sockets, once.

        Raises:
            NodeGone: the node process is gone.
        """
        if self._sockets is None:
            self._gone()
            raise NodeGone(32, "the node process has ended, so the server stops")
        sockets, self._sockets = self._sockets, None
        for end in sockets:
            end.set_inheritable(False)
        return sockets

    def close(self) -> None:
        """Leave the node process, which ends when the server does."""


class NodeClient:
    """Has pods started, whatever happens to the node process.

    `on_forked` receives the name of each requested start with the pidfd of its supervisor (None: there is
    none) and the reason of a refusal; `on_unready` the name of a start whose secrets can't be read now, and
    why; `on_memory_limited` the name of a start whose memory of GPUs was to be
    limited, and why it isn't; `on_restarted` is called when a new node process replaced a dead one:
    unanswered requests may or may not have been carried out.
    """

    def __init__(
        self,
        link: NodeLink,
        watch: FdWatcher,
        on_restarted: Callable[[], None],
    ) -> None:
        self._link = link
        self._watch = watch
        self.on_forked: Callable[[str, int | None, str], None] = _nothing
        self.on_unready: Callable[[str, str], None] = _nothing
        self.on_memory_limited: Callable[[str, str], None] = _nothing
        self._on_restarted = on_restarted
        self._lock = threading.Lock()
        self._begin()

    @property
    def pid(self) -> int:
        """Return the pid of the node process."""
        return self._link.pid

    def start(self, order: StartOrder, directory: str, secrets: tuple[str, Mapping[str, str]] | None) -> None:
        """Request a start. If it has a supervisor, or can't have one, `on_forked` is called without any.

        `secrets`: the file with the secrets of its project, and their names by variable.
        """
        values, unready = None, ""
        try:
            values = None if secrets is None else _values(*secrets)
        except OSError as failure:
            unready = f"its secrets can't be read: {failure.strerror or failure}"
        try:
            files = open_start_files(directory, values)
        except StartUnreadable:
            files = None
        if files is not None and unready:
            files.close()
            self._watch.later(0, lambda: self.on_unready(order.name, unready))
            return
        if files is None:
            self._watch.later(0, lambda: self.on_forked(order.name, None, ""))
            return
        try:
            with suppress(BrokenPipeError, ConnectionResetError), self._lock:
                socket.send_fds(self._starts, [encode(order)], [fd for fd in files if fd >= 0])
        finally:
            files.close()

    def limit_gpu_memory(self, order: GpuMemoryOrder) -> None:
        """Order a limit of the memory of a start's GPUs; `on_memory_limited` gets the outcome."""
        with suppress(BrokenPipeError, ConnectionResetError), self._lock:
            self._starts.send(encode(order))

    def call(self, order: Order, *fds: int) -> NodeAnswer:
        """Send an order, and wait until it is carried out.

        Raises:
            NodeGone: the node process is gone; it may have carried the order out.
        """
        try:
            with self._lock:
                socket.send_fds(self._calls, [encode(order)], fds)
                message = self._calls.recv(MESSAGE_MAX)
        except OSError as failure:
            raise NodeGone(failure.errno, "the node process is gone") from None
        if not message:
            raise NodeGone(32, "the node process is gone")
        return _decode(message)

    def close(self) -> None:
        """Close the connection. A node process of this server ends after its earlier orders."""
        self._watch.drop(self._starts.fileno())
        self._end()

    def _begin(self) -> None:
        self._starts, self._calls = self._link.connect()
        self._watch.add(self._starts.fileno(), self._answered)

    def _end(self) -> None:
        self._starts.close()
        self._calls.close()
        self._link.close()

    def _answered(self) -> None:
        try:
            message, processes, _, _ = socket.recv_fds(self._starts, MESSAGE_MAX, 1)
        except ConnectionResetError:
            message, processes = b"", []
        if message:
            for process in processes:
                os.set_inheritable(process, False)
            answer = _decode(message)
            if answer.memory_limit:
                self.on_memory_limited(answer.name, answer.refused)
            else:
                self.on_forked(answer.name, processes[0] if processes else None, answer.refused)
            return
        self._watch.drop(self._starts.fileno())
        with self._lock:
            self._end()
            try:
                self._begin()
            except NodeGone:
                return  # the link has said it, and the server ends
        self._on_restarted()


def _nothing(*_: object) -> None:
    """Ignore an answer for which no request waits yet."""


def _values(file: str, names: Mapping[str, str]) -> bytes:
    """Return the values of secrets for a supervisor, or the name of one that isn't set.

    Raises:
        OSError: the secrets can't be read.
    """
    try:
        passed: dict[str, object] = {"values": secret_files.values(file, names)}
    except secret_files.SecretNotSet as refusal:
        passed = {"refused": str(refusal)}
    return json.dumps(passed).encode()
