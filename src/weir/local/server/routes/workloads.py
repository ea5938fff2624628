"""Workloads: queued, listed, explained, stopped, suspended, resumed, run again; their output."""

import asyncio
import json
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from weir.api.answers import (
    DependencyRow,
    EventRow,
    IdleRulesRow,
    Status,
    Type,
    WorkloadDetail,
    WorkloadPage,
    WorkloadRow,
)
from weir.api.comma_lists import comma_words, user_words
from weir.api.series import SeriesAnswer, SeriesRow
from weir.api.submissions import ExtensionAsked, PriorityAsked, Submission
from weir.control.journal import LaunchSpec, WorkloadRecord
from weir.control.metric_series import UNITS
from weir.local.server.access.audit_middleware import note
from weir.local.server.access.authorization import Action, Person, may
from weir.local.server.home.series_store import REPORTED
from weir.local.server.http.problem_details import RequestRefused, field_refusal, read_as, read_body
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.output.pod_logs import (
    ALL_PODS,
    NUMBER_MAX,
    TAIL_MAX,
    PodLog,
    in_log_thread,
    pod_numbers,
)
from weir.local.server.output.workload_logs import EVENT_STREAM, WorkloadLog, log_events, plain_text
from weir.local.server.pool import PoolService
from weir.local.server.requests.idle_extensions import extend as extend_workload
from weir.local.server.routes.common import (
    BODY_REFUSALS,
    After,
    Limit,
    Requester,
    ThePool,
    among,
    find_stored,
    json_response,
    position,
    problems,
    refuse_large,
    takes,
)
from weir.local.server.routes.history import Since, moment
from weir.local.server.state.workload_lookup import live_name
from weir.local.server.views.event_log import event_row
from weir.local.server.views.gpu_isolation import GpuIsolation, gpu_isolation
from weir.local.server.views.workload_view import filter_rows, gpus_held
from weir.local.starts.session_programs import kind_of
from weir.model.array_indices import index_name, read_indices
from weir.model.workloads import Workload
from weir.service.idle_times import idle_rules_row
from weir.service.queue_rows import VIRTUAL_LABEL
from weir.store.records import WorkloadFilter

routes = APIRouter(prefix="/api/v1/workloads", tags=["workloads"], route_class=StrictRoute)
STATUSES: tuple[str, ...] = get_args(Status)
TYPES: tuple[str, ...] = get_args(Type)
EVENTS_SHOWN = 20
HIDDEN = "(hidden)"
"""Shown in place of a value of someone else's environment."""


@routes.get("", response_model=WorkloadPage, responses=problems(422))
async def list_workloads(
    pool: ThePool,
    _person: Requester,
    project: Annotated[str | None, Query(max_length=4096, description="Comma-separated projects.")] = None,
    status: Annotated[str | None, Query(max_length=4096, description="Comma-separated statuses.")] = None,
    type: Annotated[str | None, Query(max_length=4096, description="Comma-separated types.")] = None,  # noqa: A002
    user: Annotated[str | None, Query(max_length=4096, description="Comma-separated users.")] = None,
    q: Annotated[str, Query(max_length=256, description="Part of a name, a project or a user.")] = "",
    all: Annotated[bool, Query(description="Include ended workloads.")] = False,  # noqa: A002
    since: Since = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """Workloads, newest first."""
    cursor = position(after)
    statuses = among("status", status, STATUSES)
    wanted = WorkloadFilter(
        projects=comma_words(project) or None,
        statuses=statuses or None,
        types=among("type", type, TYPES) or None,
        users=user_words(user) or None,
        q=q,
        ended=all or not {"succeeded", "failed", "stopped"}.isdisjoint(statuses),
        since_s=0.0 if since is None else moment("since", since, pool.clock(), pool.clock.ahead_s),
    )
    if wanted.ended:
        return json_response(pool.on_wall_clock(await _page_of(pool, wanted, limit, cursor)))
    rows = filter_rows(pool.view.listed(), wanted)
    total = len(rows)
    if cursor is not None:
        rows = [row for row in rows if row.uid < cursor]
    shown = [pool.view.with_reason(row) for row in rows[:limit]]
    next_page = str(shown[-1].uid) if len(rows) > limit else None
    return json_response(
        pool.on_wall_clock(
            WorkloadPage.model_construct(total=total, next=next_page, items=shown, **_pool_numbers(pool))
        )
    )


def _pool_numbers(pool: PoolService) -> dict[str, Any]:
    in_use = sum(gpus_held(line) for line in list(pool.view.workloads.values()) if line.pods)
    return {"trouble": pool.trouble, "gpus": pool.node.gpus, "gpus_in_use": in_use}


async def _page_of(pool: PoolService, wanted: WorkloadFilter, limit: int, cursor: int | None) -> WorkloadPage:
    live = {row.uid: row.status for row in pool.view.listed() if row.status != "pending"}
    page = await asyncio.to_thread(pool.store.workloads.page, wanted, live=live, after=cursor, limit=limit)
    items = []
    for stored in page.items:
        row = pool.view.rows.get(stored.uid) or pool.view.arrays.row_of(stored.uid)
        items.append(stored if row is None else pool.view.with_reason(row))
    after = None if page.after is None else str(page.after)
    return WorkloadPage.model_construct(total=page.total, next=after, items=items, **_pool_numbers(pool))


@routes.post(
    "",
    status_code=201,
    response_model=WorkloadDetail,
    responses=problems(403, 404, *BODY_REFUSALS, 409),
    openapi_extra=takes(Submission, "The workload; every pod of it runs `command`."),
)
async def submit(request: Request, pool: ThePool, person: Requester) -> Response:
    """Queue a workload."""

    def parse(body: bytes) -> tuple[Submission, dict[str, object], int]:
        refuse_large(len(body), pool, "The workload")
        asked = read_as(Submission, body, "The submission", pool.priority_classes)
        raw = json.loads(body)
        raw.pop("name", None)
        return asked, raw, len(body)

    asked, raw, size = await read_body(request, parse)
    record, row = await pool.submit(asked, raw, size, person)
    note(request, workload=row.name, project=row.project)
    return json_response(pool.on_wall_clock(_detail_of_new(record, row, pool)), 201)


def _detail_of_new(record: WorkloadRecord, row: WorkloadRow, pool: PoolService) -> WorkloadDetail:
    launch = record.launch
    return WorkloadDetail.model_construct(
        **dict(row), command=list(launch.command), env=dict(launch.environment), **_as_submitted(record, pool)
    )


def _as_submitted(record: WorkloadRecord, pool: PoolService) -> dict[str, Any]:
    """Return the details that a workload keeps from its submission, but for its command and environment."""
    launch, container = record.launch, record.launch.container
    request = record.workload.groups[0].request
    begin_s = record.conditions.begin_wall_s
    return {
        "secrets": dict(launch.secrets),
        "directory": launch.directory,
        "session": kind_of(launch.environment),
        "image": None if container is None else container.image,
        "pull": None if container is None else container.pull,
        "pod_cpu": request.cpu_milli / 1000 if request.cpu_milli else None,
        "pod_memory": request.memory or None,
        "max_runtime_s": record.workload.max_runtime_s,
        "begin_s": None if begin_s is None else pool.clock.from_wall(begin_s),
        "dependencies": [
            DependencyRow(name=dependency.name, uid=dependency.uid, condition=dependency.condition.value)
            for dependency in record.conditions.dependencies
        ],
    }


@routes.get("/{name}", response_model=WorkloadDetail, responses=problems(404))
async def describe(name: str, pool: ThePool, person: Requester) -> Response:
    """Return all details of the newest workload of a name, or of the workload with a uid.

    Command and environment only for people of its project.
    """
    stored_workload, row = await find_stored(pool, name)
    if not pool.may_see(person, row.project, row.submitted_s):
        return json_response(pool.on_wall_clock(WorkloadDetail.model_construct(**dict(row))))
    launch = stored_workload.record.launch
    line = pool.view.workloads.get(row.name)
    if line is not None and line.uid != row.uid:
        line = None
    page = await asyncio.to_thread(pool.store.events.page, uid=row.uid, limit=EVENTS_SHOWN)
    reported = pool.reported.get(row.name)
    if reported is not None and reported.uid != row.uid:
        reported = None
    events: list[EventRow] = [event_row(event) for event in page.items]
    isolation = _isolation(pool, stored_workload.record.workload, is_over=line is None)
    detail = WorkloadDetail.model_construct(
        **dict(row),
        pod_rows=pool.view.pod_rows(line) if line is not None else [],
        command=list(launch.command) or None,
        env=_shown(launch, row.project, row.user, person),
        **_as_submitted(stored_workload.record, pool),
        idle_rules=_idle_rules(pool, stored_workload.record.workload) if row.ended_s is None else None,
        gpu_access=isolation.access,
        gpu_access_by=isolation.access_by or None,
        gpu_memory=isolation.memory,
        gpu_memory_by=isolation.memory_by or None,
        gpu_memory_why=isolation.memory_why or None,
        checkpoints=str(pool.home / "checkpoints" / str(row.uid)) if row.array is None else None,
        checkpointed_s=line.saved_s if line is not None else stored_workload.record.saved_s,
        step=reported.step if reported else None,
        reported=dict(reported.values or {}) if reported else {},
        events=events,
    )
    return json_response(pool.on_wall_clock(detail))


def _idle_rules(pool: PoolService, workload: Workload) -> IdleRulesRow | None:
    return idle_rules_row(workload, pool.inventory.queues_by_name.get(workload.project), pool.policy.life)


def _isolation(pool: PoolService, workload: Workload, *, is_over: bool) -> GpuIsolation:
    """Return how the GPUs of a workload are kept for it now."""
    foreign = [index for (_, index), use in pool.device_use.items() if use.foreign]
    return gpu_isolation(
        workload,
        pool.device_rules,
        virtual=VIRTUAL_LABEL in pool.node.labels,
        memory_not_limited=(
            "it doesn't run"
            if is_over or pool.gpu_memory is None
            else pool.gpu_memory.why_not(workload.name, foreign)
        ),
    )


def _shown(launch: LaunchSpec, project: str, user: str, person: Person) -> dict[str, str] | None:
    """Return the environment as a member of the project may see it: values only of their own workloads.

    The answer is None if it was removed.
    """
    if not launch.command:
        return None  # removed
    if may(person, Action.READ_ENVIRONMENT, project, owner=user):
        return dict(launch.environment)
    return dict.fromkeys((name for name, _ in launch.environment), HIDDEN)


@routes.get("/{name}/series", response_model=SeriesAnswer, responses=problems(403, 404))
async def series(name: str, pool: ThePool, person: Requester) -> Response:
    """Return the curves of a workload: its reports, and its usage of GPUs, processors and memory."""
    _, row = await find_stored(pool, name)
    pool.require_visible(person, row.project, row.submitted_s)
    rows = [
        SeriesRow(
            name=key.removeprefix(REPORTED),
            kind="reported" if key.startswith(REPORTED) else "measured",
            unit=UNITS.get(key, ""),
            points=[(at_s + pool.clock.ahead_s, value) for at_s, value in points],
        )
        for key, points in (await asyncio.to_thread(pool.series.series_of, row.uid)).items()
    ]
    virtual = VIRTUAL_LABEL in pool.node.labels
    return json_response(SeriesAnswer(name=row.name, stands_in=virtual, series=rows))


# Actions


@routes.post("/{name}/stop", response_model=WorkloadRow, responses=problems(403, 404, 409))
async def stop(name: str, pool: ThePool, person: Requester) -> Response:
    """Stop a workload for good."""
    return json_response(pool.on_wall_clock(await pool.stop(name, person)))


@routes.post("/{name}/suspend", response_model=WorkloadRow, responses=problems(403, 404, 409))
async def suspend(name: str, pool: ThePool, person: Requester) -> Response:
    """Suspend a workload: it releases its devices and waits until it is resumed."""
    return json_response(pool.on_wall_clock(await pool.suspend(name, person)))


@routes.post("/{name}/resume", response_model=WorkloadRow, responses=problems(403, 404, 409))
async def resume(name: str, pool: ThePool, person: Requester) -> Response:
    """Let a suspended workload go on."""
    return json_response(pool.on_wall_clock(await pool.resume(name, person)))


@routes.post(
    "/{name}/rerun", status_code=201, response_model=WorkloadDetail, responses=problems(403, 404, 409, 422)
)
async def rerun(
    name: str,
    pool: ThePool,
    person: Requester,
    failed: Annotated[bool, Query(description="Of an array, only the indices that failed.")] = False,
) -> Response:
    """Submit an ended workload again, under the same name. Indices of a live array are queued again in it."""
    record, row = await pool.reruns.rerun(name, person, failed=failed)
    return json_response(pool.on_wall_clock(_detail_of_new(record, row, pool)), 201)


@routes.post(
    "/{name}/priority",
    response_model=WorkloadRow,
    responses=problems(403, 404, 409, *BODY_REFUSALS),
    openapi_extra=takes(PriorityAsked, "The priority."),
)
async def set_priority(name: str, request: Request, pool: ThePool, person: Requester) -> Response:
    """Change the priority of a workload, up to the highest of the person in its project."""
    asked = await read_body(
        request, lambda body: read_as(PriorityAsked, body, "The priority", pool.priority_classes)
    )
    note(request, priority=asked.priority)
    return json_response(pool.on_wall_clock(await pool.set_priority(name, asked.priority, person)))


@routes.post(
    "/{name}/extend",
    response_model=WorkloadRow,
    responses=problems(403, 404, *BODY_REFUSALS),
    openapi_extra=takes(ExtensionAsked, "How long."),
)
async def extend(name: str, request: Request, pool: ThePool, person: Requester) -> Response:
    """Keep the idle rules away from a workload for a while, up to `life.max_idle_extend` from now."""
    asked = await read_body(request, lambda body: read_as(ExtensionAsked, body, "The extension"))
    note(request, duration_s=asked.duration)
    return json_response(pool.on_wall_clock(await extend_workload(pool, name, asked.duration, person)))


# Output


@routes.get(
    "/{name}/logs",
    response_class=StreamingResponse,
    responses={
        200: {"content": {kind: {"schema": {"type": "string"}} for kind in ("text/plain", EVENT_STREAM)}},
        **problems(403, 404, 422),
    },
)
async def logs(
    name: str,
    request: Request,
    pool: ThePool,
    person: Requester,
    pod: Annotated[
        str | None,
        Query(
            max_length=300, description="Pod as group/index, or all for all pods; the first pod by default."
        ),
    ] = None,
    start: Annotated[
        int | None, Query(ge=1, le=NUMBER_MAX, description="Number of the start; the last one by default.")
    ] = None,
    tail: Annotated[
        int | None, Query(ge=0, le=TAIL_MAX, description="The number of last lines; all by default.")
    ] = None,
    follow: Annotated[bool, Query(description="Go on as it comes, over restarts, until it is over.")] = False,
) -> Response:
    """Return the output of a pod; with `pod=all` of all pods, each line with the name of its pod.

    A follower that accepts events gets output in base64, and may resume it with `Last-Event-ID`. The field
    `begins` names the later starts whose output follows, and `begun` has their times in seconds.
    """
    name = live_name(pool.view, name)
    line = pool.view.workloads.get(name)
    if line is None:
        stored_workload, stored = await find_stored(pool, name)
        if stored.array is not None:
            one = index_name(stored.name, read_indices(stored.array.written).indices[0])
            raise RequestRefused(409, f"{name} is an array: name one of its indices, such as {one}.")
        uid, spec = stored_workload.row.uid, stored_workload.record.workload
    else:
        uid, spec = line.uid, line.spec
    pool.require_visible(person, spec.project, spec.submitted_s, Action.READ_OUTPUT, spec.user)
    log = (
        WorkloadLog(pool.home, uid, spec)
        if pod == ALL_PODS
        else PodLog(pool.home, uid, pod_numbers(spec, pod))
    )
    if start is not None and isinstance(log, PodLog) and start not in await in_log_thread(log.starts):
        raise field_refusal("start", f"{name} has no start {start} of this pod", 404)
    if not follow:
        return StreamingResponse(log.text(start, tail), media_type="text/plain; charset=utf-8")

    def is_over() -> bool:
        current = pool.view.workloads.get(name)
        return pool.closing or current is None or current.uid != uid

    if EVENT_STREAM not in request.headers.get("accept", ""):
        pieces = log.follow(start, tail, is_over)
        return StreamingResponse(plain_text(pieces), media_type="text/plain; charset=utf-8")
    pieces = log.follow(start, tail, is_over, log.positions(request.headers.get("last-event-id")))
    return StreamingResponse(log_events(uid, pieces, lambda: pool.closing), media_type=EVENT_STREAM)
