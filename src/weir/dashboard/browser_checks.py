"""Checks of a browser's requests, which keep other sites out. Each returns the refusal, or None."""

from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from weir.api.loopback import is_loopback

COOKIE = "weir_session"
SECURE_COOKIE = "__Host-weir_session"
"""Name of the cookie over HTTPS. Browsers take it from this very host alone, and send it over HTTPS alone."""
PROOF = "x-weir-proof"
"""Header with the proof of a session."""
_READS = frozenset({"GET", "HEAD"})
_ON_LOOPBACK = (
    "The dashboard answers to localhost and 127.0.0.1 alone: open it by one of these, "
    "through a tunnel (ssh -L) from another machine."
)


def cookie_in(header: str, name: str) -> str:
    """Return a cookie of a Cookie header, or an empty text."""
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value


def loopback_refusal(host: str) -> str | None:
    """Return why a Host header is refused: a name that an attacker points to this machine.

    The answer is None if it is accepted.
    """
    return None if is_this_machine(host) else _ON_LOOPBACK


def public_refusal(host: str, public: str) -> str | None:
    """Return why a Host header is refused that isn't the public address of the page.

    The answer is None if it is accepted.
    """
    if host.lower().removesuffix(":443") == public:
        return None
    return f"The dashboard answers to https://{public} alone: open it by that name."


def origin_refusal(method: str, host: str, origin: str, fetch_site: str) -> str | None:
    """Return why a request is refused that comes from another site; None if it is accepted."""
    if method not in _READS and fetch_site not in ("", "same-origin"):
        return "This change comes from another site."
    try:
        is_own = not origin or urlsplit(origin).netloc == host
    except ValueError:
        is_own = False
    return None if is_own else "This request comes from another site."


def is_this_machine(host: str) -> bool:
    """Return True if a Host header names the loopback of this machine, on any port."""
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
