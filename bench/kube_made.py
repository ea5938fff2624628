"""Actions of the Kubernetes benchmark on a cluster: make thousands of objects, bind pods, and watch them."""

import asyncio
import http.client
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlsplit

from tools.controlplane.api import Object, collection
from tools.controlplane.certificates import Pair
from tools.controlplane.plane import ControlPlane

from weir.kubernetes.api.connection_pool import ConnectionPool, Endpoint

_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')


def tls_of(plane: ControlPlane, user: Pair) -> ssl.SSLContext:
    """The control plane as this user."""
    made = ssl.create_default_context(cafile=str(plane.authority.certificate))
    made.load_cert_chain(user.certificate, user.key)
    return made


class Bare:
    """Client that only sends, a fixed number of requests at a time.

    It speaks as Weir does, which is the cheapest way we know: what it takes from the processors it shares
    with the API server is little, so that it is the API server that is measured.
    """

    def __init__(self, plane: ControlPlane, user: str = "weir", at_once: int = 64) -> None:
        self._url = plane.url
        self._tls = tls_of(plane, plane.authority.client(user))
        self._at_once = at_once

    def create(self, objects: Sequence[Object]) -> float:
        """Make them all; the seconds it took."""
        return self._all([(collection(one), json.dumps(one).encode()) for one in objects])

    def bind(self, where: Sequence[tuple[str, str, str]]) -> float:
        """Bind pods, given as namespace, name and node; the seconds it took."""
        return self._all(
            [
                (f"/api/v1/namespaces/{space}/pods/{name}/binding", _binding(name, node))
                for space, name, node in where
            ]
        )

    def _all(self, requests: Sequence[tuple[str, bytes]]) -> float:
        began = time.perf_counter()
        asyncio.run(self._post(list(reversed(requests))))
        return time.perf_counter() - began

    async def _post(self, left: list[tuple[str, bytes]]) -> None:
        lines = ConnectionPool(Endpoint(self._url, self._tls))

        async def work() -> None:
            while left:
                path, body = left.pop()
                reply = await lines.ask(lines.request("POST", path, _HEADERS, body))
                assert reply.status < 300, reply.body.decode()

        try:
            await asyncio.gather(*(work() for _ in range(self._at_once)))
        finally:
            await lines.close()


_HEADERS = "Content-Type: application/json\r\nAccept: application/json\r\n"


def _binding(name: str, node: str) -> bytes:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "annotations": {"weir.dev/gpus": "0", "weir.dev/start": "1"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
    ).encode()


class Count:
    """Count of the pods that match a field selector, with times, from the API server's own watch.

    Nothing is decoded: whatever this costs is taken from what is measured.
    """

    def __init__(self, plane: ControlPlane, selector: str, labels: str = "") -> None:
        self.at_s: list[float] = []
        self._tls = tls_of(plane, plane.admin)
        self._url = urlsplit(plane.url)
        chosen = f"fieldSelector={quote(selector)}" + (f"&labelSelector={quote(labels)}" if labels else "")
        self._since = plane.api.get(f"/api/v1/pods?limit=1&{chosen}")["metadata"]["resourceVersion"]
        self._path = f"/api/v1/pods?watch=true&{chosen}&resourceVersion="
        self._thread = threading.Thread(target=self._read_on, daemon=True)
        self._connection = self._connect()
        self._closing = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _why: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._closing = True
        sock = self._connection.sock
        if sock is not None:
            sock.shutdown(2)
        self._thread.join(5)
        self._connection.close()

    def until(self, count: int, seconds: float, every: Callable[[], object] = lambda: None) -> None:
        """Wait until this number is reached."""
        end = time.perf_counter() + seconds
        while len(self.at_s) < count:
            assert time.perf_counter() < end, f"{len(self.at_s)} of {count} pods after {seconds:g} s"
            every()
            time.sleep(0.02)

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._url.hostname or "", self._url.port, context=self._tls)

    def _read_on(self) -> None:
        """A server that is in a hurry ends the watches of readers that are not: begin again where it was."""
        while not self._closing:
            try:
                self._read()
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                self._connection.close()
                self._connection = self._connect()

    def _read(self) -> None:
        self._connection.request("GET", self._path + self._since)
        answer, line, last = self._connection.getresponse(), b"", b""
        try:
            while line := answer.readline():
                last = line
                if line.startswith(b'{"type":"ADDED"'):
                    self.at_s.append(time.perf_counter())
        finally:
            tracked = _VERSION.search(last)
            if tracked is not None:
                self._since = tracked[1].decode()
