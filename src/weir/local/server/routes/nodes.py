"""Nodes: their devices and users, drained and back."""

from fastapi import APIRouter, Request, Response

from weir.api.answers import NodePage, NodeRow, WorkloadPage
from weir.api.submissions import DrainAsked, GpuDrainAsked
from weir.local.server.audit_middleware import note
from weir.local.server.authorization import Action, require
from weir.local.server.pool import PoolService
from weir.local.server.problem_details import read_as, read_body
from weir.local.server.routes.common import (
    BODY_REFUSALS,
    After,
    Limit,
    ThePool,
    Who,
    json_response,
    position,
    problems,
    takes,
)
from weir.service.queue_rows import node_rows

routes = APIRouter(prefix="/api/v1", tags=["nodes"])


@routes.get("/nodes", response_model=NodePage, responses=problems(422))
async def nodes(pool: ThePool, _who: Who, limit: Limit = 100, after: After = None) -> Response:
    """Return nodes and their devices, with their users."""
    rows = await pool.query(lambda cluster: node_rows(cluster, pool.device_use))
    begin = position(after) or 0
    more = str(begin + limit) if begin + limit < len(rows) else None
    return json_response(NodePage(total=len(rows), next=more, items=rows[begin : begin + limit]))


@routes.get("/nodes/{name}/workloads", response_model=WorkloadPage, responses=problems(404))
async def node_workloads(name: str, pool: ThePool, _who: Who) -> Response:
    """Return the workloads that hold something on a node: those that a drain would stop."""
    pool.node_changes.require(name)
    rows = [pool.view.with_reason(row) for row in pool.view.all() if name in row.nodes]
    return json_response(
        pool.on_wall_clock(WorkloadPage.model_construct(total=len(rows), next=None, items=rows, trouble=None))
    )


@routes.post(
    "/nodes/{name}/drain",
    response_model=NodeRow,
    responses=problems(403, 404, *BODY_REFUSALS),
    openapi_extra=takes(DrainAsked, "Why, and whether its workloads may run on."),
)
async def drain(name: str, request: Request, pool: ThePool, who: Who) -> Response:
    """Start nothing on a node from now on, and stop its workloads: they wait, with the run they saved."""
    require(who, Action.ADMINISTER)
    body = await read_body(request, lambda body: read_as(DrainAsked, body, "The drain"))
    note(request, node=name, reason=body.reason, keep_running=body.keep_running)
    await pool.node_changes.drain(name, body.reason, body.keep_running, who)
    return json_response(await _row(pool, name))


@routes.post("/nodes/{name}/undrain", response_model=NodeRow, responses=problems(403, 404))
async def undrain(name: str, pool: ThePool, who: Who) -> Response:
    """Let workloads start on a node again."""
    require(who, Action.ADMINISTER)
    await pool.node_changes.undrain(name, who)
    return json_response(await _row(pool, name))


@routes.post(
    "/nodes/{name}/gpus/{gpu}/drain",
    response_model=NodeRow,
    responses=problems(403, 404, *BODY_REFUSALS),
    openapi_extra=takes(GpuDrainAsked, "Why."),
)
async def drain_gpu(name: str, gpu: int, request: Request, pool: ThePool, who: Who) -> Response:
    """Start nothing on one GPU of a node from now on; the work that it runs goes on."""
    require(who, Action.ADMINISTER)
    body = await read_body(request, lambda body: read_as(GpuDrainAsked, body, "The drain"))
    note(request, node=name, gpu=gpu, reason=body.reason)
    await pool.node_changes.drain_gpu(name, gpu, body.reason, who)
    return json_response(await _row(pool, name))


@routes.post("/nodes/{name}/gpus/{gpu}/undrain", response_model=NodeRow, responses=problems(403, 404, 422))
async def undrain_gpu(name: str, gpu: int, pool: ThePool, who: Who) -> Response:
    """Let workloads start on a drained GPU again."""
    require(who, Action.ADMINISTER)
    await pool.node_changes.undrain_gpu(name, gpu, who)
    return json_response(await _row(pool, name))


async def _row(pool: PoolService, name: str) -> NodeRow:
    rows = await pool.query(lambda cluster: node_rows(cluster, pool.device_use))
    return next(row for row in rows if row.name == name)
