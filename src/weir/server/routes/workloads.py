"""Workloads: queued, listed, explained, stopped, suspended, resumed, run again; their output."""

import asyncio
import json
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from weir.backends.local.journal import Kept
from weir.cluster.state import Cluster
from weir.decide.explain import reason
from weir.model.pool import (
    EventRow,
    Status,
    Submission,
    Type,
    WhyAnswer,
    WorkloadDetail,
    WorkloadPage,
    WorkloadRow,
)
from weir.server.amounts import above, queue_rows
from weir.server.auth import acts_only
from weir.server.copying import Picture, picture_of
from weir.server.lines import wanted_rows
from weir.server.logs import NUMBER_MOST, TAIL_MOST, Log, pod_numbers
from weir.server.pool import Pool, event_row
from weir.server.problems import Refused, body_of, read_as
from weir.server.reasons import why_of
from weir.server.routes.common import (
    After,
    Limit,
    ThePool,
    Who,
    among,
    position,
    problems,
    said,
    takes,
    words,
)
from weir.server.suggest import suggestions
from weir.store import Listed, Recorded, Wanted

routes = APIRouter(prefix="/api/v1/workloads", tags=["workloads"])
STATUSES: tuple[str, ...] = get_args(Status)
TYPES: tuple[str, ...] = get_args(Type)
EVENTS_SHOWN = 20


@routes.get("", response_model=WorkloadPage, responses=problems(422))
async def list_workloads(
    pool: ThePool,
    _who: Who,
    project: Annotated[str | None, Query(max_length=4096, description="Projects, between commas.")] = None,
    status: Annotated[str | None, Query(max_length=4096, description="Statuses, between commas.")] = None,
    type: Annotated[str | None, Query(max_length=4096, description="Types, between commas.")] = None,  # noqa: A002
    user: Annotated[str | None, Query(max_length=4096, description="Users, between commas.")] = None,
    q: Annotated[str, Query(max_length=256, description="Part of a name, a project or a user.")] = "",
    all: Annotated[bool, Query(description="Those that are over too.")] = False,  # noqa: A002
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Workloads, newest first."""
    at = position(after)
    statuses, types = among("status", status, STATUSES), among("type", type, TYPES)
    projects, users = words(project), words(user)
    if all or set(statuses) & {"succeeded", "failed", "stopped"}:
        wanted = Wanted(
            projects=projects or None,
            statuses=statuses or None,
            types=types or None,
            users=users or None,
            q=q,
            ended=True,
        )
        return said(await _page_of_all(pool, wanted, limit, at))
    rows = wanted_rows(pool.view.all(), projects=projects, statuses=statuses, types=types, users=users, q=q)
    total = len(rows)
    if at is not None:
        rows = [row for row in rows if row.uid < at]
    shown = [pool.view.reasoned(row) for row in rows[:limit]]
    more = str(shown[-1].uid) if len(rows) > limit else None
    return said(WorkloadPage.model_construct(total=total, next=more, items=shown))


async def _page_of_all(pool: Pool, wanted: Wanted, limit: int, at: int | None) -> WorkloadPage:
    live = {row.uid: row.status for row in list(pool.view.rows.values()) if row.status != "pending"}
    page = await asyncio.to_thread(pool.store.workloads, wanted, live=live, after=at, limit=limit)
    items = []
    for listed in page.items:
        row = pool.view.rows.get(listed.uid)
        items.append(row_of(listed) if row is None else pool.view.reasoned(row))
    after = None if page.after is None else str(page.after)
    return WorkloadPage.model_construct(total=page.total, next=after, items=items)


def row_of(listed: Listed) -> WorkloadRow:
    """A row of what the store remembers."""
    why = {"why": listed.status, "sentence": listed.sentence} if listed.sentence else None
    values: dict[str, Any] = {
        name: getattr(listed, name) for name in WorkloadRow.model_fields if hasattr(listed, name)
    }
    return WorkloadRow.model_validate({**values, "pods_running": 0, "reason": why})


@routes.post(
    "",
    status_code=201,
    response_model=WorkloadDetail,
    responses=problems(403, 404, 409, 413, 422),
    openapi_extra=takes(Submission, "The workload; every pod of it runs `command`."),
)
async def submit(request: Request, pool: ThePool, who: Who) -> Response:
    """Queue a workload."""
    body = await body_of(request)
    asked = read_as(Submission, body, "The submission")
    raw = json.loads(body)
    raw.pop("name", None)
    kept, row = await pool.submit(asked, raw, who)
    return said(_detail_of_new(kept, row), 201)


def _detail_of_new(kept: Kept, row: WorkloadRow) -> WorkloadDetail:
    return WorkloadDetail.model_construct(
        **dict(row),
        command=list(kept.launch.command),
        env=dict(kept.launch.environment),
        directory=kept.launch.directory,
        max_runtime_s=kept.workload.max_runtime_s,
    )


@routes.get("/{name}", response_model=WorkloadDetail, responses=problems(404))
async def describe(name: str, pool: ThePool, who: Who) -> Response:
    """All that is known of the newest workload of a name. Command and environment only for its project."""
    recorded, row = await _found(pool, name)
    if not who.acts_in(row.project):
        return said(WorkloadDetail.model_construct(**dict(row)))
    launch = recorded.kept.launch
    line = pool.view.lines.get(name)
    if line is not None and line.uid != row.uid:
        line = None
    page = await asyncio.to_thread(pool.store.events, uid=row.uid, limit=EVENTS_SHOWN)
    reported = pool.reported.get(name)
    if reported is not None and reported.uid != row.uid:
        reported = None
    events: list[EventRow] = [event_row(each) for each in page.items]
    return said(
        WorkloadDetail.model_construct(
            **dict(row),
            pod_rows=pool.view.pod_rows(line) if line is not None else [],
            command=list(launch.command),
            env=dict(launch.environment),
            directory=launch.directory,
            max_runtime_s=recorded.kept.workload.max_runtime_s,
            checkpointed_s=line.saved_s if line is not None else recorded.kept.saved_s,
            step=reported.step if reported else None,
            reported=dict(reported.values or {}) if reported else {},
            events=events,
        )
    )


async def _found(pool: Pool, name: str) -> tuple[Recorded, WorkloadRow]:
    """The newest workload of a name."""
    recorded = await asyncio.to_thread(pool.store.workload, name)
    if recorded is None:
        raise Refused(404, f"There is no workload {name[:80]}; `weir list -A` shows which there are.")
    row = pool.view.rows.get(recorded.listed.uid) or pool.view.ended.get(recorded.listed.uid)
    return recorded, row_of(recorded.listed) if row is None else pool.view.reasoned(row)


@routes.get("/{name}/why", response_model=WhyAnswer, responses=problems(404))
async def why(name: str, pool: ThePool, who: Who) -> Response:
    """Why a workload waits, its queues' numbers, and what would let it start."""
    row = pool.view.row(name)
    if row is None:
        _, row = await _found(pool, name)
        return said(WhyAnswer(name=name, status=row.status, reason=row.reason))
    running, pending = pool.view.counts()

    def read(cluster: Cluster) -> tuple[WhyAnswer, Picture | None]:
        now_s = pool.clock()
        job = cluster.jobs.get(name)
        rows = queue_rows(cluster, pool.policy, now_s, running, pending)
        queues = above(rows, row.project)
        status = row.status
        if job is None:
            return WhyAnswer(name=name, status=status, reason=row.reason, queues=queues), None
        found = why_of(reason(cluster, pool.policy, job, now_s)) if status == "pending" else row.reason
        place, waiting = _place(cluster, name)
        answer = WhyAnswer(
            name=name, status=status, reason=found, position=place, waiting=waiting, queues=queues
        )
        tries = status == "pending" and who.acts_in(row.project)
        with_usage = pool.policy.usage.k > 0
        return answer, picture_of(cluster, with_usage=with_usage) if tries else None

    answer, picture = await pool.ask(read)
    if picture is not None:
        async with pool.trying:
            found = await asyncio.to_thread(suggestions, picture, pool.policy, name)
        answer = answer.model_copy(update={"suggestions": found})
    return said(answer)


def _place(cluster: Cluster, name: str) -> tuple[int | None, int]:
    """Which it is among the waiting of its project, and of how many."""
    job = cluster.jobs[name]
    keys = [
        of.line_key(at) for of in cluster.waiting_of.get(job.project, ()) for at in range(len(of.members))
    ]
    if job.waiting is None:
        return None, len(keys)
    mine = next(job.waiting.line_key(at) for at, member in enumerate(job.waiting.members) if member[2] is job)
    return 1 + sum(key < mine for key in keys), len(keys)


# What is done to them


@routes.post("/{name}/stop", response_model=WorkloadRow, responses=problems(403, 404, 409))
async def stop(name: str, pool: ThePool, who: Who) -> Response:
    """End a workload for good: its pods are told to stop."""
    return said(await pool.stop(name, who))


@routes.post("/{name}/suspend", response_model=WorkloadRow, responses=problems(403, 404, 409))
async def suspend(name: str, pool: ThePool, who: Who) -> Response:
    """Have a workload give back what it holds and wait until it is resumed."""
    return said(await pool.suspend(name, who))


@routes.post("/{name}/resume", response_model=WorkloadRow, responses=problems(403, 404, 409))
async def resume(name: str, pool: ThePool, who: Who) -> Response:
    """Let a suspended workload go on."""
    return said(await pool.resume(name, who))


@routes.post(
    "/{name}/rerun", status_code=201, response_model=WorkloadDetail, responses=problems(403, 404, 409, 422)
)
async def rerun(name: str, pool: ThePool, who: Who) -> Response:
    """Submit a workload that has ended anew, under the same name."""
    kept, row = await pool.rerun(name, who)
    return said(_detail_of_new(kept, row), 201)


# Output


@routes.get(
    "/{name}/logs",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems(403, 404, 422)},
)
async def logs(
    name: str,
    pool: ThePool,
    who: Who,
    pod: Annotated[
        str | None, Query(max_length=300, description="group/index; the first pod if none.")
    ] = None,
    start: Annotated[
        int | None, Query(ge=1, le=NUMBER_MOST, description="Which start; the last if none.")
    ] = None,
    tail: Annotated[int | None, Query(ge=0, le=TAIL_MOST, description="Only so many last lines.")] = None,
    follow: Annotated[bool, Query(description="Go on as it comes, over restarts, until it is over.")] = False,
) -> Response:
    """What a pod put out."""
    line = pool.view.lines.get(name)
    if line is None:
        recorded, _ = await _found(pool, name)
        uid, spec = recorded.listed.uid, recorded.kept.workload
    else:
        uid, spec = line.uid, line.spec
    acts_only(who, spec.project)
    log = Log(pool.home, uid, pod_numbers(spec, pod))
    if start is not None and start not in log.starts():
        message = f"start: {name} has no start {start} of this pod"
        raise Refused(404, message, [{"field": "start", "message": message}])
    if not follow:
        return StreamingResponse(log.text(start, tail), media_type="text/plain; charset=utf-8")

    def is_over() -> bool:
        here = pool.view.lines.get(name)
        return pool.closing or here is None or here.uid != uid

    return StreamingResponse(log.follow(start, tail, is_over), media_type="text/plain; charset=utf-8")
