"""Schedules: set, listed, suspended, resumed and deleted."""

import json
from typing import Any

from fastapi import APIRouter, Request, Response

from weir.api.cron_times import SCHEDULE_NAME_LENGTH_MAX
from weir.api.schedules import ScheduleAsked, SchedulePage, ScheduleRow
from weir.local.server.access.audit_middleware import note
from weir.local.server.http.problem_details import FieldErrors, read_as, read_body
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.routes.common import BODY_REFUSALS, Requester, ThePool, json_response, problems, takes
from weir.local.server.state.pool_inventory import check_name

routes = APIRouter(prefix="/api/v1/schedules", tags=["workloads"], route_class=StrictRoute)


@routes.get("", response_model=SchedulePage, responses=problems())
async def list_schedules(pool: ThePool, person: Requester) -> Response:
    """Return the schedules of the projects that the person may see."""
    rows = pool.schedules.rows(person)
    return json_response(SchedulePage(total=len(rows), items=rows))


@routes.get("/{name}", response_model=ScheduleRow, responses=problems(403, 404))
async def get_schedule(name: str, pool: ThePool, person: Requester) -> Response:
    """Return a schedule."""
    return json_response(pool.schedules.row(name, person))


@routes.put(
    "/{name}",
    response_model=ScheduleRow,
    responses=problems(403, 404, *BODY_REFUSALS, 409),
    openapi_extra=takes(ScheduleAsked, "The times, and the workload of each run."),
)
async def set_schedule(name: str, request: Request, pool: ThePool, person: Requester) -> Response:
    """Create or change a schedule; its runs have the rights that the person has then."""

    def parse(body: bytes) -> tuple[ScheduleAsked, dict[str, Any]]:
        fields = FieldErrors("The schedule")
        check_name(name, fields)
        if len(name) > SCHEDULE_NAME_LENGTH_MAX:
            limit = f"is longer than {SCHEDULE_NAME_LENGTH_MAX} characters, and runs add to it"
            fields.add(("name",), f"name: {limit}; write a shorter one")
        fields.refuse_if_any()
        asked = read_as(ScheduleAsked, body, "The schedule", pool.priority_classes)
        return asked, json.loads(body)["workload"]

    asked, raw = await read_body(request, parse)
    note(request, schedule=name[:253], project=asked.workload.project)
    row = await pool.schedules.set(name, asked, raw, len(json.dumps(raw)), person)
    return json_response(row)


@routes.post("/{name}/suspend", response_model=ScheduleRow, responses=problems(403, 404))
async def suspend_schedule(name: str, pool: ThePool, person: Requester) -> Response:
    """Queue nothing of a schedule until it is resumed."""
    return json_response(await pool.schedules.suspend(name, person, suspended=True))


@routes.post("/{name}/resume", response_model=ScheduleRow, responses=problems(403, 404, 409))
async def resume_schedule(name: str, pool: ThePool, person: Requester) -> Response:
    """Let a schedule go on with its next time."""
    return json_response(await pool.schedules.suspend(name, person, suspended=False))


@routes.post("/{name}/run", response_model=ScheduleRow, responses=problems(403, 404, 409))
async def run_schedule(name: str, pool: ThePool, person: Requester) -> Response:
    """Queue a run of a schedule now; `last` is its workload, and the times of the schedule stay."""
    return json_response(await pool.schedules.run(name, person))


@routes.delete("/{name}", status_code=204, responses=problems(403, 404))
async def delete_schedule(name: str, pool: ThePool, person: Requester) -> Response:
    """Delete a schedule; its workloads stay."""
    await pool.schedules.delete(name, person)
    return Response(status_code=204)
