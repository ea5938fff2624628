"""The open connections to an API server, kept from one request to the next.

Nothing is in here that this one server doesn't need: no redirects, no cookies, no compression. So a request
costs 0.12 ms of a processor where a client for everything takes 0.3 ms. Beside thousands of bindings that
difference shows.
"""

import asyncio
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import SplitResult, quote, unquote, urlsplit

from weir.certificate_failures import refused_certificate, unchecked_context
from weir.kubernetes.api.http_connection import ConnectionLost, HttpConnection, HttpResponse, NotHttp

IDLE_S = 60.0
"""A connection that wasn't used for longer isn't used any more: API servers end them after 90 s."""
NEXT_S = 1.0
"""Time after which a host's next address is tried, too."""
_CLOSING_S = 1.0
_ONLY_STRICT = range(80, 94)
"""OpenSSL's codes of faults in a certificate's form that only its strict mode finds."""
_RESERVED = "/?#[]@!$&'()*+,;=:%~"
KUBECONFIG_TRUST = (
    "write the certificate of that authority as certificate-authority-data of the cluster in the kubeconfig"
)
"""Clause: how to trust the authority of an API server."""
_PROXY_TRUST = "name the PEM file of that authority in SSL_CERT_FILE"


class RequestNotSent(OSError):
    """The request wasn't sent: no connection could be opened."""


class CertificateRefused(RequestNotSent):
    """The certificate of the server, or of the proxy, was refused. The text is whole sentences."""


class _ProxyRefused(Exception):
    """The certificate of a proxy was refused."""

    def __init__(self, error: ssl.SSLCertVerificationError, proxy: SplitResult) -> None:
        super().__init__()
        self.error, self.proxy = error, proxy


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a server, with its proxy and TLS settings."""

    server: str
    tls: ssl.SSLContext | None = None
    server_name: str | None = None  # name in its certificate, if that isn't the host
    proxy: str | None = None
    connect_s: float = 5.0
    most: int = 512  # connections
    trust: str = KUBECONFIG_TRUST


class ConnectionPool:
    """Connections to one server. Requests beyond the limit of connections wait for one."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        self._url = urlsplit(to.server)
        self._host = self._url.netloc.rpartition("@")[2]
        self._through = urlsplit(to.proxy) if to.proxy else None
        self._slots = asyncio.Semaphore(to.most)
        self._idle: dict[HttpConnection, None] = {}
        self._all: set[HttpConnection] = set()
        self._none = asyncio.Event()  # set when no connection is left
        self._era = 0
        self._before, self._fixed = self._of_every_request()

    def request(self, method: str, path: str, headers: str, body: bytes | None) -> bytes:
        """Return the bytes of a request; `headers` are whole lines."""
        if not (path.isascii() and path.isprintable()) or " " in path:
            path = quote(path, safe=_RESERVED)
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        head = f"{method} {self._before}{path} HTTP/1.1\r\n{self._fixed}{headers}{length}\r\n"
        return head.encode("latin-1") + (body or b"")

    async def ask(self, request: bytes, *, again: bool = False) -> HttpResponse:
        """Return the answer to a request.

        `again`: it may be sent twice, for a connection may end before the server has read from it.

        Raises:
            RequestNotSent: the server can't be reached.
            ConnectionLost: the connection ended before the answer did.
            NotHttp: something else came.
        """
        async with self._slots:
            while True:
                era, line = self._era, self._idle_connection()
                was_kept = line is not None
                if line is None:
                    line = await self._new()
                try:
                    answer = await line.ask(request)
                except ConnectionLost:
                    if again and was_kept and not line.heard:
                        continue
                    raise
                except BaseException:
                    line.end()
                    raise
                if line.is_reusable and era == self._era:
                    self._idle[line] = None
                else:
                    line.end()
                return answer

    @asynccontextmanager
    async def stream(
        self, request: bytes, within_s: float, gather_s: float
    ) -> AsyncIterator[tuple[HttpResponse, AsyncGenerator[bytes, None]]]:
        """Yield the head of an answer and its body as it comes; TimeoutError after `within_s` of silence.

        `gather_s`: time for which events gather before they are read.
        """
        async with self._slots:
            line = await self._new()
            try:
                async with asyncio.timeout(within_s):
                    head = await line.begin(request)
                async with aclosing(line.pieces(within_s, gather_s)) as pieces:
                    yield head, pieces
            finally:
                line.end()

    async def upgrade(
        self, request: bytes
    ) -> tuple[HttpResponse, tuple[asyncio.StreamReader, asyncio.StreamWriter] | None]:
        """Return the answer to a request for another protocol, and its streams if the server accepts.

        The streams belong to the caller, as do their limits in number. It raises what `ask` does.
        """
        line = await self._new()
        try:
            answer = await line.ask(request, upgrades=True)
            if answer.status == 101:
                return answer, line.handed_over()
        except BaseException:
            line.end()
            raise
        line.end()
        return answer, None

    def renew(self) -> None:
        """Use no existing connection for further requests, because they have other credentials."""
        self._era += 1
        idle, self._idle = self._idle, {}
        for line in idle:
            line.end()

    async def close(self) -> None:
        """End all of them."""
        for line in list(self._all):
            line.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_S if self._all else 0):
                await self._none.wait()

    def _idle_connection(self) -> HttpConnection | None:
        """Return the connection used last, if it can be used again."""
        while self._idle:
            line, _ = self._idle.popitem()
            if time.monotonic() - line.used_s < IDLE_S:
                return line
            line.end()
        return None

    def _forget(self, line: HttpConnection) -> None:
        self._idle.pop(line, None)
        self._all.discard(line)
        if not self._all:
            self._none.set()

    # Connecting

    async def _new(self) -> HttpConnection:
        try:
            async with asyncio.timeout(self._to.connect_s):
                try:
                    line = await self._reached(self._to.tls)
                except ssl.SSLCertVerificationError as error:
                    if not _relaxed(self._to.tls, error, self._host):
                        raise
                    line = await self._reached(self._to.tls)
        except ssl.SSLCertVerificationError as error:
            await self._refuse(error, None)
        except _ProxyRefused as refused:
            await self._refuse(refused.error, refused.proxy)
        except TimeoutError:
            raise RequestNotSent(f"{self._host} can't be reached within {self._to.connect_s:g} s") from None
        except (OSError, NotHttp) as error:
            reason = str(error) or type(error).__name__
            raise RequestNotSent(f"{self._host} can't be reached: {reason}") from None
        self._all.add(line)
        self._none.clear()
        return line

    async def _refuse(self, error: ssl.SSLCertVerificationError, proxy: SplitResult | None) -> NoReturn:
        """Raise the sentences about a refused certificate, with its issuer if that can be read."""
        certificate, owner, trust = None, f"the API server {self._host}", self._to.trust
        if proxy is not None:
            owner, trust = f"the proxy {proxy.netloc.rpartition('@')[2]}", _PROXY_TRUST
        with suppress(OSError, NotHttp, TimeoutError):
            async with asyncio.timeout(self._to.connect_s):
                if proxy is None:
                    line = await self._reached(unchecked_context())
                else:
                    _, line = await self._joined(proxy, unchecked_context(), proxy.hostname)
                certificate = line.certificate()
                line.end()
        raise CertificateRefused(refused_certificate(error, owner, certificate, trust)) from None

    async def _reached(self, tls: ssl.SSLContext | None) -> HttpConnection:
        return await (self._direct(tls) if self._through is None else self._by_proxy(self._through, tls))

    async def _direct(self, tls: ssl.SSLContext | None) -> HttpConnection:
        name = (self._to.server_name or self._url.hostname) if tls else None
        _, line = await self._joined(self._url, tls, name)
        return line

    async def _by_proxy(self, proxy: SplitResult, tls: ssl.SSLContext | None) -> HttpConnection:
        """Return a connection through a proxy, with a tunnel for TLS."""
        if proxy.scheme not in {"http", "https"}:
            raise NotHttp(f"proxies of {proxy.scheme or 'no scheme'} aren't understood, those of http are")
        loop = asyncio.get_running_loop()
        secure = ssl.create_default_context() if proxy.scheme == "https" else None
        try:
            transport, line = await self._joined(proxy, secure, proxy.hostname if secure else None)
        except ssl.SSLCertVerificationError as error:
            raise _ProxyRefused(error, proxy) from None
        if tls is None:
            return line
        host, port = _address(self._url)
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            request = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{_credentials(proxy)}\r\n"
            response = await line.begin(request.encode("latin-1"))
            if response.status == 200:
                inner = HttpConnection(self._forget)
                name = self._to.server_name or host
                secured = await loop.start_tls(transport, inner, tls, server_hostname=name)
        except BaseException:
            transport.abort()
            raise
        if response.status != 200:
            transport.abort()
            raise NotHttp(f"the proxy answered {response.status}")
        assert secured is not None, "the connection was not closed meanwhile"
        inner.connection_made(secured)
        return inner

    async def _joined(
        self, to: SplitResult, tls: ssl.SSLContext | None, name: str | None
    ) -> tuple[asyncio.Transport, HttpConnection]:
        loop = asyncio.get_running_loop()
        sock = await _connected(*_address(to))
        return await loop.create_connection(
            lambda: HttpConnection(self._forget), sock=sock, ssl=tls, server_hostname=name
        )

    def _of_every_request(self) -> tuple[str, str]:
        """Return the prefix of the path and the header lines of every request."""
        path, lines = self._url.path.rstrip("/"), f"Host: {self._host}\r\n"
        if self._through is not None and self._to.tls is None:
            return f"http://{self._host}{path}", lines + _credentials(self._through)
        return path, lines


def _relaxed(tls: ssl.SSLContext | None, error: ssl.SSLCertVerificationError, host: str) -> bool:
    """Accept certificates that only break the form of RFC 5280.

    Authorities of some clusters leave out parts of that form. Trust, names and dates are checked as before.
    """
    if tls is None or error.verify_code not in _ONLY_STRICT or not tls.verify_flags & ssl.VERIFY_X509_STRICT:
        return False
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    from structlog import get_logger  # it takes longer to import than a request

    get_logger(__name__).info("certificate_form_not_checked", server=host, why=error.verify_message)
    return True


def _address(url: SplitResult) -> tuple[str, int]:
    return url.hostname or "", url.port or (443 if url.scheme == "https" else 80)


def _credentials(proxy: SplitResult) -> str:
    """Return the header line with the credentials for a proxy."""
    if proxy.username is None:
        return ""
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return f"Proxy-Authorization: Basic {b64encode(login.encode()).decode()}\r\n"


async def _connected(host: str, port: int) -> socket.socket:
    """Return a socket to the first address of a host that answers."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for left, (family, kind, protocol, _, address) in zip(
        reversed(range(len(addresses))), addresses, strict=True
    ):
        sock = _socket(family, kind, protocol)
        try:
            async with asyncio.timeout(NEXT_S if left else None):
                await loop.sock_connect(sock, address)
        except (OSError, TimeoutError):
            sock.close()
            if not left:
                raise
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise OSError(f"{host} has no address")


def _socket(family: int, kind: int, protocol: int) -> socket.socket:
    """Return a socket that notices a silent loss of its peer within half a minute."""
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # Linux
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)
    return made
