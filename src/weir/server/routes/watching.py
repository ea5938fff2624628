"""For programs that watch: the live stream, metrics, health."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from weir.server.amounts import node_rows
from weir.server.metrics import Seen, exposition
from weir.server.problems import Refused
from weir.server.routes.common import ThePool, Who, problems

routes = APIRouter(tags=["watching"])
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@routes.get(
    "/api/v1/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **problems()},
)
async def stream(request: Request, pool: ThePool, who: Who) -> Response:
    """What changes: workload, event, queue and node. `Last-Event-ID` goes on where a stream broke off."""
    joined = pool.hub.join(who, request.headers.get("last-event-id"))
    if joined is None:
        raise Refused(503, "Too many listen already, or the server is being stopped.")
    reader, hello = joined
    pool.turns.wake()
    return StreamingResponse(
        reader.texts(hello), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


@routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems()},
)
async def metrics(pool: ThePool, _who: Who) -> Response:
    """What Prometheus reads; send it any token."""
    nodes = await pool.ask(lambda cluster: node_rows(cluster, pool.device_use))
    seen = Seen(
        queues=await pool.queue_rows(),
        nodes=nodes,
        rows=pool.view.all(),
        tally=pool.tally,
        uses=pool.uses,
        ready=pool.turns.trouble is None,
        readers=pool.hub.readers,
    )
    return Response(exposition(seen), media_type=_PROMETHEUS)


@routes.get("/healthz")
async def healthz() -> Response:
    """Whether the server answers."""
    return JSONResponse({"status": "ok"})


@routes.get("/readyz", responses={503: {"description": "It doesn't decide now; the body says why."}})
async def readyz(pool: ThePool) -> Response:
    """Whether the pool decides."""
    trouble = pool.turns.trouble
    if trouble is not None:
        return JSONResponse({"status": "not ready", "why": trouble}, status_code=503)
    return JSONResponse({"status": "ok"})
