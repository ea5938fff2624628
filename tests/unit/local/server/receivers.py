"""Receivers of notifications: HTTP servers that answer, wait, fail or hang, and a mail server with TLS."""

import asyncio
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.oidc.pool import Authority

from weir.notifications.notification_settings import NotificationSettings

FAST = {
    "messages_per_second": 100_000, "messages_per_minute": 100_000, "messages_burst": 100_000, "mails_per_hour": 100_000, "mails_burst": 1000,
    "retry_first": 0.05, "retry_max": 0.2, "timeout": "120s",
}  # fmt: skip
"""Limits under which nothing waits for long."""


@dataclass(frozen=True)
class Received:
    """A request that was confirmed."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str:
        return self.headers["webhook-id"]

    @property
    def told(self) -> list[dict[str, Any]]:
        return json.loads(self.body)["data"]["notifications"]


class Receivers(ThreadingHTTPServer):
    """Server of webhooks.

    The path of a request chooses its outcome: /ok, /slow, /failing, /hanging or a status.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.confirmed: list[Received] = []
        self.attempts: Counter[str] = Counter()
        self.released = threading.Event()
        self.changed = threading.Condition()
        self.scheme = "http"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def of(self, path: str) -> list[Received]:
        return [each for each in self.confirmed if each.path == path]

    def until(self, count: int, path: str = "/ok", within_s: float = 120.0) -> list[Received]:
        """Wait until a path has confirmed this number of requests."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.of(path)) >= count, within_s), self.attempts
        return self.of(path)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a sender that is killed breaks its connection."""


class _Handler(BaseHTTPRequestHandler):
    server: Receivers

    def do_POST(self) -> None:
        server, length = self.server, int(self.headers["content-length"])
        body = self.rfile.read(length)
        if len(body) < length:  # its sender was killed
            return
        with server.changed:
            server.attempts[self.path] += 1
            attempt = server.attempts[self.path]
        status = 204
        path = self.path.partition("?")[0]
        if path == "/slow":
            threading.Event().wait(0.02)
        elif path == "/hanging" and not server.released.is_set():
            server.released.wait()
            return
        elif path == "/failing" and attempt % 3:
            status = 503
        elif path[1:].isdigit():
            status = int(path[1:])
        if status < 300:
            with server.changed:
                headers = {name.lower(): value for name, value in self.headers.items()}
                server.confirmed.append(Received(self.path, headers, body))
                server.changed.notify_all()
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", f"{server.origin}/ok")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def receivers(authority: Authority | None = None, folder: Path | None = None) -> Iterator[Receivers]:
    """Serve receivers for the length of a block, over HTTPS with an authority."""
    server = Receivers()
    if authority is not None and folder is not None:
        authority.certify(folder / "receiver.pem", folder / "receiver.key")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "receiver.pem", folder / "receiver.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.scheme = "https"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


async def until(true: Callable[[], object]) -> None:
    """Wait for something of another thread."""
    async with asyncio.timeout(120):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def settings(*origins: str, mail: dict[str, Any] | None = None, **limits: Any) -> NotificationSettings:
    """Return settings that allow these origins."""
    written: dict[str, Any] = {"webhooks": {"hosts": list(origins)}, "limits": {**FAST, **limits}}
    return NotificationSettings.model_validate(written | ({} if mail is None else {"mail": mail}))
