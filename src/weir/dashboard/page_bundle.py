"""Files of the page, as built by `make web`, with headers that forbid all other content."""

import mimetypes
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).parent / "page"
"""Built by `make web`; the wheel and the sdist contain it."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
FOR_EVER = "public, max-age=31536000, immutable"
NOT_BUILT = "This copy of Weir has no dashboard: build it with `make web`."
INDEX = "index.html"


def asset_file(name: str, accepted: str) -> tuple[bytes, dict[str, str]] | None:
    """Return an asset and its headers, compressed if the browser accepts that; None if there is no such file.

    Its name has the hash of its content, so browsers keep it.
    """
    path = f"assets/{name}"
    file = page_file(path) if name in _assets() else None
    if file is None:
        return None
    content, kind = file
    headers = {**HEADERS, "Content-Type": kind, "Cache-Control": FOR_EVER, "Vary": "Accept-Encoding"}
    packed = page_file(f"{path}.gz")
    if packed is not None and "gzip" in accepted:
        return packed[0], {**headers, "Content-Encoding": "gzip"}
    return content, headers


def index_file() -> tuple[bytes, dict[str, str]] | None:
    """Return the page and its headers; None if it isn't built."""
    file = page_file(INDEX)
    if file is None:
        return None
    content, kind = file
    return content, {**HEADERS, "Content-Type": kind, "Cache-Control": "no-cache"}


@lru_cache(maxsize=1)
def _assets() -> frozenset[str]:
    folder = FOLDER / "assets"
    return frozenset(path.name for path in folder.iterdir()) if folder.is_dir() else frozenset()


@lru_cache(maxsize=64)
def page_file(path: str) -> tuple[bytes, str] | None:
    """Return a file's content and type; None if there is no such file."""
    try:
        content = (FOLDER / path).read_bytes()
    except OSError:
        return None
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return content, f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
