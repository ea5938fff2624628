"""Indices of arrays: listed with their status."""

import asyncio

from fastapi import APIRouter, Response

from weir.api.workload_list import ArrayIndexPage, ArrayIndexRow
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.pool import PoolService
from weir.local.server.routes.common import (
    After,
    Limit,
    Requester,
    ThePool,
    find_stored,
    json_response,
    position,
    problems,
)

_LIVE = ("status", "first_started_s", "ended_s", "ran_s", "exit_code", "restarts", "reason")
"""Fields of an index that its live workload states."""
routes = APIRouter(prefix="/api/v1/workloads", tags=["workloads"], route_class=StrictRoute)


@routes.get("/{name}/indices", response_model=ArrayIndexPage, responses=problems(404, 409, 422))
async def indices(
    name: str, pool: ThePool, _person: Requester, limit: Limit = 100, after: After = None
) -> Response:
    """Return the indices of an array in ascending order, those that aren't queued yet too."""
    cursor = position(after)
    _, array = await find_stored(pool, name)
    if array.array is None:
        raise RequestRefused(409, f"{array.name} is no array, so it has no indices.")
    page = await asyncio.to_thread(pool.store.arrays.page, array.uid, cursor, limit)
    answer = ArrayIndexPage.model_construct(
        array=pool.view.with_reason(array),
        total=page.total,
        next=None if page.after is None else str(page.after),
        items=[_row(pool, index) for index in page.items],
    )
    return json_response(pool.on_wall_clock(answer))


def _row(pool: PoolService, stored: ArrayIndexRow) -> ArrayIndexRow:
    """Return the row of an index, with its present status if it isn't over."""
    live = None if stored.uid is None else pool.view.row_of(stored.uid)
    return stored if live is None else stored.model_copy(update={key: getattr(live, key) for key in _LIVE})
