"""Requests of a browser: the session they carry, and the checks that keep other sites out."""

import ipaddress
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.types import Scope

from weir.local.server.dashboard.sessions import DashboardSessions
from weir.local.server.problem_details import RequestRefused

COOKIE = "weir_session"
SECURE_COOKIE = "__Host-weir_session"
"""Name of the cookie over HTTPS. Browsers take it from this very host alone, and send it over HTTPS alone."""
PROOF_HEADER = b"x-weir-proof"
_READS = frozenset({"GET", "HEAD"})


def header(scope: Scope, name: bytes) -> str:
    """Return a header of a request, or an empty text."""
    value = next((value for key, value in scope["headers"] if key == name), b"")
    return str(value.decode("latin-1"))


def cookie_name(scope: Scope) -> str:
    """Return the name of the session cookie of a connection."""
    return SECURE_COOKIE if scope.get("scheme") == "https" else COOKIE


def session_cookie(scope: Scope) -> str:
    """Return the session cookie of a request, or an empty text."""
    try:
        morsel = SimpleCookie(header(scope, b"cookie")).get(cookie_name(scope))
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value


def credential_of(scope: Scope, sessions: DashboardSessions) -> str:
    """Return the credential that a browser's request stands for.

    Raises:
        RequestRefused: it came from another site, or its session is unknown.
    """
    check_origin(scope)
    return sessions.credential_of(session_cookie(scope), header(scope, PROOF_HEADER))


def check_origin(scope: Scope) -> None:
    """Refuse a request that names another host than this pool, or comes from another site.

    Raises:
        RequestRefused: it does.
    """
    check_host(scope)
    origin = header(scope, b"origin")
    if scope["method"] not in _READS and header(scope, b"sec-fetch-site") not in ("", "same-origin"):
        raise RequestRefused(403, "This change comes from another site.")
    if origin and urlsplit(origin).netloc != header(scope, b"host"):
        raise RequestRefused(403, "This request comes from another site.")


def check_host(scope: Scope) -> None:
    """Refuse a request for a host that isn't this pool: a name that an attacker points here.

    Raises:
        RequestRefused: it is.
    """
    host = header(scope, b"host")
    if scope.get("scheme") == "https":
        public = scope["app"].state.public_host
        if host.lower() != public:
            raise RequestRefused(
                403, f"The dashboard answers to https://{public} alone: open it by that name."
            )
    elif not is_this_machine(host):
        raise RequestRefused(
            403,
            "The dashboard answers to localhost and 127.0.0.1 alone: open it by one of these, "
            "through a tunnel (ssh -L) from another machine.",
        )


def is_this_machine(host: str) -> bool:
    """Return True if a Host header names the loopback of this machine, on any port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
