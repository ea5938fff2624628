"""Departments and projects: their quotas, and their usage."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from weir.api.answers import NEW_QUEUE, QueueDeleted, QueueDetail, QueuePage
from weir.api.priorities import PriorityPage, PriorityRow
from weir.local.server.access.audit_middleware import note
from weir.local.server.access.authorization import Action, Person, may
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
from weir.local.server.state.queue_lookup import no_such_queue
from weir.model.workloads import PREEMPTIBLE_BELOW
from weir.scenario_io.specs import DepartmentEntry, ProjectEntry
from weir.service.queue_rows import queue_detail

routes = APIRouter(prefix="/api/v1", tags=["queues"], route_class=StrictRoute)


async def _page(
    pool: PoolService, kind: str, limit: int, after: str | None, submitter: Person | None = None
) -> Response:
    rows = [row for row in (await pool.queue_rows()).values() if row.kind == kind]
    if submitter is not None:
        rows = [row for row in rows if may(submitter, Action.SUBMIT, row.name)]
    items, next_page = page_of(rows, limit, after)
    return json_response(QueuePage(total=len(rows), next=next_page, items=list(items)))


async def _one(pool: PoolService, kind: str, name: str) -> Response:
    row = (await pool.queue_rows()).get(name)
    if row is None or row.kind != kind:
        raise no_such_queue(kind, name)
    return json_response(queue_detail(row))


@routes.get("/projects", response_model=QueuePage, responses=problems(422))
async def list_projects(
    pool: ThePool,
    person: Requester,
    limit: Limit = 100,
    after: After = None,
    may_submit: Annotated[bool, Query(description="Only those that you may submit to.")] = False,
) -> Response:
    """Return projects, in the order of their tree."""
    return await _page(pool, "project", limit, after, person if may_submit else None)


@routes.get("/departments", response_model=QueuePage, responses=problems(422))
async def list_departments(
    pool: ThePool, _person: Requester, limit: Limit = 100, after: After = None
) -> Response:
    """Departments, parents first."""
    return await _page(pool, "department", limit, after)


@routes.get("/projects/{name}", response_model=QueueDetail, responses=problems(404))
async def project(name: str, pool: ThePool, _person: Requester) -> Response:
    """Return a project."""
    return await _one(pool, "project", name)


@routes.get("/departments/{name}", response_model=QueueDetail, responses=problems(404))
async def department(name: str, pool: ThePool, _person: Requester) -> Response:
    """Return a department."""
    return await _one(pool, "department", name)


_SET: dict[int | str, dict[str, Any]] = {201: {"model": QueueDetail, "description": "Created."}}
_ABOUT_VERSION = (
    f"Version that the queue must have now, as it was read; {NEW_QUEUE!r}: it must not exist yet. Without a "
    "version the queue changes in any case."
)
Version = Annotated[str | None, Query(max_length=64, description=_ABOUT_VERSION)]


@routes.put(
    "/projects/{name}",
    response_model=QueueDetail,
    responses={**_SET, **problems(403, *BODY_REFUSALS, 409)},
    openapi_extra=takes(ProjectEntry, "The complete object, in the format of scenario files."),
)
async def set_project(
    name: str, request: Request, pool: ThePool, person: Requester, version: Version = None
) -> Response:
    """Create or replace a project; omitted fields get their defaults."""
    entry = await read_body(
        request, lambda body: read_as(ProjectEntry, body, "The project", pool.priority_classes)
    )
    new, row = await pool.queue_changes.set(entry, name, person, version)
    return json_response(queue_detail(row), 201 if new else 200)


@routes.put(
    "/departments/{name}",
    response_model=QueueDetail,
    responses={**_SET, **problems(403, *BODY_REFUSALS, 409)},
    openapi_extra=takes(DepartmentEntry, "The complete object, in the format of scenario files."),
)
async def set_department(
    name: str, request: Request, pool: ThePool, person: Requester, version: Version = None
) -> Response:
    """Create or replace a department. Without a gpu quota it has the sum of its children's."""
    entry = await read_body(request, lambda body: read_as(DepartmentEntry, body, "The department"))
    new, row = await pool.queue_changes.set(entry, name, person, version)
    return json_response(queue_detail(row), 201 if new else 200)


@routes.delete("/projects/{name}", response_model=QueueDeleted, responses=problems(403, 404, 409))
async def delete_project(name: str, request: Request, pool: ThePool, person: Requester) -> Response:
    """Delete a project without workloads; tokens lose it, and its secrets are deleted."""
    deleted = await pool.queue_changes.delete(name, True, person)
    note(request, tokens=[row.id for row in deleted.tokens])
    return json_response(deleted)


@routes.delete("/departments/{name}", response_model=QueueDeleted, responses=problems(403, 404, 409))
async def delete_department(name: str, pool: ThePool, person: Requester) -> Response:
    """Delete a department without children."""
    return json_response(await pool.queue_changes.delete(name, False, person))


@routes.get("/priorities", response_model=PriorityPage)
async def priorities(pool: ThePool, _person: Requester) -> Response:
    """Return the priority classes: names for numbers, accepted wherever a priority is written."""
    ordered = sorted(pool.priority_classes.items(), key=lambda pair: (pair[1], pair[0]))
    rows = [
        PriorityRow(name=name, priority=priority, preemptible=priority < PREEMPTIBLE_BELOW)
        for name, priority in ordered
    ]
    return json_response(PriorityPage(total=len(rows), next=None, items=rows))
