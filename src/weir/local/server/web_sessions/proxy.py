"""Reverse proxy of sessions in a browser: /sessions/NAME/ is the program of NAME.

It answers on a port of loopback, and over HTTPS at the host names of sessions if there is a domain of them.

The cookie of a view is Lax: the dashboard has another address, and a browser that comes from there sends no
Strict one. A request that isn't a person's own navigation is refused by the headers of its origin.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import parse_qsl, urlencode, urlsplit

import h11
from structlog import get_logger

from weir.local.server.problem_details import RequestRefused
from weir.local.server.web_sessions.addresses import SessionAddresses
from weir.local.server.web_sessions.exchange import HttpEnd, pass_on
from weir.local.server.web_sessions.gate import BrowserRequest, SessionGate, check_origin
from weir.local.server.web_sessions.header_rules import Headers
from weir.local.server.web_sessions.program_socket import connect
from weir.local.server.web_sessions.session_hosts import SessionHosts
from weir.local.server.web_sessions.sites import HostSite, LoopbackSite, SessionSite
from weir.local.server.web_sessions.views import VIEW_S, SessionView
from weir.local.session_programs import base_path, keeps_base_path

CODE_PARAMETER = "weir-code"
CONNECTIONS_MAX = 1024
PERSON_CONNECTIONS_MAX = 128
"""Requests and streams of one person that are answered at a time."""
HEAD_S_MAX = 60.0
"""Time in which the next request of a connection has to come."""
LOOK_S = 10.0
"""Interval at which the right to a session is looked at while a connection is open."""
_ROOT = "/sessions/"
_LOG = get_logger(__name__)
_SECURITY: Headers = [
    (b"Content-Type", b"text/plain; charset=utf-8"),
    (b"Content-Security-Policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"X-Content-Type-Options", b"nosniff"),
]


class SessionProxy:
    """Answers connections on the port of sessions. Belongs to the event loop."""

    def __init__(
        self, addresses: SessionAddresses, gate: SessionGate, hosts: SessionHosts | None = None
    ) -> None:
        self.addresses = addresses
        self.hosts = hosts
        self.gate = gate
        self._open: Counter[str] = Counter()  # requests and streams, by person
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.StreamWriter, None] = {}  # for a request; silent longest first

    async def open(self) -> None:
        """Accept connections of those who have views; others get an address with their first link."""
        await self.addresses.begin(self._connected)
        for user in self.gate.views.users():
            try:
                await self.addresses.serve(user, self._connected)
            except RequestRefused as refused:
                _LOG.warning("no_port_for_sessions", why=refused.detail)

    def close(self) -> None:
        """End all connections."""
        self.addresses.close()
        for task in self._tasks:
            task.cancel()

    async def link(self, user: str, name: str, code: str) -> str:
        """Return the address that opens a person's session with the code of a link.

        Raises:
            RequestRefused: another program has their address.
        """
        await self.addresses.serve(user, self._connected)
        return _link(f"http://{self.addresses.of(user)}:{self.addresses.port}", name, code)

    def remote_link(self, user: str, name: str, code: str) -> str:
        """Return the address that opens a person's session from another machine.

        Raises:
            RequestRefused: sessions have no domain.
        """
        if self.hosts is None:
            port = self.addresses.port
            tunnel = f"`ssh -NL {port}:{self.addresses.of(user)}:{port} HOST`"
            raise RequestRefused(
                422,
                "Sessions aren't served to other machines, since `weir up` has no --sessions-domain: run "
                f"{tunnel}, and ask for the link on the machine of the pool.",
            )
        return _link(f"https://{self.hosts.of(user, name)}", name, code)

    def protocol_for(self, name: str) -> asyncio.Protocol | None:
        """Return the protocol of a connection over HTTPS to a host name; None if it is no session's."""
        if self.hosts is None or not self.hosts.has(name):
            return None
        site = HostSite(self.hosts, name)

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(HttpEnd(h11.SERVER, reader, writer), site)

        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), connected)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")[0]
        await self._serve(HttpEnd(h11.SERVER, reader, writer), LoopbackSite(self.addresses, address))

    async def _serve(self, browser: HttpEnd, site: SessionSite) -> None:
        writer = browser.writer
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        if len(self._tasks) > CONNECTIONS_MAX:
            next(iter(self._waiting), writer).transport.abort()
        try:
            while await self._answer_next(browser, site):
                browser.http.start_next_cycle()
        except (h11.ProtocolError, OSError, TimeoutError):
            pass  # one side broke off, or doesn't speak HTTP
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            self._tasks.discard(task)
            self._waiting.pop(writer, None)
            writer.close()

    async def _answer_next(self, browser: HttpEnd, site: SessionSite) -> bool:
        """Answer the next request; return True if the connection can carry another."""
        self._waiting[browser.writer] = None
        async with asyncio.timeout(HEAD_S_MAX):
            request = await browser.next_event()
        self._waiting.pop(browser.writer, None)
        if not isinstance(request, h11.Request):
            return False
        try:
            await self._answer(request, browser, site)
        except RequestRefused as refused:
            if browser.http.our_state is h11.SEND_RESPONSE:
                status = 503 if refused.status == 409 else refused.status  # not yet: pages try again
                await browser.answer(status, _SECURITY, f"{refused.detail}\n".encode())
        return browser.http.our_state is h11.DONE and browser.http.their_state is h11.DONE

    async def _answer(self, request: h11.Request, browser: HttpEnd, site: SessionSite) -> None:
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}
        described = _described(request, headers)
        check_origin(described, site)
        parts = urlsplit(request.target.decode("latin-1"))
        name, slash, rest = parts.path.removeprefix(_ROOT).partition("/")
        if not parts.path.startswith(_ROOT) or not name or not slash:
            raise RequestRefused(404, "There is no such session: its address is /sessions/NAME/.")
        words = dict(parse_qsl(parts.query))
        if request.method == b"GET" and (code := words.pop(CODE_PARAMETER, "")):
            await self._begin(browser, site, name, code, rest, words)
            return
        try:
            view = self.gate.views.of(_cookie(headers.get("cookie", ""), site.cookie), name, site.is_of)
            own = await self.gate.directory_of(view)
        except RequestRefused as refused:
            page = site.sign_in(name)
            if refused.status != 401 or not described.is_opened or page is None:
                raise
            await browser.answer(303, [*_SECURITY, (b"Location", page.encode())])
            return
        with self._counted(view.user):
            path = base_path(name)
            target = parts.path if keeps_base_path(view.kind) else f"/{rest}"
            target += f"?{parts.query}" if parts.query else ""
            passing = asyncio.create_task(
                pass_on(request, target.encode("latin-1"), path.encode(), browser, connect(own))
            )
            await self._while_it_holds(passing, view, own)

    async def _begin(
        self, browser: HttpEnd, site: SessionSite, name: str, code: str, rest: str, words: dict[str, str]
    ) -> None:
        """Give the browser a view, and send it to the address without the code."""
        cookie = self.gate.views.begin(code, name, site.is_of)
        path = base_path(name)
        place = f"{path}{rest}" + (f"?{urlencode(words)}" if words else "")
        value = f"{site.cookie}={cookie}; Max-Age={int(VIEW_S)}; {site.attributes(path)}"
        headers = [(b"Location", place.encode()), (b"Set-Cookie", value.encode())]
        await browser.answer(303, [*_SECURITY, (b"Referrer-Policy", b"no-referrer"), *headers])

    @contextmanager
    def _counted(self, user: str) -> Iterator[None]:
        """Count a request of a person while it is answered.

        Raises:
            RequestRefused: the person has too many.
        """
        if self._open[user] >= PERSON_CONNECTIONS_MAX:
            raise RequestRefused(
                429, f"You have {PERSON_CONNECTIONS_MAX} connections to sessions: close some of their pages."
            )
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]

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


def _cookie(header: str, name: str) -> str:
    """Return a cookie, or an empty text; a program's own cookies may have any form."""
    for each in header.split(";"):
        key, _, value = each.strip().partition("=")
        if key == name:
            return value
    return ""


def _link(root: str, name: str, code: str) -> str:
    return f"{root}{base_path(name)}?{urlencode({CODE_PARAMETER: code})}"
