"""Batches: several workloads queued together, all or none."""

import json

from fastapi import APIRouter, Request, Response

from weir.api.answers import WorkloadPage
from weir.api.batches import SubmissionBatch, merged
from weir.local.server.access.audit_middleware import note
from weir.local.server.http.problem_details import read_as, read_body
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.routes.common import (
    BODY_REFUSALS,
    Requester,
    ThePool,
    json_response,
    problems,
    refuse_large,
    takes,
)
from weir.local.server.submissions.submitter import ReadSubmission

routes = APIRouter(prefix="/api/v1", tags=["workloads"], route_class=StrictRoute)
NAMED_MAX = 20
"""Workloads that the audit log names."""


@routes.post(
    "/workloads:batch",
    status_code=201,
    response_model=WorkloadPage,
    responses=problems(403, 404, *BODY_REFUSALS, 409),
    openapi_extra=takes(SubmissionBatch, "The workloads; their conditions may name each other."),
)
async def submit_batch(request: Request, pool: ThePool, person: Requester) -> Response:
    """Queue several workloads, all or none."""

    def parse(body: bytes) -> list[ReadSubmission]:
        batch = read_as(SubmissionBatch, body, "The batch", pool.priority_classes)
        read = []
        for index, (submission, raw) in enumerate(
            zip(batch.workloads, merged(json.loads(body))["workloads"], strict=True)
        ):
            size = len(json.dumps(raw))
            refuse_large(size, pool, f"workloads[{index}]")
            raw.pop("name", None)
            read.append(ReadSubmission(submission, raw, size))
        return read

    asked = await read_body(request, parse)
    made = await pool.submitter.submit_batch(asked, person)
    rows = [row for _, row in made]
    named = ", ".join(row.name for row in rows[:NAMED_MAX])
    note(request, workloads=len(rows), first=named)
    answer = WorkloadPage.model_construct(total=len(rows), next=None, items=rows, trouble=pool.trouble)
    return json_response(pool.on_wall_clock(answer), 201)
