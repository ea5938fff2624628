"""HTTPS listener for other machines, which reloads a replaced certificate.

A connection is counted from its first moment. Until its handshake is done it may be closed to make way for a
new one. So half-open connections, however many, don't use up the files of the server.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from weakref import WeakKeyDictionary

from structlog import get_logger

from weir.dashboard.certificate_facts import facts_of
from weir.dashboard.trusted_proxies import TrustedProxies

HANDSHAKE_S_MAX = 5.0
HANDSHAKES_MAX = 128
CERTIFICATE_LOOK_S = 2.0
"""Interval of checks for a replaced certificate."""
_ALPN = "http/1.1"
_EARLY_BYTES_MAX = 64 << 10
_LOG = get_logger(__name__)


class CertificateUnusable(Exception):
    """Certificate and key can't be served; the text says why."""


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """The address for other machines.

    Attributes:
        host: the address to listen on.
        port: the port; 0 takes any that is free.
        certificate: PEM file with the certificate, and those between it and its authority.
        key: PEM file with its key, without a password.
        public_url: the address that people use, such as https://gpu1.example.org:8443.
        is_mounted: the files are a Secret's, in a container of its own; their mode says nothing.
        sessions_domain: domain whose names are those of sessions in a browser; None if they aren't served.
        proxies: proxies whose X-Forwarded-For counts, for the limit of sign-ins.
    """

    host: str
    port: int
    certificate: Path
    key: Path
    public_url: str
    is_mounted: bool = False
    sessions_domain: str | None = None
    proxies: TrustedProxies = TrustedProxies()


def tls_context(settings: ListenSettings) -> ssl.SSLContext:
    """Return the context of new connections.

    Raises:
        CertificateUnusable: the files can't be read, don't belong together, or everyone can read the key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols([_ALPN])
    try:
        if not settings.is_mounted and settings.key.stat().st_mode & 0o007:
            raise CertificateUnusable(
                f"--tls-key: {settings.key} is open to everyone: run chmod 640 {settings.key}"
            )
        context.load_cert_chain(settings.certificate, settings.key, password=_no_password)
    except ssl.SSLError as error:
        reason = (error.reason or "it isn't PEM").lower().replace("_", " ")
        raise CertificateUnusable(
            f"--tls-certificate: {settings.certificate} and {settings.key} can't be used: {reason}"
        ) from None
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise CertificateUnusable(
            f"--tls-certificate: {settings.certificate} or {settings.key} can't be read: {reason}"
        ) from None
    return context


def check_names(settings: ListenSettings, context: ssl.SSLContext) -> None:
    """Refuse a certificate that doesn't cover the host names of sessions.

    Raises:
        CertificateUnusable: the certificate lacks these names, or can't be read.
    """
    domain = settings.sessions_domain
    if domain is None:
        return
    try:
        facts = facts_of(context, settings.certificate)
    except OSError as error:  # the file was replaced meanwhile
        raise CertificateUnusable(f"--tls-certificate: {settings.certificate}: {error}") from None
    if not facts.covers_names_below(domain):
        raise CertificateUnusable(
            f"--sessions-domain: {settings.certificate} isn't a certificate for *.{domain}: get one for "
            "this name, too"
        )


def _no_password() -> str:
    """Refuse a key with a password: OpenSSL would ask for it on the terminal."""
    raise ValueError("the key has a password; write one without")


class ReloadedCertificate:
    """Certificate of files. If new files are invalid, the last valid certificate stays in use."""

    def __init__(self, settings: ListenSettings) -> None:
        self._settings = settings
        self._seen = self._signature()
        self.ends_s: float | None = None  # expiry of the served certificate; None: unknown
        self._names: WeakKeyDictionary[ssl.SSLObject, str] = WeakKeyDictionary()
        self.context = self._new_context()
        self.trouble: str | None = None

    async def watch(self) -> None:
        """Reload changed files until cancelled."""
        while True:
            await asyncio.sleep(CERTIFICATE_LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Reload the files if they have changed."""
        signature = await asyncio.to_thread(self._signature)
        if signature == self._seen and self.trouble is None:
            return
        self._seen = signature
        try:
            self.context = await asyncio.to_thread(self._new_context)
        except CertificateUnusable as error:
            if self.trouble is None:
                _LOG.error("certificate_unusable", why=str(error), served="the one before")
            self.trouble = f"{error}. The server goes on with the certificate before."
            return
        self.trouble = None
        _LOG.info("certificate_replaced", file=str(self._settings.certificate))

    def name_of(self, connection: ssl.SSLObject) -> str:
        """Return the host name that a client requested; empty without one."""
        return self._names.get(connection, "")

    def _new_context(self) -> ssl.SSLContext:
        """Return a TLS context of the files, which records the host name of each handshake.

        Raises:
            CertificateUnusable: they can't be served.
        """
        context = tls_context(self._settings)
        check_names(self._settings, context)
        with suppress(OSError):  # the file is being replaced
            self.ends_s = facts_of(context, self._settings.certificate).ends_s

        def note(connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
            self._names[connection] = (name or "").lower()

        context.sni_callback = note
        return context

    def _signature(self) -> tuple[object, ...]:
        signature: list[object] = []
        for path in (self._settings.certificate, self._settings.key):
            try:
                status = path.stat()
            except OSError as error:
                signature.append(error.errno)
            else:
                signature.append((status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode))
        return tuple(signature)


class _Handshakes:
    """Connections with an unfinished handshake."""

    def __init__(self, certificate: ReloadedCertificate, make: Callable[[str], asyncio.Protocol]) -> None:
        self.certificate = certificate
        self.make = make
        self.pending: dict[_TlsGate, None] = {}  # oldest first
        self.tasks: set[asyncio.Task[None]] = set()


class _TlsGate(asyncio.Protocol):
    """A new connection: it becomes one of HTTP when its handshake is done."""

    def __init__(self, handshakes: _Handshakes) -> None:
        self._handshakes = handshakes
        self._transport: asyncio.Transport | None = None
        self._early = bytearray()
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake; if too many are unfinished, close the oldest."""
        handshakes = self._handshakes
        self._transport = cast("asyncio.Transport", transport)
        if len(handshakes.pending) >= HANDSHAKES_MAX:
            oldest = next(iter(handshakes.pending))
            del handshakes.pending[oldest]
            if oldest._transport is not None:  # noqa: SLF001 - of the same class
                oldest._transport.abort()  # noqa: SLF001
        handshakes.pending[self] = None
        task = asyncio.get_running_loop().create_task(self._shake_hands(self._transport))
        handshakes.tasks.add(task)
        task.add_done_callback(handshakes.tasks.discard)

    def data_received(self, data: bytes) -> None:
        """Keep bytes between the end of the handshake and the first line of HTTP's own protocol."""
        self._early += data
        if len(self._early) > _EARLY_BYTES_MAX and self._transport is not None:
            self._transport.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Take the connection out of the pending handshakes."""
        self._is_lost = True
        self._handshakes.pending.pop(self, None)

    async def _shake_hands(self, plain: asyncio.Transport) -> None:
        handshakes = self._handshakes
        try:
            transport = await asyncio.get_running_loop().start_tls(
                plain,
                self,
                handshakes.certificate.context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_S_MAX,
                ssl_shutdown_timeout=HANDSHAKE_S_MAX,
            )
        except (OSError, EOFError):  # refused, too slow, or gone; ssl.SSLError is an OSError
            plain.abort()
            return
        finally:
            handshakes.pending.pop(self, None)
        if transport is None or self._is_lost or plain.is_closing():
            plain.abort()
            return
        name = handshakes.certificate.name_of(transport.get_extra_info("ssl_object"))
        protocol = handshakes.make(name)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._early:
            protocol.data_received(bytes(self._early))


class TlsListener:
    """The listener for other machines."""

    def __init__(self, settings: ListenSettings, listening: socket.socket) -> None:
        self.settings = settings
        self.certificate = ReloadedCertificate(settings)
        self._socket = listening

    async def open(self, make: Callable[[str], asyncio.Protocol], backlog: int) -> asyncio.Server:
        """Begin to accept connections, each of which gets a protocol for its host name."""
        loop = asyncio.get_running_loop()
        handshakes = _Handshakes(self.certificate, make)
        self._watching = loop.create_task(self.certificate.watch())
        return await loop.create_server(lambda: _TlsGate(handshakes), sock=self._socket, backlog=backlog)

    def close(self) -> None:
        """Stop looking at the certificate."""
        self._watching.cancel()
