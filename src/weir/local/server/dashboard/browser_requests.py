"""Requests of a browser: the session they carry, and the checks that keep other sites out."""

from starlette.types import Scope

from weir.dashboard.browser_checks import (
    COOKIE,
    PROOF,
    SECURE_COOKIE,
    cookie_in,
    loopback_refusal,
    origin_refusal,
    public_refusal,
)
from weir.local.server.dashboard.sessions import DashboardSessions
from weir.local.server.http.problem_details import RequestRefused


def header(scope: Scope, name: bytes) -> str:
    """Return a header of a request, or an empty text."""
    value = next((value for key, value in scope["headers"] if key == name), b"")
    return str(value.decode("latin-1"))


def cookie_name(scope: Scope) -> str:
    """Return the name of the session cookie of a connection.

    Without HTTPS the name contains the port that the browser uses: cookies belong to a host, and another pool
    may use another port.
    """
    if scope.get("scheme") == "https":
        return SECURE_COOKIE
    port = header(scope, b"host").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdigit() else COOKIE


def session_cookie(scope: Scope) -> str:
    """Return the session cookie of a request, or an empty text."""
    return cookie_in(header(scope, b"cookie"), cookie_name(scope))


def credential_of(scope: Scope, sessions: DashboardSessions) -> str:
    """Return the credential of a browser's request, from its session.

    Raises:
        RequestRefused: the request came from another site, or its session is unknown.
    """
    check_origin(scope)
    return sessions.credential_of(session_cookie(scope), header(scope, PROOF.encode()))


def check_origin(scope: Scope) -> None:
    """Check that a request names this pool as its host, and comes from this pool's own page.

    Raises:
        RequestRefused: the host or the origin differs.
    """
    check_host(scope)
    host, origin, fetch_site = (header(scope, name) for name in (b"host", b"origin", b"sec-fetch-site"))
    refusal = origin_refusal(scope["method"], host, origin, fetch_site)
    if refusal is not None:
        raise RequestRefused(403, refusal)


def check_host(scope: Scope) -> None:
    """Refuse a request for a host that isn't this pool: a name that an attacker points here.

    Raises:
        RequestRefused: the host isn't this pool.
    """
    host = header(scope, b"host")
    if scope.get("scheme") == "https":
        refusal = public_refusal(host, scope["app"].state.public_host)
    else:
        refusal = loopback_refusal(host)
    if refusal is not None:
        raise RequestRefused(403, refusal)
