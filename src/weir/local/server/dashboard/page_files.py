"""Routes of the files of the page."""

from fastapi import APIRouter, Request, Response

from weir.dashboard.page_bundle import NOT_BUILT, asset_file, index_file
from weir.local.server.dashboard.browser_requests import check_host
from weir.local.server.http.problem_details import RequestRefused

routes = APIRouter(include_in_schema=False)


@routes.get("/")
async def index(request: Request) -> Response:
    """Return the page; every screen is this one, with its state in the address."""
    check_host(request.scope)
    found = index_file()
    if found is None:
        raise RequestRefused(503, NOT_BUILT)
    return Response(found[0], headers=found[1])


@routes.get("/assets/{name}")
async def asset(name: str, request: Request) -> Response:
    """Return a file of the page."""
    check_host(request.scope)
    found = asset_file(name, request.headers.get("accept-encoding", ""))
    if found is None:
        raise RequestRefused(404, "There is no such file.")
    return Response(found[0], headers=found[1])
