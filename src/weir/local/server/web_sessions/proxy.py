"""Reverse proxy of sessions in a browser, on a port of loopback: /sessions/NAME/ is the program of NAME."""

import asyncio
import socket
from contextlib import suppress
from urllib.parse import parse_qsl, urlencode, urlsplit

import h11

from weir.local.server.listening import WAITING_MAX
from weir.local.server.problem_details import RequestRefused
from weir.local.server.web_sessions.exchange import HttpEnd, pass_on
from weir.local.server.web_sessions.gate import BrowserRequest, SessionGate, check_origin
from weir.local.server.web_sessions.header_rules import COOKIE, Headers
from weir.local.server.web_sessions.program_socket import connect
from weir.local.server.web_sessions.views import VIEW_S, SessionView
from weir.local.session_programs import base_path, keeps_base_path

CODE_PARAMETER = "weir-code"
CONNECTIONS_MAX = 1024
HEAD_S_MAX = 60.0
"""Time in which the next request of a connection has to come."""
LOOK_S = 10.0
"""Interval at which the right to a session is looked at while a connection is open."""
_ROOT = "/sessions/"
_SECURITY: Headers = [
    (b"Content-Type", b"text/plain; charset=utf-8"),
    (b"Content-Security-Policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"X-Content-Type-Options", b"nosniff"),
]


class SessionProxy:
    """Answers connections on the port of sessions. Belongs to the event loop."""

    def __init__(self, gate: SessionGate, listening: socket.socket) -> None:
        self.gate = gate
        self._socket = listening
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.StreamWriter, None] = {}  # for a request; silent longest first
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"

    async def open(self) -> asyncio.Server:
        """Begin to accept connections."""
        return await asyncio.start_server(self._connected, sock=self._socket, backlog=WAITING_MAX)

    def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()

    def link(self, name: str, code: str) -> str:
        """Return the address that opens a session with the code of a link."""
        return f"{self.url}{base_path(name)}?{urlencode({CODE_PARAMETER: code})}"

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        browser = HttpEnd(h11.SERVER, reader, writer)
        if len(self._tasks) > CONNECTIONS_MAX:
            next(iter(self._waiting), writer).transport.abort()
        try:
            while await self._answer_next(browser):
                browser.http.start_next_cycle()
        except (h11.ProtocolError, OSError, TimeoutError):
            pass  # one side broke off, or doesn't speak HTTP
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            self._tasks.discard(task)
            self._waiting.pop(writer, None)
            writer.close()

    async def _answer_next(self, browser: HttpEnd) -> bool:
        """Answer the next request; return True if the connection can carry another."""
        self._waiting[browser.writer] = None
        async with asyncio.timeout(HEAD_S_MAX):
            request = await browser.next_event()
        self._waiting.pop(browser.writer, None)
        if not isinstance(request, h11.Request):
            return False
        try:
            await self._answer(request, browser)
        except RequestRefused as refused:
            if browser.http.our_state is h11.SEND_RESPONSE:
                status = 503 if refused.status == 409 else refused.status  # not yet: pages try again
                await browser.answer(status, _SECURITY, f"{refused.detail}\n".encode())
        return browser.http.our_state is h11.DONE and browser.http.their_state is h11.DONE

    async def _answer(self, request: h11.Request, browser: HttpEnd) -> None:
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}
        check_origin(_described(request, headers))
        parts = urlsplit(request.target.decode("latin-1"))
        name, slash, rest = parts.path.removeprefix(_ROOT).partition("/")
        if not parts.path.startswith(_ROOT) or not name or not slash:
            raise RequestRefused(404, "There is no such session: its address is /sessions/NAME/.")
        words = dict(parse_qsl(parts.query))
        if request.method == b"GET" and (code := words.pop(CODE_PARAMETER, "")):
            await self._begin(browser, name, code, rest, words)
            return
        view = self.gate.views.of(_cookie(headers.get("cookie", "")), name)
        own = await self.gate.directory_of(view)
        path = base_path(name)
        target = parts.path if keeps_base_path(view.kind) else f"/{rest}"
        target += f"?{parts.query}" if parts.query else ""
        passing = asyncio.create_task(
            pass_on(request, target.encode("latin-1"), path.encode(), browser, connect(own))
        )
        await self._while_it_holds(passing, view, own)

    async def _begin(self, browser: HttpEnd, name: str, code: str, rest: str, words: dict[str, str]) -> None:
        """Give the browser a view, and send it to the address without the code."""
        cookie = self.gate.views.begin(code, name)
        path = base_path(name)
        place = f"{path}{rest}" + (f"?{urlencode(words)}" if words else "")
        value = f"{COOKIE}={cookie}; Path={path}; Max-Age={int(VIEW_S)}; HttpOnly; SameSite=Strict"
        headers = [(b"Location", place.encode()), (b"Set-Cookie", value.encode())]
        await browser.answer(303, [*_SECURITY, (b"Referrer-Policy", b"no-referrer"), *headers])

    async def _while_it_holds(self, passing: asyncio.Task[None], view: SessionView, own: str) -> None:
        """Wait for an exchange, and end it once the person has lost the right or the pod is another."""
        try:
            while not (await asyncio.wait({passing}, timeout=LOOK_S))[0]:
                if await self.gate.directory_of(view) != own:
                    return
            await passing
        finally:
            passing.cancel()
            with suppress(asyncio.CancelledError, h11.ProtocolError, OSError):
                await passing


def _described(request: h11.Request, headers: dict[str, str]) -> BrowserRequest:
    return BrowserRequest(
        method=request.method.decode("ascii"),
        host=headers.get("host", ""),
        origin=headers.get("origin", ""),
        fetch_site=headers.get("sec-fetch-site", ""),
        fetch_mode=headers.get("sec-fetch-mode", ""),
        fetch_dest=headers.get("sec-fetch-dest", ""),
    )


def _cookie(header: str) -> str:
    """Return the cookie of a view, or an empty text; a program's own cookies may have any form."""
    for each in header.split(";"):
        name, _, value = each.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
