"""Templates of a project: saved, listed, filled and removed."""

from fastapi import APIRouter, Request, Response

from weir.api.templates import FilledTemplate, TemplateAsked, TemplatePage, TemplateRow, TemplateValues
from weir.local.server.access.audit_middleware import note
from weir.local.server.http.problem_details import FieldErrors, read_as, read_body
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
from weir.local.server.state.pool_inventory import check_name

routes = APIRouter(prefix="/api/v1/projects/{project}/templates", tags=["workloads"], route_class=StrictRoute)


@routes.get("", response_model=TemplatePage, responses=problems(403, 404))
async def list_templates(project: str, pool: ThePool, person: Requester) -> Response:
    """Return the templates of a project, for everyone who may submit to it."""
    rows = await pool.templates.all(project, person)
    return json_response(TemplatePage(total=len(rows), items=rows))


@routes.get("/{name}", response_model=TemplateRow, responses=problems(403, 404))
async def get_template(project: str, name: str, pool: ThePool, person: Requester) -> Response:
    """Return a template."""
    return json_response(await pool.templates.get(project, name, person))


@routes.put(
    "/{name}",
    response_model=TemplateRow,
    responses=problems(403, 404, *BODY_REFUSALS, 409),
    openapi_extra=takes(TemplateAsked, "The parameters, and the workload with placeholders."),
)
async def save_template(
    project: str, name: str, request: Request, pool: ThePool, person: Requester
) -> Response:
    """Create or change a template, as a lead of the project."""

    def parse(body: bytes) -> TemplateAsked:
        fields = FieldErrors("The template")
        check_name(name, fields)
        fields.refuse_if_any()
        refuse_large(len(body), pool, "The template")
        return read_as(TemplateAsked, body, "The template")

    note(request, project=project[:253], template=name[:253])
    asked = await read_body(request, parse)
    return json_response(await pool.templates.save(project, name, asked, person))


@routes.post(
    "/{name}/fill",
    response_model=FilledTemplate,
    responses=problems(403, 404, *BODY_REFUSALS),
    openapi_extra=takes(TemplateValues, "The values."),
)
async def fill_template(
    project: str, name: str, request: Request, pool: ThePool, person: Requester
) -> Response:
    """Return the submission that results from a template with these values. It isn't queued."""
    asked = await read_body(request, lambda body: read_as(TemplateValues, body, "The values"))
    note(request, project=project[:253], template=name[:253])
    filled = await pool.templates.fill(project, name, asked.values, person)
    return json_response(FilledTemplate(workload=filled))


@routes.delete("/{name}", status_code=204, responses=problems(403, 404))
async def delete_template(
    project: str, name: str, request: Request, pool: ThePool, person: Requester
) -> Response:
    """Delete a template, as a lead of the project; workloads from it stay."""
    note(request, project=project[:253], template=name[:253])
    await pool.templates.remove(project, name, person)
    return Response(status_code=204)
