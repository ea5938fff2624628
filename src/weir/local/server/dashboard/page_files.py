"""Files of the page, as `make web` has built them, with headers that keep everything else out."""

import mimetypes
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

from weir.local.server.dashboard.browser_requests import check_host
from weir.local.server.problem_details import RequestRefused

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
_FOR_EVER = "public, max-age=31536000, immutable"
_NOT_BUILT = "This copy of Weir has no dashboard: build it with `make web`."
routes = APIRouter(include_in_schema=False)


@routes.get("/")
async def index(request: Request) -> Response:
    """Return the page; every screen is this one, with its state in the address."""
    check_host(request.scope)
    found = _file("index.html")
    if found is None:
        raise RequestRefused(503, _NOT_BUILT)
    content, kind = found
    return Response(content, media_type=kind, headers={**HEADERS, "Cache-Control": "no-cache"})


@routes.get("/assets/{name}")
async def asset(name: str, request: Request) -> Response:
    """Return a file of the page. Its name has the hash of its content, so browsers keep it."""
    check_host(request.scope)
    found = _file(f"assets/{name}") if name in _assets() else None
    if found is None:
        raise RequestRefused(404, "There is no such file.")
    content, kind = found
    headers = {**HEADERS, "Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"}
    packed = _file(f"assets/{name}.gz")
    if packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["Content-Encoding"] = packed[0], "gzip"
    return Response(content, media_type=kind, headers=headers)


@lru_cache(maxsize=1)
def _assets() -> frozenset[str]:
    folder = FOLDER / "assets"
    return frozenset(path.name for path in folder.iterdir()) if folder.is_dir() else frozenset()


@lru_cache(maxsize=64)
def _file(path: str) -> tuple[bytes, str] | None:
    """Return a file's content and type."""
    try:
        content = (FOLDER / path).read_bytes()
    except OSError:
        return None
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return content, f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
