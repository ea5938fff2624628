"""Routes for programs that watch: the live stream, metrics and health."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from weir.local.server.access.authorization import Action, may
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.routes.common import Requester, ThePool, problems
from weir.local.server.views.metrics import MetricsSnapshot, exposition
from weir.service.queue_rows import node_rows

routes = APIRouter(tags=["watching"])
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@routes.get(
    "/api/v1/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **problems()},
)
async def stream(request: Request, pool: ThePool, person: Requester) -> Response:
    """Stream changes of workloads, events, queues and nodes. `Last-Event-ID` resumes a broken stream."""
    joined = pool.stream.join(person, request.headers.get("last-event-id"))
    if joined is None:
        raise RequestRefused(503, "Too many listen already, or the server is being stopped.")
    reader, hello = joined
    pool.control_thread.wake()
    return StreamingResponse(
        reader.texts(hello), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


@routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems()},
)
async def metrics(pool: ThePool, person: Requester) -> Response:
    """Return Prometheus metrics; any valid token may read them."""
    nodes = await pool.query(lambda cluster: node_rows(cluster, pool.device_use))
    seen = MetricsSnapshot(
        queues=await pool.queue_rows(),
        nodes=nodes,
        rows=pool.view.all(),
        counters=pool.counters,
        workloads=pool.view.workloads,
        ready=pool.control_thread.trouble is None,
        readers=pool.stream.readers,
        named=person.scopes if pool.hides_others and not may(person, Action.ADMINISTER) else None,
    )
    return Response(exposition(seen), media_type=_PROMETHEUS)


@routes.get("/healthz")
async def healthz() -> Response:
    """Answer while the server is alive."""
    return JSONResponse({"status": "ok"})


@routes.get("/readyz", responses={503: {"description": "A part makes no progress; the body says which."}})
async def readyz(pool: ThePool) -> Response:
    """Report if the pool decides, notices the ends of pods, and can write."""
    troubles = await pool.health.troubles()
    age_s = round(pool.control_thread.since_step_s, 1)
    if troubles:
        why = " ".join(dict.fromkeys(troubles.values()))  # several parts may report the same full disk
        body = {"status": "not ready", "why": why, "checks": troubles, "last_step_age_s": age_s}
        return JSONResponse(body, status_code=503)
    return JSONResponse({"status": "ok"})
