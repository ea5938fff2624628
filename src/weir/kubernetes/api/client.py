"""The one module that talks to the API server.

A thin client: bytes go over `ConnectionPool`, and are decoded into the narrow structs they are asked for
as. Every request has a time limit. For writes it goes to the server too, so that a write that has timed
out here isn't carried out there much later. Whatever goes wrong is an `ApiError`.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urlencode

import msgspec

from weir import __version__
from weir.kubernetes.api.connection_pool import CertificateRefused, ConnectionPool, Endpoint, RequestNotSent
from weir.kubernetes.api.credentials import Credentials, NoCredentials
from weir.kubernetes.api.decoding import (
    BookmarkObject,
    ListPage,
    UndecodedObject,
    WatchEvent,
    events_of,
    read,
    read_list,
)
from weir.kubernetes.api.errors import ApiUnreachable, CertificateUntrusted, InvalidResponse, refusal
from weir.kubernetes.api.http_connection import ConnectionLost, HttpResponse, NotHttp

T = TypeVar("T")


class ApiSilent(ApiUnreachable):
    """A stream that received nothing for so long that its connection counts as lost."""


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits of times and sizes of requests."""

    connect_s: float = 5.0
    read_s: float = 60.0  # for one object, or one page of a list
    write_s: float = 5.0
    watch_s: float = 600.0  # lifetime of one watch request
    silence_s: float = 90.0  # silence of a stream; most servers send a bookmark every minute
    gather_s: float = 0.05  # wait to collect events of a watch: waking up costs more than an event
    connections: int = 512
    event_bytes: int = 16 << 20
    list_pieces: int = 1000  # objects asked for at a time


class Patch(Enum):
    """Content type of a patch."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class ApiClient:
    """An API server, and hundreds of requests at a time to it; opened with `async with`."""

    def __init__(self, access: Credentials, limits: ClientLimits = ClientLimits()) -> None:
        self._access = access
        self._limits = limits
        self._lines: ConnectionPool | None = None
        self.requests = 0
        self.called: Callable[[str, str, int, float], None] | None = None
        """Receives method, path, status (0 without an answer) and duration of each call."""

    @property
    def namespace(self) -> str:
        """The namespace that goes without saying."""
        return self._access.namespace

    @property
    def server(self) -> str:
        """The address of the API server."""
        return self._access.server

    @property
    def limits(self) -> ClientLimits:
        """Limits of times and sizes of requests."""
        return self._limits

    def __repr__(self) -> str:
        return f"ApiClient({self._access.server!r})"

    async def __aenter__(self) -> Self:
        access, limits = self._access, self._limits
        to = Endpoint(
            access.server,
            access.tls(),
            access.server_name,
            access.proxy,
            limits.connect_s,
            limits.connections,
        )
        self._lines = ConnectionPool(to)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lines is not None:
            await self._lines.close()

    async def get(self, path: str, object_type: type[T]) -> T:
        """Return one object."""
        return read(await self._ask("GET", path, within_s=self._limits.read_s), object_type)

    async def post(
        self, path: str, body: object, object_type: type[T], *, query: Mapping[str, str] | None = None
    ) -> T:
        """Create an object, or carry out the action of a subresource."""
        return read(await self._write("POST", path, body, query=query), object_type)

    async def put(self, path: str, body: object, object_type: type[T]) -> T:
        """Replace an object, provided that it still has the resource version in the body."""
        return read(await self._write("PUT", path, body), object_type)

    async def patch(
        self,
        path: str,
        body: object,
        kind: Patch,
        object_type: type[T],
        *,
        query: Mapping[str, str] | None = None,
    ) -> T:
        """Change part of an object."""
        applied = {"fieldManager": "weir", "force": "true"} if kind is Patch.APPLY else {}
        query = {**applied, **(query or {})} or None
        return read(await self._write("PATCH", path, body, query=query, content_type=kind.value), object_type)

    async def delete(
        self, path: str, *, uid: str = "", propagation: str = "", grace_s: int | None = None
    ) -> None:
        """Delete an object, if its uid is this one; `grace_s` replaces the grace period of a pod."""
        body: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            body["preconditions"] = {"uid": uid}
        if propagation:
            body["propagationPolicy"] = propagation
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        await self._write("DELETE", path, body)

    async def pieces(
        self, path: str, object_type: type[T], *, field_selector: str = "", label_selector: str = ""
    ) -> AsyncGenerator[ListPage[T], None]:
        """Yield the pages of a list, as of one moment that isn't before the call."""
        query = _selectors(field_selector, label_selector) | {"limit": str(self._limits.list_pieces)}
        coming = self._piece(path, query)
        try:
            while True:
                items, metadata = read_list(await coming, object_type)
                if metadata.continue_:  # the server prepares the next page meanwhile
                    coming = self._piece(path, query | {"continue": metadata.continue_})
                    await asyncio.sleep(0)
                yield ListPage(items, metadata.resource_version)
                if not metadata.continue_:
                    return
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    def _piece(self, path: str, query: Mapping[str, str]) -> "asyncio.Task[bytes]":
        asked = self._ask("GET", path, query=urlencode(query), within_s=self._limits.read_s)
        return asyncio.create_task(asked)

    async def time_s(self) -> float | None:
        """Return the time by the API server's clock, in seconds since the epoch; None without an answer."""
        assert self._lines is not None, _OPENED
        try:
            async with asyncio.timeout(self._limits.write_s):
                answer = await self._lines.ask(await self._request("GET", "/version", ""), again=True)
            return parsedate_to_datetime(answer.header("date")).timestamp() + _HALF_S
        except (*_UNANSWERED, ValueError):
            return None

    async def list_all(self, path: str, object_type: type[T], *, label_selector: str = "") -> list[T]:
        """Return a whole list without the objects that can't be read."""
        items: list[T] = []
        async for page in self.pieces(path, object_type, label_selector=label_selector):
            items += [item for item in page.items if not isinstance(item, UndecodedObject)]
        return items

    async def version_of(self, path: str, *, field_selector: str = "", label_selector: str = "") -> str:
        """Return the present resource version of a resource."""
        query = urlencode({"limit": "1", **_selectors(field_selector, label_selector)})
        body = await self._ask("GET", path, query=query, within_s=self._limits.read_s)
        return read(body, BookmarkObject).metadata.resource_version

    async def watch(
        self,
        path: str,
        *,
        resource_version: str,
        for_s: float,
        field_selector: str = "",
        label_selector: str = "",
    ) -> AsyncGenerator[list[WatchEvent], None]:
        """Yield the changes after this resource version, as they arrive, for `for_s` seconds.

        Ends without an error when its time is over. An event that says what is wrong is raised.
        """
        query = _selectors(field_selector, label_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(int(for_s)),
        }
        most, rest = self._limits.event_bytes, b""
        async with aclosing(self.stream(path, query, verb="WATCH")) as pieces:
            async for received in pieces:
                *lines, rest = (rest + received).split(b"\n")
                if len(rest) > most:
                    raise InvalidResponse(f"An event of more than {most} bytes at {path}.")
                for events in events_of(lines):
                    yield events

    async def stream(
        self, path: str, query: Mapping[str, str], *, verb: str = "STREAM"
    ) -> AsyncGenerator[bytes, None]:
        """Yield an answer as it comes.

        Raises:
            ApiSilent: nothing came for `silence_s`.
        """
        limits = self._limits
        assert self._lines is not None, _OPENED
        try:
            request = await self._request("GET", path, urlencode(query))
            async with self._lines.stream(request, limits.silence_s, limits.gather_s) as (answer, pieces):
                if self.called is not None:
                    self.called(verb, path, answer.status, 0.0)
                if answer.status >= 300:
                    text = b"".join([page async for page in pieces])
                    raise refusal(answer.status, text, answer.header("retry-after"))
                async for received in pieces:
                    yield received
        except TimeoutError:
            silence = f"{verb} {path}: nothing came for {limits.silence_s:g} s"
            raise ApiSilent(silence, may_have_happened=False) from None
        except _UNANSWERED as error:
            raise _unreachable(error, "GET", path) from None

    async def upgrade(
        self, path: str, query: str, headers: str
    ) -> tuple[HttpResponse, asyncio.StreamReader, asyncio.StreamWriter]:
        """Change to another protocol by a GET with these header lines; renew a refused token once."""
        assert self._lines is not None, _OPENED
        headers = f"{_USER_AGENT}{headers}"
        try:
            async with asyncio.timeout(self._limits.read_s):
                request = await self._request("GET", path, query, headers=headers)
                answer, streams = await self._lines.upgrade(request)
                if answer.status == 401:
                    request = await self._request("GET", path, query, headers=headers, refused=True)
                    answer, streams = await self._lines.upgrade(request)
        except _UNANSWERED as error:
            raise _unreachable(error, "GET", path) from None
        if streams is None:
            raise refusal(answer.status, answer.body, answer.header("retry-after"))
        return answer, *streams

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
        timeout = f"timeout={max(1, int(within_s))}s"
        return await self._ask(
            method,
            path,
            query=f"{timeout}&{urlencode(query)}" if query else timeout,
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
        """Return the bytes of the answer; renew a refused token once."""
        assert self._lines is not None, _OPENED
        self.requests += 1
        began_s, status = time.monotonic(), 0
        try:
            async with asyncio.timeout(within_s):  # for the whole request: leader fencing relies on it
                request = await self._request(method, path, query, body, content_type)
                answer = await self._lines.ask(request, again=method == "GET")
                if answer.status == 401:
                    request = await self._request(method, path, query, body, content_type, refused=True)
                    self._lines.renew()
                    answer = await self._lines.ask(request, again=method == "GET")
            status = answer.status
        except _UNANSWERED as error:
            raise _unreachable(error, method, path) from None
        finally:
            if self.called is not None:
                self.called(method, path, status, time.monotonic() - began_s)
        if answer.status >= 300:
            raise refusal(answer.status, answer.body, answer.header("retry-after"))
        return answer.body

    async def _request(
        self,
        method: str,
        path: str,
        query: str,
        body: bytes | None = None,
        content_type: str = "",
        *,
        headers: str = "",
        refused: bool = False,
    ) -> bytes:
        assert self._lines is not None, _OPENED
        authorization = await self._access.authorization(refused=refused)
        if not authorization.isprintable():
            raise NoCredentials("The token is invalid: it contains line breaks or other control characters.")
        headers = headers or _HEADERS
        if authorization:
            headers = f"Authorization: {authorization}\r\n{headers}"
        if body is not None:
            headers += f"Content-Type: {content_type}\r\n"
        return self._lines.request(method, f"{path}?{query}" if query else path, headers, body)


_USER_AGENT = f"User-Agent: weir/{__version__}\r\n"
_HEADERS = f"{_USER_AGENT}Accept: application/json\r\nAccept-Encoding: identity\r\n"
_HALF_S = 0.5
"""Heads of answers have whole seconds: this is the middle of one."""
_OPENED = "a connection is opened with `async with`"
_UNANSWERED = (ConnectionLost, NotHttp, OSError, TimeoutError, NoCredentials)
_UNSENT = (RequestNotSent, NoCredentials)


def _unreachable(error: Exception, method: str, path: str) -> ApiUnreachable:
    """Return the error as a sentence, because the exception may contain the request's credentials."""
    if isinstance(error, CertificateRefused):
        return CertificateUntrusted(str(error), may_have_happened=False)
    reason = str(error) or (
        "there was no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    )
    return ApiUnreachable(
        f"{method} {path}: {reason}", may_have_happened=method != "GET" and not isinstance(error, _UNSENT)
    )


def _selectors(field_selector: str, label_selector: str) -> dict[str, str]:
    query = {}
    if field_selector:
        query["fieldSelector"] = field_selector
    if label_selector:
        query["labelSelector"] = label_selector
    return query
