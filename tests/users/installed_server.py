"""A pool for everyone on the machine, and requests to its socket as other users."""

import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.unit.local.server.server_process import Serving


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket, connected as a user of this machine."""

    def __init__(self, path: Path, uid: int, gid: int) -> None:
        super().__init__("localhost", timeout=120)
        self._path, self._uid, self._gid = path, uid, gid

    def connect(self) -> None:
        """Connect; the kernel notes the effective user of this moment."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with effective_user(self._uid, self._gid):
            self.sock.connect(str(self._path))


@contextmanager
def effective_user(uid: int, gid: int) -> Iterator[None]:
    """Have the rights of another user until the block ends."""
    groups = os.getgroups()
    if os.geteuid() == 0:
        os.setgroups([gid])
        os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(os.getuid())
        os.setegid(os.getgid())
        if os.getuid() == 0:
            os.setgroups(groups)


def ask_socket(
    path: Path,
    uid: int,
    method: str,
    url: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    gid: int | None = None,
) -> tuple[int, Any]:
    """Return status and answer of a request that a user of this machine sends without a token."""
    connection = UnixConnection(path, uid, uid if gid is None else gid)
    try:
        connection.request(method, url, None if body is None else json.dumps(body), dict(headers or {}))
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    is_json = "json" in (answer.getheader("content-type") or "")
    return answer.status, json.loads(text) if is_json else text.decode()


class Installed(Serving):
    """A server for everyone on the machine."""

    def __init__(self, home: Path, gpus: int = 4, **settings: Any) -> None:
        self.path = home.parent / "run" / "weir.sock"
        super().__init__(home, gpus, {"installed": True, "socket_path": self.path, **settings})

    def ask_as(
        self, uid: int, method: str, url: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return status and answer of a request over the socket of the machine."""
        return ask_socket(self.path, uid, method, url, body, headers)

    def who(self, uid: int, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Return status and the person that the server takes a user for."""
        return self.ask_as(uid, "GET", "/api/v1/dashboard/session", headers=headers)


@contextmanager
def installed(home: Path, gpus: int = 4, **settings: Any) -> Iterator[Installed]:
    """Serve everyone on the machine until the block ends; jobs end with it."""
    os.environ.setdefault("PYTHONPATH", "src")
    home.parent.chmod(0o755)
    server = Installed(home, gpus, **settings)
    try:
        yield server
        server.stop_all()
    finally:
        if server.process.poll() is None:
            server.end()
