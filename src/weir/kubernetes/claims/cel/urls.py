"""URLs: `url` and the methods of their parts.

Kubernetes takes the text that a request to a server may name: a path or an absolute URL. `urllib.parse` takes
nearly every text; so the parts are split here, and it only decodes and encodes them.
"""

import re
from urllib.parse import quote_from_bytes, unquote_to_bytes

from weir.kubernetes.claims.cel.addresses import any_ipv6_of
from weir.kubernetes.claims.cel.overloads import Overload, Overloads, succeeds
from weir.kubernetes.claims.cel.values import CelError, Charge, Url

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_PORT = re.compile(r":[0-9]*")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_HOST_REFUSED = re.compile(r"[\x00-\x20\x7f/?#@\\^`{|}]|%(?!25)[0-7]")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
_PATH_PLAIN = "/:@&=+$,;-_.~"
_FRAGMENT_PLAIN = "/:@&=+$,;-_.~!()*?"
_WRITTEN = re.compile(r"[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]%]*", re.ASCII)
"""Characters that stay as written in a path that has no others."""
_PARAMETERS_MAX = 10_000
_PARAMETER_STEPS = 2
"""Steps for each parameter of a query."""


def url_of(text: str) -> Url:
    """Return an absolute URL, or a path from the root.

    Raises:
        CelError: the text is neither, or a part of it is written wrong.
    """
    _expect_request(text)
    before, _, fragment = text.partition("#")
    scheme, rest = _split_scheme(before)
    rest, question, query = rest.partition("?")
    end = f"{question}{query}#{_escaped(fragment, _FRAGMENT_PLAIN)}"
    if text == "*" or (scheme and not rest.startswith("/")):
        return Url(f"{scheme}:{rest}{end}", scheme, "", "*" if text == "*" else "", query)
    user, host, path = _split_authority(scheme, rest, is_request=False)
    canonical = f"{scheme}://{user}@{host}{_escaped(path, _PATH_PLAIN)}{end}"
    return Url(canonical, scheme, host, path, query)


def _expect_request(text: str) -> None:
    """Refuse a text that no request may name; a # is part of its path or query there."""
    if _CONTROL.search(text):
        raise CelError("a URL has no control characters")
    if not text:
        raise CelError("a URL isn't empty")
    scheme, rest = _split_scheme(text)
    rest = rest.partition("?")[0]
    if text == "*" or (scheme and not rest.startswith("/")):
        return
    if not rest.startswith("/"):
        raise CelError(f"{text[:100]!r} is no absolute URL")
    _split_authority(scheme, rest, is_request=True)


def _split_scheme(text: str) -> tuple[str, str]:
    if text.startswith(":"):
        raise CelError("a URL starts with a scheme")
    match = _SCHEME.match(text)
    return ("", text) if match is None else (match[1].lower(), text[match.end() :])


def _split_authority(scheme: str, rest: str, *, is_request: bool) -> tuple[str, str, str]:
    """Return the user, the host with its port, and the path as it was written."""
    has_authority = scheme or (not is_request and not rest.startswith("///"))
    if not (has_authority and rest.startswith("//")):
        _decoded(rest)
        return "", "", rest
    authority, slash, path = rest[2:].partition("/")
    user, _, host = authority.rpartition("@")
    if _USER.fullmatch(user) is None:
        raise CelError("the user of a URL has characters that need an escape")
    host, path = _host(scheme, host), slash + path
    _decoded(user)
    _decoded(path)
    return user, host, path


def _host(scheme: str, written: str) -> str:
    """Return a host with its port, with escapes replaced."""
    bracket = written.rfind("[")
    if bracket > 0:
        raise CelError("a bracket is at the start of a host")
    if bracket == 0:
        return _bracketed(written)
    first, last = written.find(":"), written.rfind(":")
    if first >= 0:
        _expect_port(written[first if scheme in ("http", "https") else last :])
    return _decoded_host(written)


def _bracketed(written: str) -> str:
    end = written.rfind("]")
    if end < 0:
        raise CelError("a host has no closing bracket")
    _expect_port(written[end + 1 :])
    host, separator, zone = written[1:end].partition("%25")
    decoded = _decoded_host(host)
    any_ipv6_of(decoded)
    if separator:
        decoded = f"{decoded}%{_decoded_zone(zone)}"
    return f"[{decoded}]{written[end + 1 :]}"


def _decoded_zone(written: str) -> str:
    escaped = [chr(int(code, 16)) for code in _ESCAPE.findall(written)]
    is_plain = all(char in " %" or (char.isascii() and not _HOST_REFUSED.search(char)) for char in escaped)
    if not written or not is_plain or _HOST_REFUSED.search(_ESCAPE.sub("", written)):
        raise CelError("the zone of a host has characters that it can't have")
    return _decoded(written)


def _expect_port(written: str) -> None:
    if written and _PORT.fullmatch(written) is None:
        raise CelError(f"{written[:100]!r} is no port")


def _decoded_host(written: str) -> str:
    if _HOST_REFUSED.search(written):
        raise CelError("a host has characters that it can't have")
    return _decoded(written)


def _decoded(written: str) -> str:
    """Return a text with its escapes replaced.

    Raises:
        CelError: an escape has no two hexadecimal digits.
    """
    return _bytes(written).decode(errors="replace")


def _bytes(written: str) -> bytes:
    if _BAD_ESCAPE.search(written):
        raise CelError("an escape of a URL has two hexadecimal digits")
    try:
        return unquote_to_bytes(written)
    except UnicodeEncodeError:
        raise CelError("the text is no UTF-8") from None


def _escaped(written: str, plain: str) -> str:
    """Return a part with the escapes that it needs; the plain characters need none."""
    encoded = _bytes(written)
    return written if _WRITTEN.fullmatch(written) else quote_from_bytes(encoded, safe=plain)


def _escaped_path(url: Url) -> str:
    return _escaped(url.path, _PATH_PLAIN)


def _hostname(url: Url) -> str:
    colon = url.host.rfind(":")
    host = url.host[:colon] if colon >= 0 and _PORT.fullmatch(url.host, colon) else url.host
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _port(url: Url) -> str:
    colon = url.host.rfind(":")
    return url.host[colon + 1 :] if colon >= 0 and _PORT.fullmatch(url.host, colon) else ""


def _query(url: Url, charge: Charge) -> dict[str, list[str]]:
    """Return the parameters of a query; those that are written wrong are left out."""
    written = url.query.split("&")
    charge(len(written) * _PARAMETER_STEPS + len(url.query) // 10)
    parameters: dict[str, list[str]] = {}
    for parameter in written if len(written) <= _PARAMETERS_MAX else ():
        if parameter and ";" not in parameter and _BAD_ESCAPE.search(parameter) is None:
            name, _, value = parameter.replace("+", " ").partition("=")
            parameters.setdefault(_decoded(name), []).append(_decoded(value))
    return parameters


is_url = succeeds(_expect_request)
"""Returns True for an absolute URL or a path from the root, as a request may name it."""
FUNCTIONS: Overloads = {
    "url": (Overload((str,), url_of),),
    "isURL": (Overload((str,), is_url),),
}
METHODS: Overloads = {
    "getScheme": (Overload((Url,), lambda url: url.scheme),),
    "getHost": (Overload((Url,), lambda url: url.host),),
    "getHostname": (Overload((Url,), _hostname),),
    "getPort": (Overload((Url,), _port),),
    "getEscapedPath": (Overload((Url,), _escaped_path),),
    "getQuery": (Overload((Url,), _query, charges=True),),
}
