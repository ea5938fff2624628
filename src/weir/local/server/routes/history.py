"""Usage and history over a period."""

import asyncio
import math
from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query, Response

from weir.api.answers import UsageReport
from weir.api.comma_lists import comma_words
from weir.api.history import By, HistoryReport
from weir.local.server.access.authorization import Action, Person, require, visible
from weir.local.server.http.problem_details import field_refusal
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.pool import PoolService
from weir.local.server.routes.common import Requester, ThePool, json_response, problems
from weir.model.nodes import Node
from weir.model.resources import seconds
from weir.service.queue_rows import VIRTUAL_LABEL
from weir.store.reports.by_model import history_by_model, usage_by_model
from weir.store.reports.scope import ReportScope
from weir.store.reports.usage import By as StoredBy

routes = APIRouter(prefix="/api/v1", tags=["history"], route_class=StrictRoute)
_WEEK_S = 7 * 86400.0
_EPOCH_MIN_S = 1e8
"""Smallest number that counts as a time since the epoch; smaller ones are spans before now."""
Since = Annotated[str | None, Query(max_length=64, description="7d, or seconds since the epoch.")]
Until = Annotated[str | None, Query(max_length=64, description="As since; by default now.")]
SumsBy = Annotated[By, Query(description="Key of the sums.")]
Projects = Annotated[str | None, Query(max_length=4096, description="Comma-separated projects.")]


@routes.get("/usage", response_model=UsageReport, responses=problems(403, 422))
async def usage(
    pool: ThePool,
    person: Requester,
    since: Since = None,
    until: Until = None,
    by: SumsBy = "project",
    project: Projects = None,
) -> Response:
    """Return allocated, used and idle GPU time, and time spent pending."""
    now_s, since_s, until_s = _period(pool, person, since, until, by)
    key: StoredBy = "node" if by == "gpu_model" else by
    scope = ReportScope(projects=comma_words(project))
    report = await asyncio.to_thread(pool.store.usage.report, since_s, until_s, key, now_s=now_s, scope=scope)
    if by == "gpu_model":
        report = usage_by_model(report, lambda node: model_of(pool.node, node))
    return json_response(pool.on_wall_clock(report))


@routes.get("/history", response_model=HistoryReport, responses=problems(403, 422))
async def history(
    pool: ThePool,
    person: Requester,
    since: Since = None,
    until: Until = None,
    by: SumsBy = "project",
    project: Projects = None,
) -> Response:
    """Return usage, waits, time to quota, evictions by rule, and cost."""
    now_s, since_s, until_s = _period(pool, person, since, until, by)
    key: StoredBy = "node" if by == "gpu_model" else by
    scope, prices = ReportScope(projects=comma_words(project)), pool.prices.prices_of(pool.node)
    report = await asyncio.to_thread(
        pool.store.reports.report, since_s, until_s, key, now_s=now_s, prices=prices, scope=scope
    )
    if by == "gpu_model":
        report = history_by_model(report, lambda node: model_of(pool.node, node))
    return json_response(pool.on_wall_clock(report))


@routes.get(
    "/history/trace",
    response_class=Response,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}, **problems(403, 422)},
)
async def trace(pool: ThePool, person: Requester, since: Since = None, until: Until = None) -> Response:
    """Return the ended workloads of the requester's projects as a trace that `weir simulate` replays."""
    _, since_s, until_s = _period(pool, person, since, until, "project")
    text = await read_trace(pool, since_s, until_s, visible(person, pool.inventory.projects))
    return Response(text, media_type="text/csv; charset=utf-8")


async def read_trace(pool: PoolService, since_s: float, until_s: float, projects: Iterable[str]) -> str:
    """Return the ended workloads of projects as a trace."""
    models = {node.gpu_model for node in pool.inventory.nodes if node.gpu_model is not None}
    created_s = pool.created_at(projects)
    return await asyncio.to_thread(pool.store.trace, since_s, until_s, projects=created_s, models=models)


def model_of(node: Node, name: str) -> str:
    """Return the GPU model of a node in the history; unknown for a node that no longer exists."""
    if name != node.name:
        return "unknown"
    return node.gpu_model or ("virtual" if node.labels.get(VIRTUAL_LABEL) == "true" else "unnamed")


def _period(
    pool: PoolService, person: Person, since: str | None, until: str | None, by: By
) -> tuple[float, float, float]:
    """Return now, and the period that a request means.

    Raises:
        RequestRefused: the period is invalid, or the person may not read its sums.
    """
    if by == "user" and pool.hides_others:
        require(person, Action.ADMINISTER)
    now_s, ahead_s = pool.clock(), pool.clock.ahead_s
    since_s = now_s - _WEEK_S if since is None else moment("since", since, now_s, ahead_s)
    until_s = now_s if until is None else moment("until", until, now_s, ahead_s)
    if since_s >= until_s:
        raise field_refusal("since", "isn't before until; write an earlier one")
    return now_s, since_s, until_s


def moment(name: str, text: str, now_s: float, ahead_s: float) -> float:
    """Return a time of the timeline, from an epoch time of the wall clock or a span before now.

    Raises:
        RequestRefused: the value is neither.
    """
    try:
        number: float | None = float(text)
    except ValueError:
        number = None
    try:
        if number is not None and math.isfinite(number) and number >= _EPOCH_MIN_S:
            return min(number - ahead_s, now_s)
        return max(0.0, now_s - abs(seconds(text if number is None else number)))
    except ValueError as error:
        raise field_refusal(name, str(error)) from None
