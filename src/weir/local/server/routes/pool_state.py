"""The pool as a whole: its status, nodes, events, use, the next decision as a scenario."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Response

from weir import __version__
from weir.api.answers import EventPage, PoolStatus
from weir.api.comma_lists import comma_words
from weir.local.server.access.authorization import Action, may, require
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.routes.common import (
    After,
    Limit,
    Requester,
    ThePool,
    json_response,
    position,
    problems,
)
from weir.local.server.state.workload_lookup import parse_uid
from weir.local.server.views.event_log import event_row
from weir.service.cluster_snapshot import cluster_alone, read_cluster, snapshot
from weir.service.queue_rows import VIRTUAL_LABEL, node_rows

routes = APIRouter(prefix="/api/v1", tags=["pool"], route_class=StrictRoute)


@routes.get("/status", response_model=PoolStatus, responses=problems())
async def status(pool: ThePool, _person: Requester) -> Response:
    """Return the state of the pool."""
    running, pending = pool.view.counts()
    learned = pool.session_headroom.learned
    trouble = await pool.probed_trouble()
    rows = await pool.query(lambda cluster: node_rows(cluster, pool.device_use))
    answer = PoolStatus(
        version=__version__,
        nodes=len(rows),
        devices=sum(len(row.devices) for row in rows),
        allocated=sum(device.allocated for row in rows for device in row.devices),
        running=running.total(),
        pending=pending.total(),
        policy=pool.policy.preset,
        started_s=pool.started_s,
        virtual=pool.node.labels.get(VIRTUAL_LABEL) == "true",
        trouble=trouble,
        certificate_ends_s=pool.certificate_ends_s(),
        session_headroom=None if learned is None else learned.devices,
        session_headroom_why="" if learned is None else learned.sentence,
    )
    return json_response(pool.on_wall_clock(answer))


@routes.get("/events", response_model=EventPage, responses=problems(422))
async def events(
    pool: ThePool,
    person: Requester,
    workload: Annotated[str | None, Query(max_length=253)] = None,
    project: Annotated[str | None, Query(max_length=4096, description="Comma-separated projects.")] = None,
    kind: Annotated[str | None, Query(max_length=4096, description="Comma-separated kinds.")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Return events, newest first, of the requester's projects. `workload` is a name or a uid."""
    uid = None if workload is None else parse_uid(workload)
    page = await asyncio.to_thread(
        pool.store.events.page,
        workload=workload if uid is None else None,
        uid=uid,
        projects=comma_words(project),
        visible=None if may(person, Action.ADMINISTER) else pool.created_at(person.scopes),
        kinds=comma_words(kind),
        after=position(after),
        limit=limit,
    )
    items = [event_row(event) for event in page.items]
    next_page = None if page.after is None else str(page.after)
    answer = EventPage.model_construct(total=page.total, next=next_page, items=items)
    return json_response(pool.on_wall_clock(answer))


@routes.get(
    "/snapshot",
    response_class=Response,
    responses={200: {"content": {"text/yaml": {}}}, **problems(403)},
)
async def snapshot_of_pool(
    pool: ThePool,
    person: Requester,
    workloads: Annotated[bool, Query(description="False: the cluster alone, for replays.")] = True,
) -> Response:
    """Return the pool as a scenario; its first cycle makes the pool's next decisions."""
    require(person, Action.ADMINISTER)
    read = await pool.query(lambda cluster: read_cluster(cluster, pool.policy))
    text = await asyncio.to_thread(snapshot if workloads else cluster_alone, read, pool.clock())
    return Response(text, media_type="text/yaml; charset=utf-8")
