"""Client of a pool: its calls, and the methods that follow logs, changes and the end of a workload."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx

from weir.client.address import NO_CLUSTER, find
from weir.client.calls import Answered, Call, Row, RowPage, Sender, nothing, refusal
from weir.client.endpoints import Endpoints, logs
from weir.client.errors import Unreachable
from weir.client.log_stream import LogReader, OnStart
from weir.client.outage import PATIENCE_S, OutageReport, ServerOutage
from weir.client.stream import Change, Reader, wait_s
from weir.client.transport import (
    ENDED,
    LOOK_S_MAX,
    LOOK_S_MIN,
    client,
    retry_s,
    server_error,
    unreachable,
)

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail


class Pool(Endpoints, Sender):
    """A pool. The default address is `$WEIR_URL`, else the pool on this machine.

    Every method may raise `Unreachable`, and `Refused` with the reasons.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        on_outage: OutageReport | None = None,
    ) -> None:
        self.address = find(url, token)
        if self.address.is_cluster and transport is None:
            raise Unreachable(NO_CLUSTER.format(self.address.url))
        self._on_outage = on_outage
        self._http = client(self.address, timeout_s, transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def logs(
        self,
        name: str,
        *,
        follow: bool = False,
        pod: str | None = None,
        start: int | None = None,
        tail: int | None = None,
        on_start: OnStart | None = None,
    ) -> Iterator[str]:
        """Yield the output of a pod in pieces. `pod` is `group/index` or `all`; by default the first pod.

        `on_start` is called with each later start of a followed pod, in words, before its output.
        """
        call = logs(name, pod=pod, start=start, tail=tail, follow=follow)
        if follow:
            yield from self._followed(call, on_start)
            return
        with self._opened(call) as answer:
            yield from answer.iter_text()

    def wait(self, name: str, *, timeout_s: float | None = None) -> WorkloadDetail:
        """Wait until a workload is over; `status` says how it ended. A restart of the server is waited out.

        Raises:
            TimeoutError: the workload isn't over in time.
        """
        started_s, pause_s = time.monotonic(), LOOK_S_MIN
        outage = ServerOutage(self._on_outage, has_answered=True)
        while True:
            try:
                workload = self.get(name)
                outage.answered()
                if workload.status in ENDED:
                    return workload
            except Unreachable as error:
                outage.failed(error)
            if timeout_s is not None and time.monotonic() + pause_s > started_s + timeout_s:
                raise TimeoutError(f"{name} isn't over after {timeout_s:g} s")
            time.sleep(pause_s)
            pause_s = min(LOOK_S_MAX, pause_s * 1.3)

    def stream(self, *, last: str | None = None) -> Iterator[Change]:
        """Yield changes from now on, or since `last` (the `id` of a change). Broken connections are resumed.

        Raises:
            Unreachable: the pool doesn't answer at first, or is away for a minute.
        """
        reader, attempt, outage = Reader(last), 0, ServerOutage(self._on_outage)
        while True:
            try:
                with self._opened(Call("GET", "/stream", nothing), reader) as answer:
                    for line in answer.iter_lines():
                        outage.answered()
                        attempt = 0
                        change = reader.line(line)
                        if change is not None:
                            yield change
            except Unreachable as error:
                outage.failed(error)
            reader.broken()
            attempt += 1
            time.sleep(reader.retry_s or wait_s(attempt))

    def send(self, call: Callable[[], Call[Answered]]) -> Answered:
        """Send a call and return its answer."""
        return self._answer(call())

    def iterate(self, call: Callable[[], Call[RowPage[Row]]]) -> Iterator[Row]:
        """Yield the rows of all pages; request a page when its first row is needed."""
        request = call()
        while True:
            page = self._answer(request)
            yield from page.items
            if page.next is None:
                return
            request = request.after(page.next)

    def _followed(self, call: Call[None], on_start: OnStart | None) -> Iterator[str]:
        """Yield output as it appears; resume an interrupted response after its last piece."""
        reader, attempt, outage = LogReader(on_start), 0, ServerOutage(self._on_outage)
        while not reader.is_over:
            try:
                for text in self._log_pieces(call, reader):
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
                time.sleep(wait_s(attempt))

    def _log_pieces(self, call: Call[None], reader: LogReader) -> Iterator[str]:
        with self._opened(call, reader) as answer:
            reader.begin(answer)
            if reader.is_plain:
                yield from answer.iter_text()
                return
            for line in answer.iter_lines():
                yield reader.line(line)
        if not reader.is_over:  # a proxy or a server that stops ends answers in order
            raise server_error(self.address)

    @contextmanager
    def _opened(self, call: Call[None], reader: Reader | LogReader | None = None) -> Iterator[httpx.Response]:
        """Yield a response that is read in pieces; a `reader` resumes one after its last piece."""
        options: dict[str, Any] = {"params": dict(call.params)}
        if reader is not None:
            options |= {"headers": reader.headers(), "timeout": reader.timeout}
        try:
            with self._http.stream(call.method, call.path, **options) as answer:
                if reader is not None and reader.is_away(answer.status_code):
                    raise server_error(self.address)
                if not answer.is_success:
                    raise refusal(answer.status_code, answer.read())
                yield answer
        except httpx.TransportError as error:
            raise unreachable(self.address, error) from error

    def _answer(self, call: Call[Answered]) -> Answered:
        started_s = time.monotonic()
        while True:
            try:
                answer = self._http.request(call.method, call.path, params=dict(call.params), json=call.body)
            except httpx.TransportError as error:
                raise unreachable(self.address, error) from error
            pause_s = retry_s(answer)
            if pause_s is None or time.monotonic() + pause_s > started_s + PATIENCE_S:
                break
            time.sleep(pause_s)
        if not answer.is_success:
            raise refusal(answer.status_code, answer.content)
        return call.reads(answer.content)
