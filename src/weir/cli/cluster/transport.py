"""A cluster instead of a pool's server: requests of the client are carried out through the API server."""

import asyncio
import math
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import TypeVar

import httpx

from weir.api.answers import Problem
from weir.cli.cluster.errors import refused
from weir.cli.cluster.log_events import log_events, plain_text
from weir.cli.cluster.missing_rights import missing_right
from weir.cli.cluster.person import may, user_of
from weir.cli.cluster.requests import ClusterRequests, parts_of, sentence_of
from weir.client.errors import Refused, Unreachable
from weir.client.log_stream import EVENTS, UNPLACED_EVENTS
from weir.kubernetes.api.client import ApiClient, ClientLimits
from weir.kubernetes.api.credentials import NOT_VERIFIED, Kubeconfig, NoCredentials
from weir.kubernetes.api.decoding import read
from weir.kubernetes.api.errors import ApiError, CertificateUntrusted
from weir.kubernetes.api.errors import ApiRefused as Said
from weir.kubernetes.api.errors import ApiUnreachable as NoAnswer

LEFT_S = 1.0
T = TypeVar("T")
R = TypeVar("R")


def kubeconfig_of(context: str | None) -> Kubeconfig:
    """Return the credentials of a context of the kubeconfig; warn if they don't verify the server.

    Raises:
        Unreachable: no credentials are configured.
    """
    try:
        access = Kubeconfig(None, context)
    except NoCredentials as error:
        raise Unreachable(str(error)) from None
    if not access.is_verified:
        print(f"weir: warning: {NOT_VERIFIED}.", file=sys.stderr)
    return access


class ClusterTransport(httpx.BaseTransport):
    """Transport that answers requests for one cluster."""

    def __init__(self, context: str | None, *, namespace: str | None = None) -> None:
        self.access = kubeconfig_of(context)
        self._api = ApiClient(self.access, ClientLimits(gather_s=0.0))  # no delay, because a person waits
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._api.__aenter__())
        self._requests = ClusterRequests(self._api, namespace=namespace)

    def close(self) -> None:
        """Close all connections."""
        self._loop.run_until_complete(self._closed())
        self._loop.close()

    async def _closed(self) -> None:
        """Close the API client after pending requests, within a time limit."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            _, left = await asyncio.wait(left, timeout=LEFT_S)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._api.__aexit__(None, None, None)
        await asyncio.sleep(0.01)  # TLS sockets close in several steps

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request."""
        parts = parts_of(request.url.raw_path.decode())
        params = dict(request.url.params)
        try:
            if request.method == "GET" and parts[0] == "workloads" and parts[2:] == ["logs"]:
                pieces = self._result(self._requests.logs(parts[1], params))
                is_events = EVENTS in request.headers.get("Accept", "")
                kind = UNPLACED_EVENTS if is_events else "text/plain; charset=utf-8"
                sent = log_events(pieces) if is_events else plain_text(pieces)
                stream = _Pieces(self._loop, sent, self._result)
                return httpx.Response(200, headers={"Content-Type": kind}, stream=stream)
            answer = self._result(self._requests.answer(request.method, parts, params, request.read()))
        except Said as error:
            return httpx.Response(error.status, content=_problem(error).model_dump_json())
        if isinstance(answer, str):
            return httpx.Response(200, text=answer)
        if isinstance(answer, bytes):
            return httpx.Response(200, content=answer)
        return httpx.Response(200, content=b"" if answer is None else answer.model_dump_json())

    def get(self, path: str, kind: type[T]) -> T:
        """Return an object of the API server.

        Raises:
            PoolError: there is no answer, or none that can be read.
            ApiRefused: the API server refuses it.
        """
        return self._result(self._api.get(path, kind))

    def first(
        self, path: str, kind: type[T], seen: Callable[[T], R | None], *, label_selector: str, within_s: float
    ) -> R | None:
        """Return the result of `seen` for an object of a list, now or after a change of it.

        None if it returns nothing in time. It raises what `get` and `seen` do.
        """
        return self._result(self._first(path, kind, seen, label_selector, within_s))

    async def _first(
        self, path: str, kind: type[T], seen: Callable[[T], R | None], label_selector: str, within_s: float
    ) -> R | None:
        watch = self._api.watch(
            path, resource_version="", for_s=math.ceil(within_s), label_selector=label_selector
        )
        async with aclosing(watch) as batches:
            async for events in batches:
                for event in events:
                    if event.type in ("ADDED", "MODIFIED"):
                        result = seen(read(event.object, kind))
                        if result is not None:
                            return result
        return None

    def list_all(self, path: str, kind: type[T], *, label_selector: str) -> list[T]:
        """Return the objects of a list.

        Raises:
            PoolError: there is no answer, or the API server refuses it.
        """
        try:
            return self._result(self._api.list_all(path, kind, label_selector=label_selector))
        except Said as error:
            raise Refused(_problem(error)) from None

    def may(self, verb: str, resource: str, subresource: str, namespace: str) -> bool:
        """Return True if the person of the kubeconfig may do this. Raises the errors of `get`."""
        return self._result(may(self._api, verb, "", resource, namespace, subresource))

    def user(self) -> str:
        """Return the person's name in the API server; empty if the API server doesn't return it."""
        return self._result(user_of(self._api))

    def namespace_of(self, project: str) -> str:
        """Return the namespace for a submission of a project. Raises the errors of `get`."""
        return self._result(self._requests.queries.lookup.namespace_of(project))

    def _result(self, asked: Awaitable[T]) -> T:
        try:
            return self._loop.run_until_complete(asked)
        except CertificateUntrusted as error:
            raise Unreachable(str(error)) from None
        except NoAnswer as error:
            raise Unreachable(f"The cluster at {self._api.server} can't be reached: {error}.") from None
        except Said:
            raise
        except ApiError as error:
            raise refused(500, sentence_of(error)) from None


class _Pieces(httpx.SyncByteStream):
    """An answer that comes in pieces."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pieces: AsyncGenerator[bytes, None],
        result: Callable[[Awaitable[bytes | None]], bytes | None],
    ) -> None:
        self._loop, self._pieces, self._result = loop, pieces, result
        self._next: asyncio.Task[bytes | None] | None = None

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self._next = self._loop.create_task(self._piece())
            try:
                piece = self._result(self._next)
            except Said as error:
                raise Refused(_problem(error)) from None
            if piece is None:
                return
            yield piece

    def close(self) -> None:
        """Stop reading; a piece may be awaited when the person has stopped the command."""
        self._loop.run_until_complete(self._closed())

    async def _piece(self) -> bytes | None:
        return await anext(self._pieces, None)

    async def _closed(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        await self._pieces.aclose()


def _problem(error: Said) -> Problem:
    detail = missing_right(str(error)) or sentence_of(error)
    return Problem(title="The cluster refused", status=error.status, detail=detail)
