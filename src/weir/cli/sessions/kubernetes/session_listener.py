"""Reverse proxy of one session on this machine: /sessions/NAME/ is its program in the container.

It listens on loopback. A link opens it once; the cookie of that link lets the browser in from then on, as
long as this process lives. Pages of other origins are refused, as a pool's server refuses them.
"""

import asyncio
import secrets
import time
from functools import partial
from hmac import compare_digest
from urllib.parse import parse_qsl, urlencode

import h11

from weir.cli.sessions.kubernetes.program_streams import NoInterpreter, NotListening, ProgramStreams
from weir.dashboard.browser_checks import is_this_machine
from weir.dashboard.web_sessions.connections import (
    CODE_PARAMETER,
    BrowserConnections,
    begin_view,
    cookie_in,
    headers_of,
    refuse,
    target_of,
)
from weir.dashboard.web_sessions.exchange import HttpEnd, pass_on
from weir.dashboard.web_sessions.page_origin import described_by, page_refusal
from weir.dashboard.web_sessions.peer_user import peer_uid
from weir.kubernetes.api.errors import ApiRefused
from weir.local.starts.session_programs import base_path, keeps_base_path

CODE_S = 60.0
VIEW_S = 12 * 3600
LISTENS_S = 20.0
"""Time for which one script in the container waits until the program listens."""
_REPEATED = (b"GET", b"HEAD")
_COOKIE = "weir_view"
_ELSEWHERE = "Sessions answer to 127.0.0.1 alone: use a tunnel from another machine."


class SessionListener:
    """Answers the browsers of one person. `root`: the address that it listens on, such as 127.0.0.1:9348."""

    def __init__(self, streams: ProgramStreams, kind: str, name: str, root: str) -> None:
        self.trouble = ""
        """Reason why the session can't be reached now, in a sentence."""
        self._streams = streams
        self._keeps_path = keeps_base_path(kind)
        self._path = base_path(name)
        self._root = root
        self._cookie_name = f"{_COOKIE}_{root.rpartition(':')[2]}"  # cookies ignore the port of a host
        self._cookie = secrets.token_urlsafe(32)
        self._code = ""
        self._code_until_s = 0.0
        self._peer_uid: int | None = None
        """The account whose browser, or tunnel, opened the link; None if that isn't known."""
        self._connections = BrowserConnections()

    def link(self) -> str:
        """Return a link that opens the session once, within a minute."""
        self._code, self._code_until_s = secrets.token_urlsafe(32), time.monotonic() + CODE_S
        return f"http://{self._root}{self._path}?{urlencode({CODE_PARAMETER: self._code})}"

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a new connection."""
        uid = peer_uid(writer.get_extra_info("socket"))
        await self._connections.serve(HttpEnd(h11.SERVER, reader, writer), partial(self._answer, uid))

    def close(self) -> None:
        """End all connections."""
        self._connections.close()

    async def _answer(self, uid: int | None, request: h11.Request, browser: HttpEnd) -> None:
        headers = headers_of(request)
        parts = target_of(request)
        asked = described_by(request, headers)
        refusal = page_refusal(asked, "http") if is_this_machine(asked.host) else _ELSEWHERE
        if refusal is not None:
            await refuse(browser, 403, refusal)
            return
        if not parts.path.startswith(self._path):
            await refuse(browser, 404, f"There is no such session: its address is {self._path}.")
            return
        words = dict(parse_qsl(parts.query))
        if request.method == b"GET" and (code := words.pop(CODE_PARAMETER, "")):
            await self._begin(browser, code, parts.path, words, uid)
            return
        cookie = cookie_in(headers.get("cookie", ""), self._cookie_name)
        is_known = compare_digest(cookie.encode("latin-1"), self._cookie.encode())
        if not is_known or self._peer_uid not in (None, uid):
            again = "open the link that `weir jupyter` or `weir code` prints"
            await refuse(browser, 401, f"This browser has no access to the session: {again}.")
            return
        target = parts.path if self._keeps_path else f"/{parts.path.removeprefix(self._path)}"
        target += f"?{parts.query}" if parts.query else ""
        try:
            await self._pass_on(request, target.encode("latin-1"), browser)
        except NotListening as error:
            await refuse(browser, 503, self.trouble or str(error))
        except ApiRefused as error:
            await refuse(browser, 503, self.trouble or f"The API server refused the entry: {error.message}")
        except (h11.ProtocolError, OSError):
            await refuse(browser, 502, self.trouble or "The connection to the session broke off: try again.")
            raise

    async def _begin(
        self, browser: HttpEnd, code: str, place: str, words: dict[str, str], uid: int | None
    ) -> None:
        """Set the browser's cookie, once for each link."""
        is_known = bool(self._code) and compare_digest(code.encode(), self._code.encode())
        if not is_known or self._code_until_s < time.monotonic():
            await refuse(browser, 401, "This link was used already or is older than a minute.")
            return
        self._code, self._peer_uid = "", uid
        value = f"{self._cookie_name}={self._cookie}; Path={self._path}; Max-Age={VIEW_S}"
        await begin_view(browser, f"{value}; HttpOnly; SameSite=Lax", place, words)

    async def _pass_on(self, request: h11.Request, target: bytes, browser: HttpEnd) -> None:
        """Forward a request; repeat it if the reused stream had ended."""
        path, address = self._path.encode(), self._streams.address
        kept = self._streams.kept()
        if kept is not None:
            try:
                await pass_on(request, target, path, browser, kept)
            except (h11.ProtocolError, OSError):
                kept.writer.close()
                has_answer = browser.http.our_state is not h11.SEND_RESPONSE
                if has_answer or request.method not in _REPEATED:
                    raise
            except BaseException:
                kept.writer.close()
                raise
            else:
                self._streams.give_back(kept, address)
                return
        program = await self._streams.opened()
        try:
            await pass_on(request, target, path, browser, program)
        except BaseException:
            program.writer.close()
            raise
        self._streams.give_back(program, address)


async def until_it_listens(streams: ProgramStreams, pause_s: float) -> None:
    """Wait until the program of a session listens; its first connection is kept for requests.

    Raises:
        ApiRefused: the API server refuses the entry.
        NoInterpreter: no program of this container can be reached.
    """
    while True:
        try:
            end = await streams.opened(wait_s=LISTENS_S)
        except NoInterpreter:
            raise
        except NotListening:
            await asyncio.sleep(pause_s)
        else:
            streams.keep(end)
            return
