"""Hyper-parameter sweeps: begun, listed, shown, stopped and deleted."""

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from weir.api.comma_lists import comma_words
from weir.api.sweep_submissions import SweepSubmission
from weir.api.sweeps import SweepDeleted, SweepDetail, SweepPage, SweepRow
from weir.local.server.access.audit_middleware import note
from weir.local.server.access.authorization import Person
from weir.local.server.http.problem_details import RequestRefused, read_as, read_body
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.pool import PoolService
from weir.local.server.requests.sweep_requests import create_sweep, delete_sweep, stop_sweep
from weir.local.server.routes.common import (
    BODY_REFUSALS,
    After,
    Limit,
    Requester,
    ThePool,
    json_response,
    position,
    problems,
    refuse_large,
    takes,
)
from weir.local.server.sweeps.live_sweep import LiveSweep
from weir.local.server.sweeps.rows import sweep_detail, sweep_row, unreadable_row
from weir.store.records import SweepRecord

routes = APIRouter(prefix="/api/v1/sweeps", tags=["sweeps"], route_class=StrictRoute)


@routes.get("", response_model=SweepPage, responses=problems(422))
async def list_sweeps(
    pool: ThePool,
    person: Requester,
    project: Annotated[str | None, Query(max_length=4096, description="Comma-separated projects.")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Sweeps of projects that one may see, newest first."""
    cursor, projects = position(after), comma_words(project)
    heads = [
        head
        for head in await asyncio.to_thread(pool.store.sweeps.heads)
        if pool.may_see(person, head.project, head.created_s) and (not projects or head.project in projects)
    ]
    total = len(heads)
    if cursor is not None:
        heads = [head for head in heads if head.id < cursor]
    items = [row for head in heads[:limit] if (row := await _row(pool, head.name)) is not None]
    next_page = str(heads[limit - 1].id) if len(heads) > limit else None
    return json_response(pool.on_wall_clock(SweepPage(total=total, next=next_page, items=items)))


@routes.post(
    "",
    status_code=201,
    response_model=SweepDetail,
    responses=problems(403, 404, *BODY_REFUSALS, 409),
    openapi_extra=takes(SweepSubmission, "The sweep; every trial of it runs `workload`."),
)
async def create(request: Request, pool: ThePool, person: Requester) -> Response:
    """Begin a sweep."""

    def parse(body: bytes) -> tuple[SweepSubmission, dict[str, object]]:
        refuse_large(len(body), pool, "The sweep")
        return read_as(SweepSubmission, body, "The sweep", pool.priority_classes), json.loads(body)

    submission, raw = await read_body(request, parse)
    record = await create_sweep(pool, submission, raw, person)
    note(request, sweep=record.name, project=record.project)
    return json_response(await _detail(pool, record), 201)


@routes.get("/{name}", response_model=SweepDetail, responses=problems(403, 404))
async def show(name: str, pool: ThePool, person: Requester) -> Response:
    """Return a sweep with its trials."""
    return json_response(await _detail(pool, await _visible(pool, name, person)))


@routes.post("/{name}/stop", response_model=SweepDetail, responses=problems(403, 404, 409))
async def stop(name: str, pool: ThePool, person: Requester) -> Response:
    """Stop a sweep and its trials for good."""
    record = await stop_sweep(pool, await _visible(pool, name, person), person)
    return json_response(await _detail(pool, record))


@routes.delete("/{name}", response_model=SweepDeleted, responses=problems(403, 404, 409, 422))
async def delete(
    request: Request,
    name: str,
    pool: ThePool,
    person: Requester,
    checkpoints: Annotated[bool, Query(description="Delete the checkpoints of its trials too.")] = False,
) -> Response:
    """Delete a sweep that is over, with its parameters and results. The workloads of its trials stay."""
    record = await _visible(pool, name, person)
    deleted = await delete_sweep(pool, record, person, checkpoints=checkpoints)
    note(request, sweep=record.name, project=record.project)
    return json_response(deleted)


async def _visible(pool: PoolService, name: str, person: Person) -> SweepRecord:
    record = await asyncio.to_thread(pool.store.sweeps.get, name)
    if record is None:
        raise RequestRefused(
            404, f"There is no sweep called {name[:80]}: `weir sweep list` shows which there are."
        )
    pool.require_visible(person, record.project, record.created_s)
    return record


async def _row(pool: PoolService, name: str) -> SweepRow | None:
    """Return the row of a sweep; that of an unreadable sweep has the error. None without such a sweep.

    The answer is None if there is no such sweep.
    """
    live = pool.sweeps.live.get(name)
    if live is not None:
        return sweep_row(live, pool)
    record = await asyncio.to_thread(pool.store.sweeps.get, name)
    if record is None:
        return None
    try:
        return sweep_row(await pool.sweeps.past(record), pool)
    except RequestRefused as refused:  # another version may have written it: list the others
        return unreadable_row(record, refused.detail)


async def _current(pool: PoolService, record: SweepRecord) -> LiveSweep:
    """Return a sweep in the controller's state, or else as it is stored."""
    live = pool.sweeps.live.get(record.name)
    return live if live is not None else await pool.sweeps.past(record)


async def _detail(pool: PoolService, record: SweepRecord) -> SweepDetail:
    return pool.on_wall_clock(sweep_detail(await _current(pool, record), pool))
