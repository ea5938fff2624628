"""Replays of the pool's own history with other quotas, another policy or more nodes."""

import asyncio

from fastapi import APIRouter, Request, Response

from weir.api.what_if import WhatIfAsked, WhatIfPage, WhatIfRow
from weir.local.server.access.audit_middleware import note
from weir.local.server.access.authorization import Action, require
from weir.local.server.http.problem_details import read_as, read_body
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.routes.common import BODY_REFUSALS, Requester, ThePool, json_response, problems, takes
from weir.local.server.routes.history import read_trace
from weir.service.cluster_snapshot import cluster_alone, read_cluster

routes = APIRouter(prefix="/api/v1/what-if", tags=["what if"], route_class=StrictRoute)


@routes.post(
    "",
    status_code=202,
    response_model=WhatIfRow,
    responses=problems(403, *BODY_REFUSALS, 409),
    openapi_extra=takes(WhatIfAsked, "The alternatives, and the part of the history to replay."),
)
async def start(request: Request, pool: ThePool, person: Requester) -> Response:
    """Begin to replay the pool's history, in a process of its own."""
    require(person, Action.ADMINISTER)
    asked = await read_body(request, lambda body: read_as(WhatIfAsked, body, "The replay"))
    now_s = pool.clock()
    since_s = max(0.0, now_s - asked.since)
    read = await pool.query(lambda cluster: read_cluster(cluster, pool.policy))
    cluster = await asyncio.to_thread(cluster_alone, read, now_s)
    trace = await read_trace(pool, since_s, now_s, pool.inventory.projects)
    row = pool.what_if.start(asked, cluster, trace, person, at_s=now_s, since_s=since_s)
    note(request, replay=row.id, alternatives=asked.alternatives)
    return json_response(pool.on_wall_clock(row), 202)


@routes.get("", response_model=WhatIfPage, responses=problems(403))
async def list_replays(pool: ThePool, person: Requester) -> Response:
    """Return replays, newest first."""
    require(person, Action.ADMINISTER)
    rows = await asyncio.to_thread(pool.what_if.all)
    return json_response(pool.on_wall_clock(WhatIfPage(total=len(rows), items=rows)))


@routes.get("/{id}", response_model=WhatIfRow, responses=problems(403, 404))
async def replay(id: str, pool: ThePool, person: Requester) -> Response:  # noqa: A002 - the word of the path
    """Return the progress of a replay, and its result."""
    require(person, Action.ADMINISTER)
    return json_response(pool.on_wall_clock(pool.what_if.get(id)))


@routes.delete("/{id}", response_model=WhatIfRow, responses=problems(403, 404))
async def cancel(id: str, pool: ThePool, person: Requester) -> Response:  # noqa: A002 - the word of the path
    """Cancel a running replay, or delete the result of another."""
    require(person, Action.ADMINISTER)
    return json_response(pool.on_wall_clock(await pool.what_if.cancel(id)))
