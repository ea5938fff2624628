"""Headers that pass between a browser and the program of a session. Pure functions."""

from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]
_HOPS = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"}
    | {b"te", b"trailer", b"upgrade", b"expect"}
)
_NOT_SENT = _HOPS | {b"authorization", b"x-weir-proof", b"forwarded"}
_NOT_ANSWERED = _HOPS | {
    *(b"clear-site-data", b"strict-transport-security", b"alt-svc", b"service-worker-allowed"),
    *(b"referrer-policy", b"cross-origin-opener-policy", b"cross-origin-resource-policy", b"x-frame-options"),
    b"origin-agent-cluster",
}
"""Removed response headers: those for the whole host or origin, and those that the proxy sets."""
_OWN_COOKIES = (b"weir_", b"__host-weir_")
_ADDED = [
    (b"Content-Security-Policy", b"frame-ancestors 'self'"),
    (b"X-Frame-Options", b"SAMEORIGIN"),
    (b"Referrer-Policy", b"same-origin"),
    (b"Cross-Origin-Opener-Policy", b"same-origin"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
    (b"Origin-Agent-Cluster", b"?1"),
]


def to_program(headers: Iterable[tuple[bytes, bytes]], upgrade: bytes = b"") -> Headers:
    """Return the headers for the program, without anything that signs a person in to Weir."""
    passed: Headers = []
    for name, value in headers:
        lower = name.lower()
        if lower in _NOT_SENT or lower.startswith(b"x-forwarded-"):
            continue
        if lower == b"cookie":
            kept = [cookie for cookie in value.split(b";") if not _is_own(cookie)]
            if not kept:
                continue
            passed.append((name, b";".join(kept).strip()))
            continue
        passed.append((name, value))
    return [*passed, (b"Connection", b"Upgrade"), (b"Upgrade", upgrade)] if upgrade else passed


def to_browser(headers: Iterable[tuple[bytes, bytes]], path: bytes) -> Headers:
    """Return the headers of an answer for the browser; they act below the path of the session alone."""
    passed: Headers = []
    for name, value in headers:
        lower = name.lower()
        if lower == b"service-worker-allowed":
            passed.append((name, path))
        elif lower == b"set-cookie":
            if not _is_own(value):
                passed.append((name, _below(value, path)))
        elif lower not in _NOT_ANSWERED and not lower.startswith(b"access-control-"):
            passed.append((name, value))
    return [*passed, *_ADDED]


def _is_own(cookie: bytes) -> bool:
    return cookie.strip().lower().startswith(_OWN_COOKIES)


def _below(cookie: bytes, path: bytes) -> bytes:
    """Return a Set-Cookie header, limited to the path of the session."""
    first, *attributes = (part.strip() for part in cookie.split(b";"))
    kept, own_path = [first], path
    for attribute in attributes:
        name, _, value = attribute.partition(b"=")
        if name.strip().lower() == b"path":
            own_path = value.strip() if value.strip().startswith(path) else path
        elif name.strip().lower() != b"domain":
            kept.append(attribute)
    return b"; ".join([*kept, b"Path=" + own_path])
