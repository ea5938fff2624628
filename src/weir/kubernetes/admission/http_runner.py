"""The runner of an HTTP server, whose answers don't name the program and its versions."""

import inspect
from typing import Any

from aiohttp import web, web_response

SERVER_NAME = "weir"
"""Value of the header `Server`. aiohttp would name itself, Python, and the versions of both."""
HEADERS_MAX = 320
"""Headers of a request: the API server sends one for each group of a person; providers name 200 at most."""


def http_runner(app: web.Application, *, shutdown_s: float, **options: Any) -> web.AppRunner:
    """Return the runner of an application, without a log of its requests.

    aiohttp adds the header after the application, and to refusals of requests that no application gets. No
    setting has its value, so the value is replaced for the whole process.
    """
    vars(web_response)["SERVER_SOFTWARE"] = SERVER_NAME
    return web.AppRunner(app, access_log=None, shutdown_timeout=shutdown_s, **header_limit(), **options)


def header_limit() -> dict[str, Any]:
    """Return the option of a server for the number of headers; older versions of aiohttp have no limit."""
    takes_it = "max_headers" in inspect.signature(web.RequestHandler).parameters
    return {"max_headers": HEADERS_MAX} if takes_it else {}
