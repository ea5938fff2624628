"""The one module that talks HTTP to the API server.

A thin client: bytes go through aiohttp, and are decoded into the narrow structs they are asked for as.
Every request has a time limit, which for writes the server is told too, so that what has timed out
here isn't carried out there much later. Whatever goes wrong is an `ApiError` (answers.py).
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from weir import __version__
from weir.backends.kubernetes.api.access import Access, NoAccess
from weir.backends.kubernetes.api.answers import Garbled, Unreachable, refusal
from weir.backends.kubernetes.api.decoding import Event, Marked, Piece, Unread, events_of, read, read_list

T = TypeVar("T")


class Silent(Unreachable):
    """A watch on which nothing came for long."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much, at most."""

    connect_s: float = 5.0
    read_s: float = 60.0  # for one object, or one piece of a list
    write_s: float = 5.0
    watch_s: float = 600.0  # after which a watch is begun anew
    silence_s: float = 90.0  # of a watch; most servers send a bookmark every minute
    connections: int = 512
    event_bytes: int = 16 << 20
    list_pieces: int = 1000  # objects asked for at a time


class Patch(Enum):
    """How a change is written."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Connection:
    """An API server, and hundreds of requests at a time to it; opened with `async with`."""

    def __init__(self, access: Access, limits: Limits = Limits()) -> None:
        self._access = access
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None
        self.requests = 0
        self.unanswered = 0

    @property
    def namespace(self) -> str:
        """The namespace that goes without saying."""
        return self._access.namespace

    @property
    def server(self) -> str:
        """The address of the API server."""
        return self._access.server

    @property
    def limits(self) -> Limits:
        """How long and how much, at most."""
        return self._limits

    def __repr__(self) -> str:
        return f"Connection({self._access.server!r})"

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            limit=self._limits.connections,
            ssl=self._access.tls() or True,
            keepalive_timeout=60,
            socket_factory=_socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "User-Agent": f"weir/{__version__}",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
            },
            auto_decompress=False,
            read_bufsize=1 << 18,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, of: type[T]) -> T:
        """One object."""
        return read(await self._ask("GET", path, within_s=self._limits.read_s), of)

    async def post(
        self, path: str, body: object, of: type[T], *, query: Mapping[str, str] | None = None
    ) -> T:
        """Create an object, or carry out what a subresource stands for."""
        return read(await self._write("POST", path, body, query=query), of)

    async def put(self, path: str, body: object, of: type[T]) -> T:
        """Replace an object, if it is still of the resource version the body names."""
        return read(await self._write("PUT", path, body), of)

    async def patch(
        self, path: str, body: object, kind: Patch, of: type[T], *, query: Mapping[str, str] | None = None
    ) -> T:
        """Change part of an object."""
        if kind is Patch.APPLY:
            query = {"fieldManager": "weir", "force": "true", **(query or {})}
        return read(await self._write("PATCH", path, body, query=query, content_type=kind.value), of)

    async def delete(
        self, path: str, *, uid: str = "", grace_s: int | None = None, propagation: str = ""
    ) -> None:
        """Delete an object, if its uid is this one."""
        body: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            body["preconditions"] = {"uid": uid}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        if propagation:
            body["propagationPolicy"] = propagation
        await self._write("DELETE", path, body)

    async def pieces(
        self, path: str, of: type[T], *, field_selector: str = "", label_selector: str = ""
    ) -> AsyncGenerator[Piece[T], None]:
        """A list, piece by piece, as of one moment that isn't before the call."""
        query = _selectors(field_selector, label_selector) | {"limit": str(self._limits.list_pieces)}
        while True:
            body = await self._ask("GET", path, query=urlencode(query), within_s=self._limits.read_s)
            items, metadata = read_list(body, of)
            del body
            yield Piece(items, metadata.resource_version, last=not metadata.continue_)
            if not metadata.continue_:
                return
            query["continue"] = metadata.continue_

    async def list_all(
        self, path: str, of: type[T], *, field_selector: str = "", label_selector: str = ""
    ) -> list[T]:
        """A whole list. What can't be read is left out."""
        items: list[T] = []
        async for piece in self.pieces(
            path, of, field_selector=field_selector, label_selector=label_selector
        ):
            items += [item for item in piece.items if not isinstance(item, Unread)]
        return items

    async def version_of(self, path: str, *, field_selector: str = "", label_selector: str = "") -> str:
        """The resource version at which a resource is now."""
        query = urlencode({"limit": "1", **_selectors(field_selector, label_selector)})
        body = await self._ask("GET", path, query=query, within_s=self._limits.read_s)
        return read(body, Marked).metadata.resource_version

    async def watch(
        self,
        path: str,
        *,
        resource_version: str,
        for_s: float,
        field_selector: str = "",
        label_selector: str = "",
    ) -> AsyncGenerator[list[Event], None]:
        """What changes after this resource version, as it comes, for so long.

        Ends without an error when its time is over. An event that says what is wrong is raised.
        """
        query = _selectors(field_selector, label_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(int(for_s)),
        }
        limits = self._limits
        timeout = aiohttp.ClientTimeout(
            total=None, connect=limits.connect_s, sock_connect=limits.connect_s, sock_read=limits.silence_s
        )
        rest = b""
        try:
            async with await self._send("GET", path, urlencode(query), timeout) as response:
                if response.status >= 300:
                    raise refusal(response.status, await response.read(), response.headers)
                async for received in response.content.iter_any():
                    *lines, rest = (rest + received).split(b"\n")
                    if len(rest) > limits.event_bytes:
                        raise Garbled(f"An event of more than {limits.event_bytes} bytes at {path}.")
                    for events in events_of(lines):
                        yield events
        except aiohttp.SocketTimeoutError:
            self.unanswered += 1
            silence = f"WATCH {path}: nothing came for {limits.silence_s:g} s"
            raise Silent(silence, may_have_happened=False) from None
        except _UNANSWERED as error:
            self.unanswered += 1
            raise _unreachable(error, "GET", path) from None

    async def _write(
        self,
        method: str,
        path: str,
        body: object,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        within_s = self._limits.write_s
        asked = f"timeout={max(1, int(within_s))}s"
        return await self._ask(
            method,
            path,
            query=f"{asked}&{urlencode(query)}" if query else asked,
            within_s=within_s,
            body=msgspec.json.encode(body),
            content_type=content_type,
        )

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        within_s: float,
        query: str = "",
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """The bytes of the answer; a refused token is renewed once."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._limits.connect_s)
        self.requests += 1
        try:
            async with asyncio.timeout(within_s):  # for all of it: the fence of a leader counts on that
                for refused in (False, True):
                    response = await self._send(
                        method,
                        path,
                        query,
                        limits,
                        body=body,
                        content_type=content_type,
                        refused=refused,
                    )
                    async with response:
                        answer = await response.read()
                    if response.status != 401:
                        break
        except _UNANSWERED as error:
            self.unanswered += 1
            raise _unreachable(error, method, path) from None
        if response.status >= 300:
            raise refusal(response.status, answer, response.headers)
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        query: str,
        limits: aiohttp.ClientTimeout,
        *,
        body: bytes | None = None,
        content_type: str = "",
        refused: bool = False,
    ) -> aiohttp.ClientResponse:
        assert self._session is not None, "a connection is opened with `async with`"
        headers = {"Content-Type": content_type} if body is not None else {}
        authorization = await self._access.authorization(refused=refused)
        if authorization:
            headers["Authorization"] = authorization
        url = f"{self._access.server}{path}"
        return await self._session.request(
            method,
            URL(f"{url}?{query}" if query else url, encoded=True),
            data=body,
            headers=headers,
            timeout=limits,
            allow_redirects=False,
            proxy=self._access.proxy,
            server_hostname=self._access.server_name,
        )


_UNANSWERED = (aiohttp.ClientError, OSError, TimeoutError, NoAccess)
_UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, NoAccess)


def _unreachable(error: Exception, method: str, path: str) -> Unreachable:
    """What went wrong, in words: the error itself may hold the request with its credentials."""
    said = str(error) or (
        "there was no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    )
    return Unreachable(
        f"{method} {path}: {said}", may_have_happened=method != "GET" and not isinstance(error, _UNSENT)
    )


def _selectors(field_selector: str, label_selector: str) -> dict[str, str]:
    query = {}
    if field_selector:
        query["fieldSelector"] = field_selector
    if label_selector:
        query["labelSelector"] = label_selector
    return query


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that notices within half a minute that the other side is gone without a word."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # Linux
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)
    return made
