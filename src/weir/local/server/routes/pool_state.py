"""The pool as a whole: its status, nodes, events, use, the next decision as a scenario."""

import asyncio
import math
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Query, Response

from weir import __version__
from weir.api.answers import EventPage, PoolStatus, UsageReport
from weir.local.server.auth import require_admin
from weir.local.server.event_log import event_row
from weir.local.server.problem_details import RequestRefused
from weir.local.server.routes.common import After, Limit, ThePool, Who, position, problems, said
from weir.local.server.workload_lookup import parse_uid
from weir.model.resources import seconds
from weir.service.cluster_copy import cluster_facts
from weir.service.cluster_snapshot import snapshot
from weir.service.queue_rows import VIRTUAL_LABEL, node_rows

routes = APIRouter(prefix="/api/v1", tags=["pool"])
By = Literal["project", "department", "user", "type", "node"]
BYS: tuple[str, ...] = get_args(By)
_WEEK_S = 7 * 86400.0
_EPOCH_LEAST_S = 1e8
"""A number from here on is a time since the epoch, a smaller one a span before now."""


@routes.get("/status", response_model=PoolStatus, responses=problems())
async def status(pool: ThePool, _who: Who) -> Response:
    """Return the state of the pool."""
    running, pending = pool.view.counts()
    rows = await pool.query(lambda cluster: node_rows(cluster, pool.device_use))
    found = PoolStatus(
        version=__version__,
        nodes=len(rows),
        devices=sum(len(row.devices) for row in rows),
        allocated=sum(device.allocated for row in rows for device in row.devices),
        running=running.total(),
        pending=pending.total(),
        policy=pool.policy.preset,
        started_s=pool.started_s,
        virtual=pool.node.labels.get(VIRTUAL_LABEL) == "true",
        trouble=pool.trouble,
    )
    return said(pool.on_wall_clock(found))


@routes.get("/events", response_model=EventPage, responses=problems(422))
async def events(
    pool: ThePool,
    who: Who,
    workload: Annotated[str | None, Query(max_length=253)] = None,
    project: Annotated[str | None, Query(max_length=253)] = None,
    kind: Annotated[str | None, Query(max_length=64)] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Return events, newest first, of the requester's projects. `workload` is a name or a uid."""
    uid = None if workload is None else parse_uid(workload)
    page = await asyncio.to_thread(
        pool.store.events,
        workload=workload if uid is None else None,
        uid=uid,
        project=project,
        projects=None if who.is_admin else pool.created_at(who.projects),
        kind=kind,
        after=position(after),
        limit=limit,
    )
    items = [event_row(each) for each in page.items]
    more = None if page.after is None else str(page.after)
    return said(pool.on_wall_clock(EventPage.model_construct(total=page.total, next=more, items=items)))


@routes.get("/usage", response_model=UsageReport, responses=problems(403, 422))
async def usage(
    pool: ThePool,
    who: Who,
    since: Annotated[str | None, Query(max_length=64, description="7d, or seconds since the epoch.")] = None,
    until: Annotated[str | None, Query(max_length=64, description="As since; by default now.")] = None,
    by: Annotated[By, Query(description="Key of the sums.")] = "project",
) -> Response:
    """Return allocated, used and idle GPU time, and time spent pending."""
    if by == "user" and pool.hides_others:
        require_admin(who)
    now_s, ahead_s = pool.clock(), pool.clock.ahead_s
    since_s = now_s - _WEEK_S if since is None else _moment("since", since, now_s, ahead_s)
    until_s = now_s if until is None else _moment("until", until, now_s, ahead_s)
    if since_s >= until_s:
        message = "since: isn't before until; write an earlier one"
        raise RequestRefused(422, message, [{"field": "since", "message": message}])
    return said(
        pool.on_wall_clock(await asyncio.to_thread(pool.store.usage, since_s, until_s, by, now_s=now_s))
    )


def _moment(name: str, text: str, now_s: float, ahead_s: float) -> float:
    """Return a time of the timeline, from an epoch time of the wall clock or a span before now.

    Raises:
        Refused: it is neither.
    """
    try:
        number: float | None = float(text)
    except ValueError:
        number = None
    try:
        if number is not None and math.isfinite(number) and number >= _EPOCH_LEAST_S:
            return min(number - ahead_s, now_s)
        return max(0.0, now_s - abs(seconds(text if number is None else number)))
    except ValueError as error:
        message = f"{name}: {error}"
        raise RequestRefused(422, message, [{"field": name, "message": message}]) from None


@routes.get(
    "/snapshot",
    response_class=Response,
    responses={200: {"content": {"text/yaml": {}}}, **problems(403)},
)
async def snapshot_of_pool(pool: ThePool, who: Who) -> Response:
    """Return the pool as a scenario; its first cycle makes the pool's next decisions."""
    require_admin(who)
    picture = await pool.query(cluster_facts)
    text = await asyncio.to_thread(snapshot, picture, pool.policy, pool.clock())
    return Response(text, media_type="text/yaml; charset=utf-8")
