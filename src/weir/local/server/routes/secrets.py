"""Secrets of a project: set and deleted by its members, listed without their values."""

import json

from fastapi import APIRouter, Request, Response

from weir.api.answers import SecretPage, SecretRow
from weir.api.submissions import SecretAsked
from weir.local.files.secret_files import VALUE_BYTES_MAX
from weir.local.server.access.audit_middleware import note
from weir.local.server.http.problem_details import RequestRefused, read_body
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.routes.common import BODY_REFUSALS, Requester, ThePool, json_response, problems, takes

routes = APIRouter(prefix="/api/v1/projects/{project}/secrets", tags=["secrets"], route_class=StrictRoute)


@routes.get("", response_model=SecretPage, responses=problems(403, 404))
async def list_secrets(project: str, pool: ThePool, person: Requester) -> Response:
    """Return the names of a project's secrets; the API never returns their values."""
    rows = await pool.secrets.all(project, person)
    return json_response(pool.on_wall_clock(SecretPage(total=len(rows), items=rows)))


@routes.put(
    "/{name}",
    response_model=SecretRow,
    responses=problems(403, 404, *BODY_REFUSALS),
    openapi_extra=takes(SecretAsked, "The value."),
)
async def set_secret(project: str, name: str, request: Request, pool: ThePool, person: Requester) -> Response:
    """Set a secret. Workloads that start from now on get this value."""
    value = await read_body(request, _value)
    note(request, project=project[:253], secret=name[:253])
    return json_response(pool.on_wall_clock(await pool.secrets.set(project, name, value, person)))


@routes.delete("/{name}", status_code=204, responses=problems(403, 404))
async def delete_secret(
    project: str, name: str, request: Request, pool: ThePool, person: Requester
) -> Response:
    """Delete a secret. Pending workloads that name it are suspended until it is set again."""
    note(request, project=project[:253], secret=name[:253])
    await pool.secrets.delete(project, name, person)
    return Response(status_code=204)


def _value(body: bytes) -> str:
    """Return the value a body holds.

    Raises:
        RequestRefused: the body has no value; the answer repeats none of it.
    """
    try:
        written = json.loads(body)
    except (ValueError, RecursionError):
        written = None
    value = written.get("value") if isinstance(written, dict) and set(written) == {"value"} else None
    if isinstance(value, str) and value and "\0" not in value:
        try:
            if len(value.encode()) <= VALUE_BYTES_MAX:
                return value
        except UnicodeEncodeError:
            pass
    most = VALUE_BYTES_MAX >> 10
    text = f'value: is not a text of 1 byte to {most} KiB without zero bytes; send {{"value": TEXT}}'
    raise RequestRefused(422, f"The secret: {text}", [{"field": "value", "message": text}])
