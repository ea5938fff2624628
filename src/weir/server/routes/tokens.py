"""Tokens: made for people by an administrator, listed without their text, taken back."""

import asyncio

from fastapi import APIRouter, Request, Response

from weir.model.files.complaints import nearest
from weir.model.pool import TokenAsked, TokenMade, TokenPage, TokenRow
from weir.server.auth import admin_only
from weir.server.problems import Fields, Refused, body_of, read_as
from weir.server.routes.common import After, Limit, ThePool, Who, position, problems, said, takes

routes = APIRouter(prefix="/api/v1/tokens", tags=["tokens"])
PROJECTS_MOST = 1000
ID_MOST = 2**62


@routes.post(
    "",
    status_code=201,
    response_model=TokenMade,
    responses=problems(403, 413, 422),
    openapi_extra=takes(TokenAsked, "Who it is for, and in which projects they may act."),
)
async def make(request: Request, pool: ThePool, who: Who) -> Response:
    """Make a token; its text is told this once."""
    admin_only(who)
    asked = read_as(TokenAsked, await body_of(request), "The token")
    fields = Fields("The token")
    known = pool.ground.projects
    for at, project in enumerate(asked.projects[:PROJECTS_MOST]):
        if project not in known:
            fields.at(("projects", at), f"projects: there is no project {project}; {nearest(project, known)}")
    if len(asked.projects) > PROJECTS_MOST:
        fields.at(("projects",), f"projects: are too many; write at most {PROJECTS_MOST}")
    if asked.role == "admin" and asked.projects:
        fields.at(("projects",), "projects: an administrator may act in all of them; leave it out")
    fields.refuse_if_any()
    projects = list(dict.fromkeys(asked.projects))
    row, text = await asyncio.to_thread(pool.store.make_token, asked.user, asked.role, projects)
    made = TokenMade(id=row.id, token=text, user=row.user, role=row.role, projects=list(row.projects))
    return said(made, 201)


@routes.get("", response_model=TokenPage, responses=problems(403, 422))
async def list_tokens(pool: ThePool, who: Who, limit: Limit = 100, after: After = None) -> Response:
    """Tokens, without their text."""
    admin_only(who)
    rows = pool.store.tokens()
    begin = position(after) or 0
    more = str(begin + limit) if begin + limit < len(rows) else None
    items = [
        TokenRow(
            id=row.id, user=row.user, role=row.role, projects=list(row.projects), created_s=row.created_s
        )
        for row in rows[begin : begin + limit]
    ]
    return said(TokenPage(total=len(rows), next=more, items=items))


@routes.delete("/{id}", status_code=204, responses=problems(403, 404, 422))
async def delete(id: int, pool: ThePool, who: Who) -> Response:  # noqa: A002 - what the address calls it
    """Take a token back: from now on nobody may ask with it."""
    admin_only(who)
    if not 0 <= id <= ID_MOST:
        raise Refused(404, "There is no such token.")
    await asyncio.to_thread(pool.store.delete_token, id)
    return Response(status_code=204)
