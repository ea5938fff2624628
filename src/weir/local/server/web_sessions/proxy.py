"""Reverse proxy of sessions in a browser: /sessions/NAME/ is the program of NAME.

It answers on a port of loopback, and over HTTPS at the host names of sessions if there is a domain of them.

The cookie of a view is Lax: the dashboard has another address, and a browser that comes from there sends no
Strict one. A request that isn't a person's own navigation is refused by the headers of its origin.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from urllib.parse import parse_qsl, urlencode

import h11
from structlog import get_logger

from weir.dashboard.web_sessions.connections import (
    CODE_PARAMETER,
    SECURITY,
    BrowserConnections,
    begin_view,
    cookie_in,
    headers_of,
    refuse,
    target_of,
)
from weir.dashboard.web_sessions.exchange import HttpEnd, pass_on
from weir.dashboard.web_sessions.page_origin import described_by
from weir.dashboard.web_sessions.peer_user import peer_uid
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.web_sessions.addresses import SessionAddresses
from weir.local.server.web_sessions.gate import SessionGate, check_origin
from weir.local.server.web_sessions.program_socket import connect
from weir.local.server.web_sessions.session_hosts import SessionHosts
from weir.local.server.web_sessions.sites import HostSite, LoopbackSite, SessionSite
from weir.local.server.web_sessions.views import VIEW_S, SessionView
from weir.local.starts.session_programs import base_path, keeps_base_path

PERSON_CONNECTIONS_MAX = 128
"""Requests and streams of one person that are answered at a time."""
LOOK_S = 10.0
"""Interval at which the right to a session is looked at while a connection is open."""
_ROOT = "/sessions/"
_LOG = get_logger(__name__)


class SessionProxy:
    """Answers connections on the port of sessions. Belongs to the event loop."""

    def __init__(
        self, addresses: SessionAddresses, gate: SessionGate, hosts: SessionHosts | None = None
    ) -> None:
        self.addresses = addresses
        self.hosts = hosts
        self.gate = gate
        self._open: Counter[str] = Counter()  # open requests and streams by person
        self._connections = BrowserConnections()

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
        self._connections.close()

    async def link(self, user: str, name: str, code: str) -> str:
        """Return the address that opens a person's session with the code of a link.

        Raises:
            RequestRefused: another program has their address.
        """
        await self.addresses.serve(user, self._connected)
        return _link(f"http://{self.addresses.address_of(user)}:{self.addresses.port}", name, code)

    def remote_link(self, user: str, name: str, code: str) -> str:
        """Return the address that opens a person's session from another machine.

        Raises:
            RequestRefused: sessions have no domain.
        """
        if self.hosts is None:
            port = self.addresses.port
            tunnel = f"`ssh -NL {port}:{self.addresses.address_of(user)}:{port} HOST`"
            raise RequestRefused(
                422,
                "Sessions aren't served to other machines, since `weir up` has no --sessions-domain: run "
                f"{tunnel}, and ask for the link on the machine of the pool.",
            )
        return _link(f"https://{self.hosts.host_of(user, name)}", name, code)

    def protocol_for(self, name: str) -> asyncio.Protocol | None:
        """Return the protocol for the host name of an HTTPS connection; None if no session has it."""
        if self.hosts is None or not self.hosts.has(name):
            return None
        site = HostSite(self.hosts, name)

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(HttpEnd(h11.SERVER, reader, writer), site)

        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), connected)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("sockname")[0]
        site = LoopbackSite(self.addresses, address, peer_uid(writer.get_extra_info("socket")))
        await self._serve(HttpEnd(h11.SERVER, reader, writer), site)

    async def _serve(self, browser: HttpEnd, site: SessionSite) -> None:
        await self._connections.serve(browser, partial(self._answer_or_refuse, site))

    async def _answer_or_refuse(self, site: SessionSite, request: h11.Request, browser: HttpEnd) -> None:
        try:
            await self._answer(request, browser, site)
        except RequestRefused as refused:
            # A 409 means "not yet": pages retry after a 503
            status = 503 if refused.status == 409 else refused.status
            await refuse(browser, status, refused.detail)

    async def _answer(self, request: h11.Request, browser: HttpEnd, site: SessionSite) -> None:
        headers = headers_of(request)
        described = described_by(request, headers)
        check_origin(described, site)
        parts = target_of(request)
        name, slash, rest = parts.path.removeprefix(_ROOT).partition("/")
        if not parts.path.startswith(_ROOT) or not name or not slash:
            raise RequestRefused(404, "There is no such session: its address is /sessions/NAME/.")
        words = dict(parse_qsl(parts.query))
        if request.method == b"GET" and (code := words.pop(CODE_PARAMETER, "")):
            await self._begin(browser, site, name, code, rest, words)
            return
        try:
            cookie = cookie_in(headers.get("cookie", ""), site.cookie)
            view = self.gate.views.view_of(cookie, name, site.is_of, site.peer_uid)
            own = await self.gate.directory_of(view)
        except RequestRefused as refused:
            page = site.sign_in(name)
            if refused.status != 401 or not described.is_opened or page is None:
                raise
            await browser.answer(303, [*SECURITY, (b"Location", page.encode())])
            return
        with self._counted(view.user):
            path = base_path(name)
            target = parts.path if keeps_base_path(view.kind) else f"/{rest}"
            target += f"?{parts.query}" if parts.query else ""
            reader, writer = await asyncio.open_unix_connection(sock=connect(own))
            try:
                program = HttpEnd(h11.CLIENT, reader, writer)
                passed = pass_on(request, target.encode("latin-1"), path.encode(), browser, program)
                await self._while_it_holds(asyncio.create_task(passed), view, own)
            finally:
                writer.close()

    async def _begin(
        self, browser: HttpEnd, site: SessionSite, name: str, code: str, rest: str, words: dict[str, str]
    ) -> None:
        """Set the browser's session cookie, and redirect it to the address without the code."""
        cookie = self.gate.views.begin(code, name, site.is_of, site.peer_uid)
        path = base_path(name)
        value = f"{site.cookie}={cookie}; Max-Age={int(VIEW_S)}; {site.attributes(path)}"
        await begin_view(browser, value, f"{path}{rest}", words)

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


def _link(root: str, name: str, code: str) -> str:
    return f"{root}{base_path(name)}?{urlencode({CODE_PARAMETER: code})}"
