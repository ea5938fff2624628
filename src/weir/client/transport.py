"""Connections of both clients: settings, checks, errors and time limits."""

import socket
import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from os import environ
from pathlib import Path
from time import monotonic
from typing import Any

import httpx

from weir.certificate_failures import verification_error
from weir.client.address import (
    MACHINE,
    SERVER_FILE,
    TOKEN,
    URL,
    Address,
    ask_to_start,
    is_beside_installed,
    open_socket_path,
)
from weir.client.errors import Unreachable
from weir.client.listener import check as check_listener
from weir.client.logins import login_of
from weir.client.refused_certificates import certificate_sentences
from weir.client.ssh_tunnel import hold
from weir.version import __version__

ENDED = ("succeeded", "failed", "stopped")
LOOK_S_MIN, LOOK_S_MAX = 0.05, 1.0
"""Intervals between requests of `wait`, at first and later."""
CONNECT_S = 5.0
_SILENT_S = 30.0
"""Idle time after which a connection through ssh is checked before a request."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL")
"""Names that versions of OpenSSL give to bytes that aren't TLS."""
RETRY_AFTER_S_MAX = 10.0
"""Longest pause before a request is repeated that a busy pool refused."""


def settings(address: Address, timeout_s: float) -> dict[str, Any]:
    """Return the settings of httpx. Requests to this machine use no proxy."""
    headers = {"User-Agent": f"weir/{__version__}", "Accept": "application/json, text/plain;q=0.9, */*;q=0.5"}
    if address.token:
        headers["Authorization"] = f"Bearer {address.token}"
    is_plain = address.url.startswith("http:")
    verify: ssl.SSLContext | bool = True
    if address.is_cluster or (is_plain and (address.is_loopback or address.home)):
        verify = _no_authorities()
    elif environ.get("SSL_CERT_FILE"):  # httpx reads this variable only when proxies are allowed
        verify = ssl.create_default_context(cafile=environ["SSL_CERT_FILE"])
    return {
        "base_url": f"{'http://cluster' if address.is_cluster else address.url}/api/v1",
        "headers": headers,
        "timeout": httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
        "trust_env": not (address.is_loopback or address.home),
        "verify": verify,
        "auth": _login_auth(address),
        "follow_redirects": False,  # a redirect would send the token elsewhere
    }


def _login_auth(address: Address) -> httpx.Auth | None:
    """Return the OpenID Connect login at a pool; None without one, or if a token is given."""
    if address.token or address.home or not address.url.startswith("https:"):
        return None
    if login_of(address.url) is None:
        return None
    from weir.client.device_login import LoginAuth

    return LoginAuth(address.url)


def _no_authorities() -> ssl.SSLContext:
    """Return a TLS context that trusts no certificate, for plain HTTP and clusters with their own client.

    The default context reads the list of authorities, which takes longer than a request to this machine.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def unreachable(address: Address, error: httpx.TransportError) -> Unreachable:
    """Return the error of a failed connection."""
    if isinstance(error, httpx.ConnectTimeout | httpx.ReadTimeout | httpx.PoolTimeout | httpx.WriteTimeout):
        return Unreachable(
            f"The pool at {address.url} doesn't answer in time: try again, or look at its log."
        )
    is_broken = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError)
    if is_broken and address.ssh is None:
        return Unreachable(f"The connection to the pool at {address.url} broke: try again.")
    if address.home is not None:
        return Unreachable(_silent_socket(address))
    return Unreachable(_failed_connection(address, error))


def _failed_connection(address: Address, error: httpx.TransportError) -> str:
    """Return the sentence about an address of HTTP to which no connection could be opened."""
    if _has_no_tls(error):
        plain = address.url.replace("https:", "http:", 1)
        others = "" if address.is_loopback else ", or ask its administrator for the address with TLS"
        return f"The server at {address.url} answers without TLS: set {URL}={plain}{others}."
    refused = verification_error(error)
    if refused is not None:
        return certificate_sentences(refused, address.url)
    if address.is_loopback:
        return (
            f"The pool at {address.url} can't be reached: ask its administrator to start it with `weir up`, "
            f"or check {URL}."
        )
    return f"The pool at {address.url} can't be reached: check {URL} and {TOKEN}."


def _has_no_tls(error: BaseException) -> bool:
    """Return True if a connection failed because the server answered the greeting of TLS without TLS."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return cause.reason in _NO_TLS
        cause = cause.__cause__ or cause.__context__
    return False


def _silent_socket(address: Address) -> str:
    """Return the sentence about a socket where no pool answers."""
    if address.ssh is not None:
        return (
            f"No pool answers at {address.ssh.path} of {address.ssh.destination}: ask its administrator to "
            f"start it, or name its socket in {URL}."
        )
    if address.home == MACHINE:
        return f"The pool of this machine doesn't answer at {MACHINE}: {ask_to_start()}"
    own = f"The pool in {address.home} doesn't run any more: start it again with `weir up`; its jobs run on."
    if not is_beside_installed():
        return own
    return f"{own} To use the pool that is installed here, delete {address.home}/{SERVER_FILE}."


def server_error(address: Address) -> Unreachable:
    """Return the error of a server that fails for now."""
    return Unreachable(f"The pool at {address.url} has an internal error: try again later.")


def retry_s(answer: httpx.Response) -> float | None:
    """Return the pause after which a refused request may be sent again; None if it shouldn't."""
    pause = answer.headers.get("Retry-After", "")
    if answer.status_code not in (429, 503) or not (pause.isascii() and pause.isdigit()):
        return None
    return min(RETRY_AFTER_S_MAX, float(pause[:6]))


class _ListenerCheck:
    """Check of the listener when a connection is made, before the first request."""

    def __init__(self, address: Address, host: str) -> None:
        self._address = address
        self._host = host
        self._is_direct = False

    def __call__(self, event: str, details: Mapping[str, Any]) -> None:
        """Check a connection that was just made."""
        if event.endswith("connect_unix_socket.started"):
            _try_socket(details["path"], details["timeout"])
        stream = self._made(event, details)
        if stream is not None:
            try:
                self._check(stream)
            except Unreachable:
                stream.close()
                raise

    async def later(self, event: str, details: Mapping[str, Any]) -> None:
        """Check a new connection of an asynchronous client."""
        stream = self._made(event, details)
        if stream is not None:
            try:
                self._check(stream)
            except Unreachable:
                await stream.aclose()
                raise

    def _made(self, event: str, details: Mapping[str, Any]) -> Any:
        """Return the stream of a new connection to the pool itself, rather than to a proxy."""
        if event.endswith("connect_tcp.started"):
            self._is_direct = details["host"] == self._host
        elif event.endswith("connect_unix_socket.complete") or (
            event.endswith("connect_tcp.complete") and self._is_direct
        ):
            return details["return_value"]
        return None

    def _check(self, stream: Any) -> None:
        address = self._address
        assert address.uids is not None
        called = address.url if address.home is None else str(address.home)
        check_listener(stream.get_extra_info("socket"), address.uids, called)


def _try_socket(path: str, timeout_s: float | None) -> None:
    """Connect once as a test, because httpcore leaks the socket of a refused connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trying:
        trying.settimeout(timeout_s)
        try:
            trying.connect(path)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from None
        except OSError as error:
            raise httpx.ConnectError(str(error)) from None


def _is_checked(address: Address) -> bool:
    return address.uids is not None and address.url.startswith("http:")


class SocketTransport(httpx.HTTPTransport):
    """HTTP over the socket in a pool's home."""

    def __init__(self, path: Path) -> None:
        self._opened = ExitStack()
        super().__init__(verify=_no_authorities(), uds=self._opened.enter_context(open_socket_path(path)))

    def close(self) -> None:
        """Close all connections."""
        super().close()
        self._opened.close()


class AsyncSocketTransport(httpx.AsyncHTTPTransport):
    """Asynchronous HTTP over the socket in a pool's home."""

    def __init__(self, path: Path) -> None:
        self._opened = ExitStack()
        super().__init__(verify=_no_authorities(), uds=self._opened.enter_context(open_socket_path(path)))

    async def aclose(self) -> None:
        """Close all connections."""
        await super().aclose()
        self._opened.close()


def _held(address: Address) -> Path:
    """Return the directory of the socket; connect through ssh if the pool is on another machine."""
    assert address.home is not None
    return address.home if address.ssh is None else hold(address.ssh)


class _HeldConnection:
    """Connection through ssh, re-established before a request if it ended during a long pause."""

    def __init__(self, address: Address) -> None:
        self._ssh = address.ssh
        self._used_s = monotonic()

    def hold(self) -> None:
        """Re-establish the connection if it has ended.

        Raises:
            Unreachable: ssh can't connect.
        """
        now_s, last_s = monotonic(), self._used_s
        self._used_s = now_s
        if self._ssh is not None and now_s - last_s > _SILENT_S:
            hold(self._ssh)


def client(address: Address, timeout_s: float, transport: httpx.BaseTransport | None) -> httpx.Client:
    """Return an HTTP client that sends requests only to the pool's own listener."""
    if transport is None and address.home is not None:
        transport = SocketTransport(_held(address))

    held = _HeldConnection(address)

    def check(request: httpx.Request) -> None:
        held.hold()
        request.extensions = {**request.extensions, "trace": _ListenerCheck(address, request.url.host)}

    hooks = {"request": [check] if _is_checked(address) else []}
    return httpx.Client(**settings(address, timeout_s), transport=transport, event_hooks=hooks)


def async_client(
    address: Address, timeout_s: float, transport: httpx.AsyncBaseTransport | None
) -> httpx.AsyncClient:
    """Return an asynchronous HTTP client that sends requests only to the pool's own listener."""
    if transport is None and address.home is not None:
        transport = AsyncSocketTransport(_held(address))

    held = _HeldConnection(address)

    async def check(request: httpx.Request) -> None:
        import asyncio

        await asyncio.to_thread(held.hold)
        checking = _ListenerCheck(address, request.url.host)
        request.extensions = {**request.extensions, "trace": checking.later}

    hooks = {"request": [check] if _is_checked(address) else []}
    return httpx.AsyncClient(**settings(address, timeout_s), transport=transport, event_hooks=hooks)
