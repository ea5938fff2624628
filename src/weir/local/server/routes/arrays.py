"""Indices of arrays: listed with their status."""

import asyncio

from fastapi import APIRouter, Response

from weir.api.answers import Explanation
from weir.api.workload_list import ArrayIndexPage, ArrayIndexRow
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.pool import PoolService
from weir.local.server.routes.common import (
    After,
    Limit,
    ThePool,
    Who,
    find_stored,
    json_response,
    position,
    problems,
)
from weir.model.array_indices import index_name
from weir.store.records import ArrayIndexRecord

routes = APIRouter(prefix="/api/v1/workloads", tags=["workloads"])


@routes.get("/{name}/indices", response_model=ArrayIndexPage, responses=problems(404, 409, 422))
async def indices(name: str, pool: ThePool, _who: Who, limit: Limit = 100, after: After = None) -> Response:
    """Return the indices of an array in ascending order, those that aren't queued yet too."""
    at = position(after)
    _, array = await find_stored(pool, name)
    if array.array is None:
        raise RequestRefused(409, f"{array.name} is no array, so it has no indices.")
    page = await asyncio.to_thread(pool.store.arrays.page, array.uid, at, limit)
    answer = ArrayIndexPage.model_construct(
        array=pool.view.with_reason(array),
        total=page.total,
        next=None if page.after is None else str(page.after),
        items=[_row(pool, array.name, each) for each in page.items],
    )
    return json_response(pool.on_wall_clock(answer))


def _row(pool: PoolService, array: str, record: ArrayIndexRecord) -> ArrayIndexRow:
    """Return the row of an index, with its present status if it isn't over."""
    name = index_name(array, record.index)
    live = None if record.uid is None else pool.view.row_of(record.uid)
    if live is not None:
        values = {key: getattr(live, key) for key in ("status", "first_started_s", "ended_s", "ran_s")}
        values |= {key: getattr(live, key) for key in ("exit_code", "restarts", "reason")}
        return ArrayIndexRow.model_construct(index=record.index, name=name, uid=record.uid, **values)
    reason = None
    if record.sentence and record.status != "succeeded":
        reason = Explanation(why=record.status, sentence=record.sentence)
    return ArrayIndexRow.model_validate(
        {
            "index": record.index,
            "name": name,
            "status": record.status,
            "uid": record.uid,
            "first_started_s": record.first_started_s,
            "ended_s": record.ended_s,
            "ran_s": record.ran_s,
            "exit_code": record.exit_code,
            "restarts": record.restarts,
            "reason": reason,
        }
    )
