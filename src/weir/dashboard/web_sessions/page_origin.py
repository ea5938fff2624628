"""Origins of pages that may send a request. Pure functions."""

from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

_OTHER_SITE = "This request comes from another site."
_OWN_PAGES = frozenset({"", "same-origin", "none"})


@dataclass(frozen=True, slots=True)
class BrowserRequest:
    """Headers of a request that identify the sending page."""

    method: str
    host: str
    origin: str = ""
    fetch_site: str = ""
    fetch_mode: str = ""
    fetch_dest: str = ""

    @property
    def is_opened(self) -> bool:
        """Return True if a person opens the address in a window."""
        return (self.method, self.fetch_mode, self.fetch_dest) == ("GET", "navigate", "document")


def page_refusal(request: BrowserRequest, scheme: str) -> str | None:
    """Return why the origin of a request is refused; None if the request comes from the session's own page.

    A link on another page may open the session. Otherwise a page of another origin may neither read nor
    change anything: any user of this machine can serve such a page on one of its ports. `scheme` is the
    scheme of the session's address.
    """
    try:
        parts = urlsplit(request.origin)
    except ValueError:
        return _OTHER_SITE
    if request.origin and (parts.scheme, parts.netloc) != (scheme, request.host):
        return _OTHER_SITE
    if request.fetch_site not in _OWN_PAGES and not request.is_opened:
        return _OTHER_SITE
    return None


def described_by(request: h11.Request, headers: dict[str, str]) -> BrowserRequest:
    """Return the headers that identify the sending page; `headers` by lower-case names."""
    return BrowserRequest(
        method=request.method.decode("ascii"),
        host=headers.get("host", ""),
        origin=headers.get("origin", ""),
        fetch_site=headers.get("sec-fetch-site", ""),
        fetch_mode=headers.get("sec-fetch-mode", ""),
        fetch_dest=headers.get("sec-fetch-dest", ""),
    )
