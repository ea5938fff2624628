"""Previews of submissions: checked like a submission, and tried on a branch of the state."""

from dataclasses import replace
from functools import partial

from fastapi import APIRouter, Request, Response

from weir.api.previews import SubmissionPreview
from weir.api.submissions import Submission
from weir.local.server.access.authorization import Action, require
from weir.local.server.http.problem_details import RequestRefused, read_as, read_body
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.routes.common import BODY_REFUSALS, Requester, ThePool, json_response, problems, takes
from weir.local.server.submissions import submission_checks
from weir.local.server.submissions.start_conditions import start_conditions, unmet_condition
from weir.service.pending_reasons import explanation
from weir.service.submission_preview import preview_submission

routes = APIRouter(prefix="/api/v1", tags=["workloads"], route_class=StrictRoute)


@routes.post(
    "/previews",
    response_model=SubmissionPreview,
    responses=problems(403, 409, *BODY_REFUSALS),
    openapi_extra=takes(Submission, "The workload, as it would be submitted."),
)
async def preview(request: Request, pool: ThePool, person: Requester) -> Response:
    """Return whether a submission would start now, which workloads would stop, or why it would wait."""

    def parse(body: bytes) -> tuple[Submission, int]:
        return read_as(Submission, body, "The submission", pool.priority_classes), len(body)

    asked, size = await read_body(request, parse)
    if asked.project in pool.inventory.queues_by_name:
        require(person, Action.SUBMIT, asked.project)
    if asked.name in pool.view.workloads:
        raise RequestRefused(409, f"A workload called {asked.name} isn't over yet: write another name.")
    check = partial(
        submission_checks.check_submission,
        asked,
        person=person,
        now_s=pool.clock(),
        inventory=pool.inventory,
        rules=pool.policy.life,
    )
    conditions = await start_conditions(asked, pool)
    made = replace(await pool.workers.parse(size, check), conditions=conditions)
    unmet = unmet_condition(made, pool.clock)
    if unmet is not None:
        return json_response(SubmissionPreview(starts=False, nodes=[], stops=[], reason=explanation(unmet)))
    async with pool.suggesting.turn(person):
        outcome = await pool.read_state(lambda ask: ask(partial(preview_submission, workload=made.workload)))
    return json_response(
        SubmissionPreview(
            starts=bool(outcome.nodes),
            nodes=list(outcome.nodes),
            stops=list(outcome.stops),
            reason=explanation(outcome.reason),
        )
    )
