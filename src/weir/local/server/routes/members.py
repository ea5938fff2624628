"""Members of departments and projects: users and Unix groups with a role, and the requester's own roles."""

from fastapi import APIRouter, Request, Response

from weir.api.access import WhoAmI
from weir.api.answers import MemberPage, MemberRow
from weir.api.submissions import MemberAsked
from weir.local.server.access.audit_middleware import note
from weir.local.server.access.authorization import Action, may
from weir.local.server.changes.memberships import subject_text
from weir.local.server.http.problem_details import read_as, read_body
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.routes.common import BODY_REFUSALS, Requester, ThePool, json_response, problems, takes
from weir.store.records import MembershipRecord

routes = APIRouter(prefix="/api/v1", tags=["members"], route_class=StrictRoute)
_TEXT_MAX = 300


def _row(membership: MembershipRecord) -> MemberRow:
    return MemberRow(member=subject_text(membership), role=membership.role, scope=membership.scope)


def _add_routes(kind: str) -> None:
    is_project = kind == "project"

    @routes.get(
        f"/{kind}s/{{name}}/members",
        name=f"list_{kind}_members",
        description=f"Return the members of a {kind}, then those of the departments above it.",
        response_model=MemberPage,
        responses=problems(403, 404),
    )
    async def list_members(name: str, pool: ThePool, person: Requester) -> Response:
        rows = [_row(membership) for membership in pool.memberships.members(name, is_project, person)]
        return json_response(
            MemberPage(total=len(rows), items=rows, note=pool.memberships.note(name, is_project))
        )

    @routes.put(
        f"/{kind}s/{{name}}/members/{{member}}",
        name=f"set_{kind}_member",
        description=f"Give a user, a @group or @everyone a role in a {kind}.",
        response_model=MemberRow,
        responses=problems(403, 404, *BODY_REFUSALS, 409),
        openapi_extra=takes(MemberAsked, "The role."),
    )
    async def set_member(
        name: str, member: str, request: Request, pool: ThePool, person: Requester
    ) -> Response:
        asked = await read_body(request, lambda body: read_as(MemberAsked, body, "The member"))
        note(request, scope=name[:_TEXT_MAX], member=member[:_TEXT_MAX], role=asked.role)
        return json_response(_row(await pool.memberships.set(name, is_project, member, asked.role, person)))

    @routes.delete(
        f"/{kind}s/{{name}}/members/{{member}}",
        name=f"remove_{kind}_member",
        description=f"Take the role of a user, a @group or @everyone in a {kind} away.",
        status_code=204,
        responses=problems(403, 404, 422),
    )
    async def remove_member(
        name: str, member: str, request: Request, pool: ThePool, person: Requester
    ) -> Response:
        note(request, scope=name[:_TEXT_MAX], member=member[:_TEXT_MAX])
        await pool.memberships.remove(name, is_project, member, person)
        return Response(status_code=204)


_add_routes("project")
_add_routes("department")


@routes.get("/whoami", response_model=WhoAmI, responses=problems(403))
async def whoami(person: Requester) -> Response:
    """Return the person of this request, and their role in each department and project."""
    answer = WhoAmI(
        user=person.user,
        signed_in_by=person.signed_in_by,
        is_admin=may(person, Action.ADMINISTER),
        roles={scope: role.word for scope, role in sorted(person.roles.items())},
        groups=sorted(person.groups),
    )
    return json_response(answer)
