"""The audit log, for administrators."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import ValidationError

from weir.api.answers import AuditPage, AuditRow
from weir.local.server.access.audit import AuditLog
from weir.local.server.access.authorization import Action, require
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.routes.common import Limit, Requester, json_response, problems

routes = APIRouter(prefix="/api/v1/audit", tags=["audit"], route_class=StrictRoute)


@routes.get("", response_model=AuditPage, responses=problems(403, 422))
async def read(
    request: Request,
    person: Requester,
    limit: Limit = 100,
    user: Annotated[str | None, Query(max_length=253, description="Only requests of this user.")] = None,
    outcome: Annotated[
        Literal["allowed", "refused", "failed"] | None, Query(description="Only requests with this outcome.")
    ] = None,
    path: Annotated[str, Query(max_length=300, description="Part of the path.")] = "",
) -> Response:
    """Return the newest requests that changed something, were refused, or read confidential data."""
    require(person, Action.ADMINISTER)
    audit: AuditLog = request.app.state.audit
    lines = await asyncio.to_thread(audit.read, limit, user=user, outcome=outcome, path=path)
    items = [row for line in lines if (row := _row(line)) is not None]
    return json_response(AuditPage(total=len(items), items=items))


def _row(line: dict[str, Any]) -> AuditRow | None:
    """Return a line as it is answered; None for one that this log can't have written."""
    try:
        return AuditRow.model_validate(line)
    except ValidationError:
        return None
