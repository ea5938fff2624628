"""Port of sessions in a browser, next to that of the pool."""

import socket

from structlog import get_logger

from weir.dashboard.tls_listener import ListenSettings
from weir.dashboard.web_sessions.own_address import LOOPBACK
from weir.local.server.access.account_mode import AccountMode
from weir.local.server.access.auth import Authenticator
from weir.local.server.http.listening import PortUnavailable, listen
from weir.local.server.pool import PoolService
from weir.local.server.web_sessions.addresses import SessionAddresses
from weir.local.server.web_sessions.gate import SessionGate
from weir.local.server.web_sessions.proxy import SessionProxy
from weir.local.server.web_sessions.session_hosts import SessionHosts
from weir.local.server.web_sessions.views import SessionViews

_PORT_MAX = 65535
_LOG = get_logger(__name__)


def listen_for_sessions(wanted: int | None, main_port: int) -> socket.socket | None:
    """Return a socket that listens on a port of loopback; None if it isn't available.

    By default it is the port after that of the pool, or any free port if the pool's port is 0. Without this
    port the pool works, and its links to sessions explain what is missing.
    """
    port = (main_port and main_port + 1) if wanted is None else wanted
    try:
        return listen(LOOPBACK, port if port <= _PORT_MAX else 0, "--sessions-port")
    except PortUnavailable as error:
        _LOG.warning("no_port_for_sessions", why=str(error))
        return None


def session_proxy(
    pool: PoolService,
    authenticator: Authenticator,
    listening: socket.socket,
    listen: ListenSettings | None,
) -> SessionProxy:
    """Return the proxy of sessions on a socket, and at the listener for other machines."""
    gate = SessionGate(pool, authenticator, SessionViews(pool.home, pool.clock))
    is_personal = pool.accounts.mode is AccountMode.PERSONAL
    domain = None if listen is None else listen.sessions_domain
    hosts = None if listen is None or domain is None else SessionHosts(domain, listen.public_url)
    return SessionProxy(SessionAddresses(listening, is_personal=is_personal), gate, hosts)
