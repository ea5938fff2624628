"""The one port that Weir opens in a cluster: admission webhooks, health and metrics, over TLS.

The API server calls the webhooks. It shows no certificate unless it was configured to, so by default
nobody is asked for one: whoever reaches the port can have an object judged, and learns the names of
projects at most. With `client_authorities` only callers that one of them signed are answered there. Health
says "ok" and nothing else, metrics go to bearers the API server vouches for.
"""

import asyncio
import base64
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from structlog import get_logger

from weir.backends.kubernetes.admission.admission import Known, Reading, changes, mistakes
from weir.backends.kubernetes.admission.callers import Callers

BYTES_MOST = 8 << 20
"""Of a review: an object, and how it was before."""
READ_S = 5.0
"""In which a review has to arrive."""
_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Served:
    """What is answered from."""

    known: Callable[[], Known | None]  # None: not yet
    reading: Reading
    callers: Callers
    is_alive: Callable[[], bool] = lambda: True
    is_ready: Callable[[], bool] = lambda: True
    metrics: Callable[[], bytes] = lambda: b""


def application(served: Served, *, client_authorities: bool = False) -> web.Application:
    """Everything the port answers."""

    async def mutate(request: web.Request) -> web.Response:
        return await _review(request, served, _patched, client_authorities=client_authorities)

    async def validate(request: web.Request) -> web.Response:
        return await _review(request, served, _judged, client_authorities=client_authorities)

    async def alive(_request: web.Request) -> web.Response:
        return _said(well=served.is_alive())

    async def ready(_request: web.Request) -> web.Response:
        return _said(well=served.is_ready() and served.known() is not None)

    async def metrics(request: web.Request) -> web.Response:
        may = await served.callers.may_get(request.headers.get("Authorization", ""), "/metrics")
        if may is None:
            return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
        if not may:
            return web.Response(
                status=403, text="This account may not get /metrics: bind weir-metrics to it.\n"
            )
        return web.Response(body=served.metrics(), content_type="text/plain", charset="utf-8")

    app = web.Application(client_max_size=BYTES_MOST)
    app.router.add_post("/mutate", mutate)
    app.router.add_post("/validate", validate)
    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", metrics)
    return app


def tls_context(client_authorities: Path | None = None) -> ssl.SSLContext:
    """TLS for the port, without a certificate yet. Callers may show theirs; who must is decided by path."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if client_authorities is not None:
        context.load_verify_locations(client_authorities)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def serve(app: web.Application, tls: ssl.SSLContext, host: str | None, port: int) -> web.AppRunner:
    """Listen; `cleanup` of what is returned ends it."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=5.0)
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=tls).start()
    return runner


def _said(*, well: bool) -> web.Response:
    return web.Response(text="ok\n") if well else web.Response(status=503, text="not yet\n")


Answer = Callable[[Mapping[str, Any], Known, Reading], dict[str, Any]]


async def _review(
    request: web.Request, served: Served, answer: Answer, *, client_authorities: bool
) -> web.Response:
    if client_authorities and not (request.transport and request.transport.get_extra_info("peercert")):
        return web.Response(status=403, text="Show the API server's certificate.\n")
    known = served.known()
    if known is None:
        return web.Response(status=503, text="not yet\n")
    try:
        async with asyncio.timeout(READ_S):
            asked = msgspec.json.decode(await request.read())["request"]
        uid = asked["uid"]
        said = answer(asked, known, served.reading)
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, RecursionError, TimeoutError) as error:
        _LOG.warning("review_not_understood", why=str(error)[:300])
        return web.Response(status=400, text="This is no AdmissionReview that can be read.\n")
    body = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, **said},
    }
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


def _patched(asked: Mapping[str, Any], known: Known, reading: Reading) -> dict[str, Any]:
    ops = changes(asked, known, reading)
    if not ops:
        return {"allowed": True}
    patch = base64.b64encode(msgspec.json.encode(ops)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def _judged(asked: Mapping[str, Any], known: Known, reading: Reading) -> dict[str, Any]:
    wrong: Sequence[str] = mistakes(asked, known, reading)
    if not wrong:
        return {"allowed": True}
    told = "; ".join(wrong)
    return {"allowed": False, "status": {"code": 422, "reason": "Invalid", "message": told}}
