"""Tokens: an administrator makes them for people, lists them without their text, and revokes them."""

import asyncio
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from weir.api.answers import TokenMade, TokenPage, TokenRow
from weir.api.submissions import TokenAsked, TokenRotated
from weir.local.server.access.audit_middleware import note
from weir.local.server.access.authorization import Action, may, require
from weir.local.server.http.problem_details import FieldErrors, RequestRefused, read_as, read_body
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.pool import PoolService
from weir.local.server.routes.common import (
    BODY_REFUSALS,
    After,
    Limit,
    Requester,
    ThePool,
    json_response,
    page_of,
    problems,
    takes,
)
from weir.scenario_io.error_messages import suggest
from weir.store.records import TokenRecord as StoredToken

routes = APIRouter(prefix="/api/v1/tokens", tags=["tokens"], route_class=StrictRoute)
PROJECTS_MAX = 1000
ID_MAX = 2**62
EXPIRY_S_MAX = 3650 * 86400.0


@routes.post(
    "",
    status_code=201,
    response_model=TokenMade,
    responses=problems(403, *BODY_REFUSALS),
    openapi_extra=takes(TokenAsked, "Person of the token, and the projects in which they may act."),
)
async def make(request: Request, pool: ThePool, person: Requester) -> Response:
    """Make a token; its text is returned only now."""
    require(person, Action.ADMINISTER)
    asked = await read_body(request, lambda body: read_as(TokenAsked, body, "The token"))
    user = person.user if asked.user is None else asked.user
    pool.accounts.check_token_user(user)
    fields = FieldErrors("The token")
    existing = dict.fromkeys(pool.inventory.projects)
    for index, project in enumerate(asked.projects[:PROJECTS_MAX]):
        if project not in existing:
            fields.add(
                ("projects", index),
                f"projects: there is no project {project}; {suggest(project, existing, fields)}",
            )
    if len(asked.projects) > PROJECTS_MAX:
        fields.add(("projects",), f"projects: are too many; write at most {PROJECTS_MAX}")
    if asked.role == "admin" and asked.projects:
        fields.add(("projects",), "projects: an administrator may act in all of them; leave it out")
    _check_label(asked.label, fields)
    _check_expiry(asked.expires, fields)
    fields.refuse_if_any()
    projects = list(dict.fromkeys(asked.projects))
    now_s = pool.clock.with_time_off()
    expires_s = None if asked.expires is None else now_s + asked.expires
    row, text = await asyncio.to_thread(
        pool.store.tokens.make,
        user,
        asked.role,
        projects,
        label=asked.label,
        expires_s=expires_s,
        now_s=now_s,
    )
    return json_response(pool.on_wall_clock(_made(request, _on_timeline(pool, row), text)), 201)


def _on_timeline(pool: PoolService, row: StoredToken) -> StoredToken:
    """Return a token with times of the timeline: those of tokens count all time off."""
    off_s = pool.clock.left_out_s
    return replace(
        row,
        created_s=row.created_s - off_s,
        expires_s=None if row.expires_s is None else row.expires_s - off_s,
        used_s=None if row.used_s is None else row.used_s - off_s,
    )


def _check_label(label: str, fields: FieldErrors) -> None:
    if not label.isprintable() or label != label.strip():
        fields.add(("label",), "label: has spaces around it or characters that don't show; write a plain one")


def _check_expiry(expires_s: float | None, fields: FieldErrors) -> None:
    if expires_s is not None and expires_s > EXPIRY_S_MAX:
        fields.add(("expires",), "expires: is more than 3650d; write less, or leave it out for no expiry")


def _made(request: Request, row: StoredToken, text: str) -> TokenMade:
    """Return a token with its text, and have its number in the audit log."""
    note(request, token=row.id, user=row.user, role=row.role, projects=row.projects, label=row.label)
    return TokenMade(
        id=row.id,
        token=text,
        user=row.user,
        role=row.role,
        projects=list(row.projects),
        label=row.label,
        expires_s=row.expires_s,
    )


@routes.post(
    "/own/rotate",
    response_model=TokenMade,
    responses=problems(403, 404, 409, *BODY_REFUSALS),
    openapi_extra=takes(TokenRotated, "Expiry of the new text; an empty object keeps the lifetime."),
)
async def rotate_own(request: Request, pool: ThePool, person: Requester) -> Response:
    """Rotate the token of this request. It never expires later than before."""
    if person.token is None:
        raise RequestRefused(
            409,
            "To rotate the token in $WEIR_HOME/token, delete that file and restart the server.",
        )
    return await _rotate(request, pool, person.token, may_extend=may(person, Action.ADMINISTER))


@routes.post(
    "/{id}/rotate",
    response_model=TokenMade,
    responses=problems(403, 404, 409, *BODY_REFUSALS),
    openapi_extra=takes(TokenRotated, "Expiry of the new text; an empty object keeps the lifetime."),
)
async def rotate(id: int, request: Request, pool: ThePool, person: Requester) -> Response:  # noqa: A002 - see `delete`
    """Rotate a token: return its new text once; the old text becomes invalid."""
    require(person, Action.ADMINISTER)
    return await _rotate(request, pool, id, may_extend=True)


async def _rotate(request: Request, pool: PoolService, id_: int, *, may_extend: bool) -> Response:
    asked = await read_body(request, lambda body: read_as(TokenRotated, body or b"{}", "The token"))
    fields = FieldErrors("The token")
    _check_expiry(asked.expires, fields)
    fields.refuse_if_any()
    before = next((row for row in pool.store.tokens.all() if row.id == id_), None)
    if before is None:
        raise _no_such_token(id_)
    now_s = pool.clock.with_time_off()
    if asked.expires is not None:
        expires_s: float | None = now_s + asked.expires
    elif before.expires_s is not None and may_extend:
        expires_s = now_s + before.expires_s - before.created_s
    else:
        expires_s = before.expires_s
    if not may_extend and before.expires_s is not None:
        expires_s = min(expires_s or before.expires_s, before.expires_s)
    row, text = await asyncio.to_thread(pool.store.tokens.rotate, id_, expires_s, now_s)
    return json_response(pool.on_wall_clock(_made(request, _on_timeline(pool, row), text)))


@routes.get("", response_model=TokenPage, responses=problems(403, 422))
async def list_tokens(pool: ThePool, person: Requester, limit: Limit = 100, after: After = None) -> Response:
    """Tokens, without their text."""
    require(person, Action.ADMINISTER)
    rows = pool.store.tokens.all()
    shown, next_page = page_of(rows, limit, after)
    items = [TokenRow.model_validate(_on_timeline(pool, row), from_attributes=True) for row in shown]
    return json_response(pool.on_wall_clock(TokenPage(total=len(rows), next=next_page, items=items)))


@routes.delete("/{id}", status_code=204, responses=problems(403, 404, 422))
async def delete(id: int, pool: ThePool, person: Requester) -> Response:  # noqa: A002 - the name in the path
    """Revoke a token: it becomes invalid at once."""
    require(person, Action.ADMINISTER)
    if not 0 <= id <= ID_MAX:
        raise _no_such_token(id)
    await asyncio.to_thread(pool.store.tokens.delete, id)
    return Response(status_code=204)


def _no_such_token(id_: int) -> RequestRefused:
    return RequestRefused(404, f"There is no token {id_}; `weir token list` shows which there are.")
