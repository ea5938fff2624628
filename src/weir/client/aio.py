"""Client of a pool for an event loop: the methods of `Pool` as coroutines and asynchronous iterators."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx

from weir.client.address import NO_CLUSTER, find
from weir.client.calls import Answered, AsyncSender, Call, Row, RowPage, nothing, refusal
from weir.client.endpoints import Endpoints, logs
from weir.client.errors import Unreachable
from weir.client.log_stream import LogReader, OnStart
from weir.client.outage import PATIENCE_S, OutageReport, ServerOutage
from weir.client.stream import Change, Reader, wait_s
from weir.client.transport import (
    ENDED,
    LOOK_S_MAX,
    LOOK_S_MIN,
    async_client,
    retry_s,
    server_error,
    unreachable,
)

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail


class AsyncPool(Endpoints, AsyncSender):
    """A pool. The default address is `$WEIR_URL`, else the pool on this machine.

    Every method may raise `Unreachable`, and `Refused` with the reasons.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
        on_outage: OutageReport | None = None,
    ) -> None:
        self.address = find(url, token)
        if self.address.is_cluster and transport is None:
            raise Unreachable(NO_CLUSTER.format(self.address.url))
        self._on_outage = on_outage
        self._http = async_client(self.address, timeout_s, transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def logs(
        self,
        name: str,
        *,
        follow: bool = False,
        pod: str | None = None,
        start: int | None = None,
        tail: int | None = None,
        on_start: OnStart | None = None,
    ) -> AsyncIterator[str]:
        """Yield the output of a pod in pieces. `pod` is `group/index` or `all`; by default the first pod.

        `on_start` is called with each later start of a followed pod, in words, before its output.
        """
        call = logs(name, pod=pod, start=start, tail=tail, follow=follow)
        if follow:
            async for text in self._followed(call, on_start):
                yield text
            return
        async with self._opened(call) as answer:
            async for piece in answer.aiter_text():
                yield piece

    async def wait(self, name: str, *, timeout_s: float | None = None) -> WorkloadDetail:
        """Wait until a workload is over; `status` says how it ended. A restart of the server is waited out.

        Raises:
            TimeoutError: the workload isn't over in time.
        """
        started_s, pause_s = time.monotonic(), LOOK_S_MIN
        outage = ServerOutage(self._on_outage, has_answered=True)
        while True:
            try:
                workload = await self.get(name)
                outage.answered()
                if workload.status in ENDED:
                    return workload
            except Unreachable as error:
                outage.failed(error)
            if timeout_s is not None and time.monotonic() + pause_s > started_s + timeout_s:
                raise TimeoutError(f"{name} isn't over after {timeout_s:g} s")
            await asyncio.sleep(pause_s)
            pause_s = min(LOOK_S_MAX, pause_s * 1.3)

    async def stream(self, *, last: str | None = None) -> AsyncIterator[Change]:
        """Yield changes from now on, or since `last` (the `id` of a change). Broken connections are resumed.

        Raises:
            Unreachable: the pool doesn't answer at first, or is away for a minute.
        """
        reader, attempt, outage = Reader(last), 0, ServerOutage(self._on_outage)
        while True:
            try:
                async with self._opened(Call("GET", "/stream", nothing), reader) as answer:
                    async for line in answer.aiter_lines():
                        outage.answered()
                        attempt = 0
                        change = reader.line(line)
                        if change is not None:
                            yield change
            except Unreachable as error:
                outage.failed(error)
            reader.broken()
            attempt += 1
            await asyncio.sleep(reader.retry_s or wait_s(attempt))

    async def send(self, call: Callable[[], Call[Answered]]) -> Answered:
        """Send a call and return its answer."""
        return await self._answer(call())

    async def iterate(self, call: Callable[[], Call[RowPage[Row]]]) -> AsyncIterator[Row]:
        """Yield the rows of all pages; request a page when its first row is needed."""
        request = call()
        while True:
            page = await self._answer(request)
            for row in page.items:
                yield row
            if page.next is None:
                return
            request = request.after(page.next)

    async def _followed(self, call: Call[None], on_start: OnStart | None) -> AsyncIterator[str]:
        """Yield output as it appears; resume an interrupted response after its last piece."""
        reader, attempt, outage = LogReader(on_start), 0, ServerOutage(self._on_outage)
        while not reader.is_over:
            try:
                async for text in self._log_pieces(call, reader):
                    outage.answered()
                    attempt = 0
                    if text:
                        yield text
                if reader.is_plain:
                    return
            except Unreachable as error:
                if not reader.can_resume:
                    raise
                outage.failed(error)
            if not reader.is_over:
                attempt += 1
                await asyncio.sleep(wait_s(attempt))

    async def _log_pieces(self, call: Call[None], reader: LogReader) -> AsyncIterator[str]:
        async with self._opened(call, reader) as answer:
            reader.begin(answer)
            if reader.is_plain:
                async for text in answer.aiter_text():
                    yield text
                return
            async for line in answer.aiter_lines():
                yield reader.line(line)
        if not reader.is_over:  # a proxy or a server that stops ends answers in order
            raise server_error(self.address)

    @asynccontextmanager
    async def _opened(
        self, call: Call[None], reader: Reader | LogReader | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Yield a response that is read in pieces; a `reader` resumes one after its last piece."""
        options: dict[str, Any] = {"params": dict(call.params)}
        if reader is not None:
            options |= {"headers": reader.headers(), "timeout": reader.timeout}
        try:
            async with self._http.stream(call.method, call.path, **options) as answer:
                if reader is not None and reader.is_away(answer.status_code):
                    raise server_error(self.address)
                if not answer.is_success:
                    raise refusal(answer.status_code, await answer.aread())
                yield answer
        except httpx.TransportError as error:
            raise await asyncio.to_thread(unreachable, self.address, error) from error

    async def _answer(self, call: Call[Answered]) -> Answered:
        started_s = time.monotonic()
        while True:
            try:
                answer = await self._http.request(
                    call.method, call.path, params=dict(call.params), json=call.body
                )
            except httpx.TransportError as error:
                raise await asyncio.to_thread(unreachable, self.address, error) from error
            pause_s = retry_s(answer)
            if pause_s is None or time.monotonic() + pause_s > started_s + PATIENCE_S:
                break
            await asyncio.sleep(pause_s)
        if not answer.is_success:
            raise refusal(answer.status_code, answer.content)
        return call.reads(answer.content)
