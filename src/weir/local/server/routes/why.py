"""Reasons of pending workloads, suggestions that let them start, and details of decisions."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from weir.api.answers import SUGGESTIONS_WAIT_S_MAX, Explanation, QueueRow, Suggestion, WhyAnswer
from weir.api.decision import DecisionAnswer
from weir.engine.explanation.pending_reasons import PendingReasonFinder
from weir.local.server.access.authorization import Action, may
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.pool import PoolService
from weir.local.server.routes.common import Requester, ThePool, find_stored, json_response, problems
from weir.local.server.state.workload_lookup import live_name
from weir.local.server.submissions.admission import highest_priority
from weir.service.decision_details import explain_decision
from weir.service.decision_state import StateReader
from weir.service.kept_suggestions import with_suggestions_found
from weir.service.pending_reasons import explanation
from weir.service.queue_position import queue_position
from weir.service.queue_rows import ancestor_rows, queue_rows
from weir.service.suggestions import SuggestionOptions, SuggestionsFound, suggestions
from weir.state.cluster import Cluster
from weir.state.jobs import Job

routes = APIRouter(prefix="/api/v1/workloads", tags=["workloads"], route_class=StrictRoute)

_RESUMED = {"suspended": "", "dependency": " without its conditions", "begin_time": " without its conditions"}
"""Reasons that `weir resume` ends, with the end of the clause."""


@routes.get("/{name}/why", response_model=WhyAnswer, responses=problems(404))
async def why(
    name: str,
    pool: ThePool,
    person: Requester,
    with_suggestions: Annotated[
        bool, Query(alias="suggestions", description="Also try changes that would let it start.")
    ] = True,
    wait_s: Annotated[
        float,
        Query(alias="wait", ge=0, le=SUGGESTIONS_WAIT_S_MAX, description="Seconds to wait for suggestions."),
    ] = 0.0,
) -> Response:
    """Return why a workload or some of its pods are pending, its queues' numbers, and changes that help.

    The reason is known from the last decision and comes at once. Suggestions are tried meanwhile: while the
    answer is `unfinished`, a later one has them, and `wait` waits for them.
    """
    name = live_name(pool.view, name)
    row = pool.view.row(name)
    if row is None:
        _, row = await find_stored(pool, name)
        return json_response(WhyAnswer(name=row.name, status=row.status, reason=row.reason))
    asked, name = name, pool.view.arrays.waiting_index(name) or name  # an array waits as its first index does

    def read(cluster: Cluster) -> tuple[WhyAnswer, object]:
        now_s, version = pool.clock(), (cluster.changes, cluster.static_version, pool.policy)
        job = cluster.jobs.get(name)
        queues = _queues(pool, cluster, row.project, now_s)
        status = row.status
        if job is None:
            gone = WhyAnswer(name=asked, status=status, reason=row.reason, queues=queues, array=row.array)
            return gone, version
        is_waiting = status == "pending" or (status == "running" and job.waiting is not None)
        reason = _reason(pool, cluster, job, now_s) if is_waiting else row.reason
        place, waiting = queue_position(cluster, name)
        answer = WhyAnswer(
            name=asked,
            status=status,
            reason=reason,
            evicted=row.evicted,
            position=place,
            waiting=waiting,
            activity=row.activity,
            queues=queues,
            array=row.array,
        )
        return answer, version

    answer, version = await pool.query(read)
    if with_suggestions and row.status == "pending" and may(person, Action.VIEW, row.project):
        if (suggestion := _known_suggestion(pool, asked, answer)) is not None:
            return json_response(pool.on_wall_clock(answer.model_copy(update={"suggestions": [suggestion]})))
        projects = tuple(scope for scope in pool.inventory.projects if may(person, Action.SUBMIT, scope))
        most = highest_priority(pool.inventory.queues_by_name[row.project], person)
        possible = SuggestionOptions(most, projects=projects)
        tried = await pool.suggestions.find(
            (name, possible), version, partial(_tried, pool, name, possible), wait_s, person.user
        )
        answer = with_suggestions_found(answer, tried)
    return json_response(pool.on_wall_clock(answer))


def _known_suggestion(pool: PoolService, name: str, answer: WhyAnswer) -> Suggestion | None:
    """Return the only change that lets a workload go on, if it is known without a trial."""
    if (trial := pool.trials.parked(name)) is not None:
        sweep = trial.plan.sweep_name
        return Suggestion(
            sentence=f"It goes on if sweep {sweep} promotes it.", how=f"weir sweep show {sweep}"
        )
    if answer.array is None or answer.reason is None or pool.view.arrays.waiting_index(name):
        return None
    conditions = _RESUMED.get(answer.reason.why)
    if conditions is None:
        return None
    sentence = f"If it is resumed{conditions}, its indices are queued."
    return Suggestion(sentence=sentence, change={"suspended": False})


async def _tried(pool: PoolService, name: str, possible: SuggestionOptions) -> SuggestionsFound:
    async with pool.suggesting.alone():
        return await pool.read_state(_suggested, name, possible)


def _suggested(ask: StateReader, name: str, possible: SuggestionOptions) -> SuggestionsFound:
    """Return suggestions for a workload; nothing if it is over already."""
    try:
        return suggestions(ask, name, possible)
    except KeyError:
        return SuggestionsFound()


def _reason(pool: PoolService, cluster: Cluster, job: Job, now_s: float) -> Explanation | None:
    """Return why a workload is pending, by the refusals of the last decision; None if it isn't pending."""
    control = pool.control_thread.control
    assert control is not None, "queries are answered by the control thread"
    finder = PendingReasonFinder(cluster, pool.policy, now_s, control.cache, control.refusals())
    return explanation(finder.find(job))


def _queues(pool: PoolService, cluster: Cluster, project: str, now_s: float) -> list[QueueRow]:
    """Return the rows of a project and its ancestors."""
    if project not in cluster.ledger.position:
        return []
    rows = queue_rows(cluster, pool.policy, now_s, *pool.view.counts(), only=project)
    return ancestor_rows(rows, project)


@routes.get("/{name}/decision", response_model=DecisionAnswer, responses=problems(403, 404, 409))
async def decision(name: str, pool: ThePool, person: Requester) -> Response:
    """Return how the nodes score for a workload, and the victims that it may evict with their price."""
    name = live_name(pool.view, name)
    row = pool.view.row(name)
    if row is None:
        _, row = await find_stored(pool, name)
        raise RequestRefused(409, f"{row.name} has ended: there is no decision on it.")
    if not may(person, Action.VIEW, row.project):
        raise RequestRefused(403, f"{name} belongs to project {row.project}, and only its members see this.")

    async with pool.suggesting.turn(person):
        answer = await pool.read_state(_explained, name)
    if answer is None:
        raise RequestRefused(409, f"{name} can't be placed now; `weir why {name}` says why.")
    return json_response(answer)


def _explained(ask: StateReader, name: str) -> DecisionAnswer | None:
    return ask(lambda state: explain_decision(state, name))
