"""Faults between a client and the API server, as often as a seed and chances say.

    with FaultProxy(plane, user="weir", seed=7) as proxy:
        ... run something with proxy.kubeconfig ...
        proxy.faults = Faults(conflict=0.05, cut_watch_after_s=2.0)
        ...
        proxy.calm()
        assert proxy.injected["conflict"]

The front is plain HTTP on loopback and asks no credentials: what passes goes on to the API server with
those of `user`. A fault that is an answer comes instead of the real one, before the request is carried out;
only `dropped` lets it be carried out and then keeps the answer back.
"""

import asyncio
import json
import logging
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web
from tools.controlplane.plane import ControlPlane

_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host", "upgrade", "te"})
_ANSWERS = {
    "conflict": (
        409,
        "Conflict",
        "the object has been modified; please apply your changes to the latest version",
    ),
    "gone": (410, "Expired", "too old resource version"),
    "throttled": (429, "TooManyRequests", "too many requests, please try again later"),
    "broken": (500, "InternalError", "an error on the server has prevented the request from succeeding"),
}

_QUIET = logging.getLogger("tools.controlplane.proxy")
_QUIET.disabled = True  # a connection that is ended on purpose is no news


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it comes in."""

    verb: str
    path: str
    watch: bool
    since_s: float = 0.0  # when, by the monotonic clock


Tap = Callable[[Asked], Callable[[bytes], None] | None]
"""Callback for a request that is passed on. It may return a callback for the answer, which gets the answer
piece by piece as it is passed on, then b"" at the end."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of a proxy: chances from 0 to 1 for each request for which `where` is true."""

    conflict: float = 0.0  # 409, to writes
    gone: float = 0.0  # 410: to lists as a status, to watches as an event
    throttled: float = 0.0  # 429 with Retry-After
    retry_after_s: int = 1
    broken: float = 0.0  # 500
    refused: float = 0.0  # the connection ends, nothing was carried out
    dropped: float = 0.0  # carried out, then the connection ends without an answer
    delayed: float = 0.0
    delay_s: float = 0.5  # at most
    cut_watch_after_s: float | None = None  # on average; every watch ends, without a word
    requests_per_s: float | None = None  # limit of requests that pass
    where: Callable[[Asked], bool] = lambda _: True


NONE = Faults()


class FaultProxy:
    """A front for one user of a control plane. Its attributes may be set from any thread, at any time."""

    def __init__(
        self, plane: ControlPlane, *, user: str = "weir", groups: Sequence[str] = (), seed: int = 1
    ) -> None:
        self.faults = NONE
        self.down = False
        self.tap: Tap = lambda _: None
        self.injected: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self.url = ""
        self.kubeconfig = Path()
        self._plane = plane
        self._pair = plane.authority.client(user, groups)
        self._user = user
        self._chance = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._up: Future[str] = Future()
        self._stopping: asyncio.Event
        self._connections: set[asyncio.Transport] = set()
        self._next_s = 0.0
        self._era = 0
        self._session: ClientSession
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = self._up.result(120)
        self.kubeconfig = self._plane.kubeconfig_for(self._user, url=self.url)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _why: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(120)
        self._loop.close()

    def calm(self) -> None:
        """No more faults."""
        self.faults, self.down = NONE, False

    def cut(self) -> None:
        """End all connections there are, once."""
        self.injected["cut"] += 1
        self._loop.call_soon_threadsafe(self._cut)

    def forget(self) -> None:
        """Carry out nothing that waits: who asked for it is dead, and a server would have noticed."""
        self._era += 1

    # In its own thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        late = asyncio.all_tasks(self._loop)  # answers that were to come much later
        for task in late:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*late, return_exceptions=True))

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        tls = ssl.create_default_context(cafile=str(self._plane.authority.certificate))
        tls.load_cert_chain(self._pair.certificate, self._pair.key)
        connector = TCPConnector(ssl=tls, limit=0)
        timeout = ClientTimeout(total=None, sock_connect=10)
        async with ClientSession(
            self._plane.url,
            connector=connector,
            timeout=timeout,
            auto_decompress=False,
            cookie_jar=DummyCookieJar(),
        ) as self._session:
            server = web.Server(self._pass, access_log=None, logger=_QUIET)
            runner = web.ServerRunner(server, shutdown_timeout=0.1)
            await runner.setup()
            listening = socket.create_server(("127.0.0.1", 0), backlog=128)
            await web.SockSite(runner, listening).start()
            host, port = listening.getsockname()
            self._up.set_result(f"http://{host}:{port}")
            await self._stopping.wait()
            # asyncio forgets to close a connection that is accepted in the turn in which its server closes
            self._loop.remove_reader(listening)
            await asyncio.sleep(0.05)
            for connection in server.connections:
                if connection.transport is not None:
                    connection.transport.abort()  # a peer that doesn't read would keep a closing one open
            await runner.cleanup()
        await asyncio.sleep(0.05)  # what TLS has still to say to the server

    def _cut(self) -> None:
        for transport in list(self._connections):
            transport.abort()

    async def _pass(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        self._connections.add(transport)
        try:
            return await self._answer(request, transport)
        finally:
            self._connections.discard(transport)

    async def _answer(self, request: web.BaseRequest, transport: asyncio.Transport) -> web.StreamResponse:
        watch = request.query.get("watch") in {"true", "1"}
        asked = Asked(request.method, request.path, watch, time.monotonic())
        body = await request.read()
        faults, era = self.faults if self.faults.where(asked) else NONE, self._era
        if self.down or self._happens("refused", faults.refused):
            transport.abort()
            raise ConnectionResetError
        await self._slow(faults)
        if era != self._era:
            raise ConnectionResetError
        word = self._instead(asked, faults)
        if word is not None:
            return _refusal(asked, word, faults)
        drop = self._happens("dropped", 0.0 if asked.watch else faults.dropped)
        self.passed[asked.verb] += 1
        hears = self.tap(asked)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        try:
            async with self._session.request(
                asked.verb, request.raw_path, data=body or None, headers=headers
            ) as real:
                if drop:
                    await real.read()
                    transport.abort()
                    raise ConnectionResetError
                cut_s = None if not asked.watch else faults.cut_watch_after_s
                async with asyncio.timeout(None if cut_s is None else self._chance.expovariate(1 / cut_s)):
                    kept = {name: value for name, value in real.headers.items() if name.lower() not in _HOP}
                    answer = web.StreamResponse(status=real.status, reason=real.reason, headers=kept)
                    await answer.prepare(request)
                    async for part in real.content.iter_any():
                        await answer.write(part)
                        if hears is not None:
                            hears(part)
                    await answer.write_eof()
                    if hears is not None:
                        hears(b"")
                    return answer
        except TimeoutError:
            self.injected["cut_watch"] += 1
        except ClientError:
            pass  # the API server itself is away
        transport.abort()
        raise ConnectionResetError

    async def _slow(self, faults: Faults) -> None:
        if faults.requests_per_s is not None:
            now_s = self._loop.time()
            self._next_s = max(self._next_s, now_s) + 1 / faults.requests_per_s
            self.injected["slowed"] += self._next_s - now_s > 1 / faults.requests_per_s
            await asyncio.sleep(self._next_s - now_s)
        if self._happens("delayed", faults.delayed):
            await asyncio.sleep(self._chance.uniform(0, faults.delay_s))

    def _instead(self, asked: Asked, faults: Faults) -> str | None:
        """Return the fault to answer with instead of the server's answer, if any."""
        if asked.verb != "GET" and self._happens("conflict", faults.conflict):
            return "conflict"
        if asked.verb == "GET" and self._happens("gone", faults.gone):
            return "gone"
        for word, chance in (("throttled", faults.throttled), ("broken", faults.broken)):
            if self._happens(word, chance):
                return word
        return None

    def _happens(self, word: str, chance: float) -> bool:
        if chance <= 0.0 or self._chance.random() >= chance:
            return False
        self.injected[word] += 1
        return True


def _refusal(asked: Asked, word: str, faults: Faults) -> web.Response:
    code, reason, message = _ANSWERS[word]
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"{message} (a fault of the proxy)",
        "reason": reason,
        "code": code,
    }
    if word == "gone" and asked.watch:
        event = json.dumps({"type": "ERROR", "object": status}) + "\n"
        return web.Response(text=event, content_type="application/json")
    headers = {"Retry-After": str(faults.retry_after_s)} if word == "throttled" else {}
    return web.json_response(status, status=code, headers=headers)
