"""Connections of browsers to a reverse proxy of sessions: one request after another on each."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import SplitResult, urlencode, urlsplit

import h11

from weir.dashboard.web_sessions.exchange import HttpEnd
from weir.dashboard.web_sessions.header_rules import Headers

CODE_PARAMETER = "weir-code"
CONNECTIONS_MAX = 1024
HEAD_S_MAX = 60.0
"""Time limit for the next request of a connection."""
SECURITY: Headers = [
    (b"Content-Type", b"text/plain; charset=utf-8"),
    (b"Content-Security-Policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"X-Content-Type-Options", b"nosniff"),
]
"""Headers of the proxy's own answers."""


AnswersRequest = Callable[[h11.Request, HttpEnd], Awaitable[None]]


class BrowserConnections:
    """Open connections. Belongs to the event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.StreamWriter, None] = {}  # idle connections, the longest idle first

    async def serve(self, browser: HttpEnd, answer: AnswersRequest) -> None:
        """Answer the requests of a new connection until one side ends it."""
        writer = browser.writer
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        if len(self._tasks) > CONNECTIONS_MAX:
            next(iter(self._waiting), writer).transport.abort()
        try:
            while await self._answer_next(browser, answer):
                browser.http.start_next_cycle()
        except (h11.ProtocolError, OSError, TimeoutError):
            pass  # a side closed the connection, or doesn't speak HTTP
        except asyncio.CancelledError:
            pass  # the server is stopping
        finally:
            self._tasks.discard(task)
            self._waiting.pop(writer, None)
            writer.close()

    def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()

    async def _answer_next(self, browser: HttpEnd, answer: AnswersRequest) -> bool:
        """Answer the next request; return True if the connection can carry another."""
        self._waiting[browser.writer] = None
        async with asyncio.timeout(HEAD_S_MAX):
            request = await browser.next_event()
        self._waiting.pop(browser.writer, None)
        if not isinstance(request, h11.Request):
            return False
        await answer(request, browser)
        return browser.is_between_requests


async def refuse(browser: HttpEnd, status: int, sentence: str) -> None:
    """Answer a request with a refusal, unless an answer has begun."""
    if browser.http.our_state is h11.SEND_RESPONSE:
        await browser.answer(status, SECURITY, f"{sentence}\n".encode())


async def begin_view(browser: HttpEnd, cookie: str, place: str, words: dict[str, str]) -> None:
    """Give a browser the cookie of a view, and send it to the address without the code of its link."""
    target = place + (f"?{urlencode(words)}" if words else "")
    headers = [(b"Location", target.encode()), (b"Set-Cookie", cookie.encode())]
    await browser.answer(303, [*SECURITY, (b"Referrer-Policy", b"no-referrer"), *headers])


def target_of(request: h11.Request) -> SplitResult:
    """Return the parts of a request's target.

    Raises:
        h11.RemoteProtocolError: the target is no address.
    """
    try:
        return urlsplit(request.target.decode("latin-1"))
    except ValueError as error:
        raise h11.RemoteProtocolError(str(error)) from None


def headers_of(request: h11.Request) -> dict[str, str]:
    """Return the headers of a request, by their names in lower case."""
    return {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}


def cookie_in(header: str, wanted: str) -> str:
    """Return a cookie, or an empty text; a program's own cookies may have any form."""
    for cookie in header.split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == wanted:
            return value
    return ""
