"""Nodes: their devices and users, drained and back."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from weir.api.answers import NodePage, NodeRow, WorkloadPage
from weir.api.maintenance import (
    DrainAsked,
    GpuDrainAsked,
    MaintenanceAsked,
    MaintenancePage,
    MaintenanceRow,
)
from weir.local.server.access.audit_middleware import note
from weir.local.server.access.authorization import Action, may, require
from weir.local.server.http.problem_details import read_as, read_body
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.pool import PoolService
from weir.local.server.routes.common import (
    BODY_REFUSALS,
    After,
    Limit,
    Requester,
    ThePool,
    json_response,
    page_of,
    problems,
    takes,
)
from weir.service.queue_rows import node_rows

OneGpu = Annotated[int | None, Query(ge=0, le=1023, description="Index of one GPU of the node.")]
routes = APIRouter(prefix="/api/v1", tags=["nodes"], route_class=StrictRoute)


@routes.get("/nodes", response_model=NodePage, responses=problems(422))
async def nodes(pool: ThePool, person: Requester, limit: Limit = 100, after: After = None) -> Response:
    """Return nodes and their devices, with their users."""
    rows = await pool.query(lambda cluster: node_rows(cluster, pool.device_use))
    if may(person, Action.ADMINISTER):
        rows = [_with_commands(row, pool) for row in rows]
    items, next_page = page_of(rows, limit, after)
    return json_response(NodePage(total=len(rows), next=next_page, items=list(items)))


@routes.get("/nodes/{name}/workloads", response_model=WorkloadPage, responses=problems(404))
async def node_workloads(name: str, pool: ThePool, _person: Requester, gpu: OneGpu = None) -> Response:
    """Return the workloads that hold something on a node, or one GPU of it: a drain would stop those."""
    pool.node_changes.require(name, gpu)
    names = None if gpu is None else set(await pool.node_changes.workloads_on(gpu))
    rows = [
        pool.view.with_reason(row)
        for row in pool.view.all()
        if name in row.nodes and (names is None or row.name in names)
    ]
    return json_response(
        pool.on_wall_clock(WorkloadPage.model_construct(total=len(rows), next=None, items=rows, trouble=None))
    )


@routes.post(
    "/nodes/{name}/drain",
    response_model=NodeRow,
    responses=problems(403, 404, 409, *BODY_REFUSALS),
    openapi_extra=takes(DrainAsked, "Reason, time, and effect on its workloads."),
)
async def drain(name: str, request: Request, pool: ThePool, person: Requester) -> Response:
    """Drain a node, now or from a time on. Its workloads are queued again, with their checkpoints."""
    require(person, Action.ADMINISTER)
    body = await read_body(request, lambda body: read_as(DrainAsked, body, "The drain"))
    note(request, node=name, **body.model_dump(exclude_none=True, exclude={"later_only"}))
    await pool.node_changes.drain(name, body, person)
    return json_response(await _row(pool, name))


@routes.post("/nodes/{name}/undrain", response_model=NodeRow, responses=problems(403, 404))
async def undrain(name: str, pool: ThePool, person: Requester) -> Response:
    """Let workloads start on a node again."""
    require(person, Action.ADMINISTER)
    await pool.node_changes.undrain(name, person)
    return json_response(await _row(pool, name))


@routes.post(
    "/nodes/{name}/gpus/{gpu}/drain",
    response_model=NodeRow,
    responses=problems(403, 404, 409, *BODY_REFUSALS),
    openapi_extra=takes(GpuDrainAsked, "Reason, time, and effect on its workloads."),
)
async def drain_gpu(name: str, gpu: int, request: Request, pool: ThePool, person: Requester) -> Response:
    """Drain a GPU of a node, now or from a time on. By default its workloads continue."""
    require(person, Action.ADMINISTER)
    body = await read_body(request, lambda body: read_as(GpuDrainAsked, body, "The drain"))
    note(request, node=name, gpu=gpu, **body.model_dump(exclude_none=True, exclude={"later_only"}))
    await pool.node_changes.drain(name, body, person, gpu)
    return json_response(await _row(pool, name))


@routes.post("/nodes/{name}/gpus/{gpu}/undrain", response_model=NodeRow, responses=problems(403, 404, 422))
async def undrain_gpu(name: str, gpu: int, pool: ThePool, person: Requester) -> Response:
    """Let workloads start on a drained GPU again."""
    require(person, Action.ADMINISTER)
    await pool.node_changes.undrain(name, person, gpu)
    return json_response(await _row(pool, name))


@routes.get("/maintenance", response_model=MaintenancePage)
async def maintenance(pool: ThePool, _person: Requester) -> Response:
    """Return the maintenance windows and drains at a time, soonest first."""
    rows = pool.node_changes.maintenance.rows()
    return json_response(MaintenancePage(total=len(rows), next=None, items=rows))


@routes.post(
    "/maintenance",
    response_model=MaintenanceRow,
    status_code=201,
    responses=problems(403, 409, *BODY_REFUSALS),
    openapi_extra=takes(MaintenanceAsked, "The window."),
)
async def add_maintenance(request: Request, pool: ThePool, person: Requester) -> Response:
    """Announce a maintenance window: long work doesn't run into it."""
    require(person, Action.ADMINISTER)
    body = await read_body(request, lambda body: read_as(MaintenanceAsked, body, "The maintenance window"))
    row = await pool.node_changes.maintenance.add(body, person)
    note(request, node=row.node, maintenance=row.name, from_s=row.from_s, until_s=row.until_s)
    return json_response(row, 201)


@routes.delete("/maintenance/{window}", status_code=204, responses=problems(403, 404))
async def delete_maintenance(window: str, request: Request, pool: ThePool, person: Requester) -> Response:
    """Withdraw a maintenance window, or end one that has begun."""
    require(person, Action.ADMINISTER)
    note(request, maintenance=window)
    await pool.node_changes.maintenance.remove(window, person)
    return Response(status_code=204)


def _with_commands(row: NodeRow, pool: PoolService) -> NodeRow:
    """Return a node with the command lines of processes outside the pool."""
    commands = pool.foreign_commands if row.name == pool.node.name else {}
    if not commands:
        return row
    devices = [
        device.model_copy(update={"foreign_command": commands.get(device.index)})
        if device.foreign is not None
        else device
        for device in row.devices
    ]
    return row.model_copy(update={"devices": devices})


async def _row(pool: PoolService, name: str) -> NodeRow:
    rows = await pool.query(lambda cluster: node_rows(cluster, pool.device_use))
    return next(row for row in rows if row.name == name)
