"""Previews of changed departments and projects: checked like the change, tried on a branch of the state."""

from functools import partial

from fastapi import APIRouter, Request, Response

from weir.api.previews import QuotaPreview
from weir.local.server.access.authorization import Person
from weir.local.server.changes.delegated_quotas import check_scope
from weir.local.server.changes.queue_changes import checked_queue, following_departments
from weir.local.server.http.problem_details import read_as, read_body
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.pool import PoolService
from weir.local.server.routes.common import BODY_REFUSALS, Requester, ThePool, json_response, problems, takes
from weir.local.server.state.pool_inventory import PoolInventory
from weir.model.queues import Queue
from weir.scenario_io.specs import DepartmentEntry, ProjectEntry
from weir.service.quota_preview import preview_queues

routes = APIRouter(prefix="/api/v1", tags=["queues"], route_class=StrictRoute)


def _add_route(kind: str, form: type[DepartmentEntry | ProjectEntry]) -> None:
    @routes.post(
        f"/{kind}s/{{name}}/preview",
        name=f"preview_{kind}",
        description=f"Return the workloads that would stop and start if a {kind} were set like this. "
        "Nothing changes.",
        response_model=QuotaPreview,
        responses=problems(403, *BODY_REFUSALS),
        openapi_extra=takes(form, "The complete object, as it would be set."),
    )
    async def preview(name: str, request: Request, pool: ThePool, person: Requester) -> Response:
        entry = await read_body(
            request, lambda body: read_as(form, body, f"The {kind}", pool.priority_classes)
        )
        return json_response(await _preview(pool, entry, name, person))


_add_route("project", ProjectEntry)
_add_route("department", DepartmentEntry)


async def _preview(
    pool: PoolService, entry: DepartmentEntry | ProjectEntry, name: str, person: Person
) -> QuotaPreview:
    inventory = pool.inventory
    before = inventory.queues_by_name.get(name)
    parent = entry.department if isinstance(entry, ProjectEntry) else entry.parent
    check_scope(person, {parent, *(() if before is None else (before.parent,))})
    queue = checked_queue(entry, name=name, now_s=pool.clock(), inventory=inventory)
    queues = parents_first([queue, *following_departments(queue, name, inventory)], inventory)
    async with pool.suggesting.turn(person):
        outcome = await pool.read_state(lambda ask: ask(partial(preview_queues, queues=queues)))
    return outcome.answer(pool.view.row)


def parents_first(changed: list[Queue], inventory: PoolInventory) -> list[Queue]:
    """Return all departments and projects with these changes, each after its parent."""
    queues = {queue.name: queue for queue in (*inventory.queues, *changed)}

    def depth(queue: Queue) -> int:
        level, ancestor = 0, queue.parent
        while ancestor is not None and level <= len(queues):
            level, ancestor = level + 1, queues[ancestor].parent
        return level

    return sorted(queues.values(), key=depth)
