"""The person of a request: how they signed in, and their roles."""

from fastapi import APIRouter, Response

from weir.api.access import WhoAmI
from weir.local.server.access.authorization import Action, may
from weir.local.server.routes.common import Who, json_response, problems

routes = APIRouter(prefix="/api/v1", tags=["members"])


@routes.get("/whoami", response_model=WhoAmI, responses=problems(403))
async def whoami(who: Who) -> Response:
    """Return the person of this request, and their role in each department and project."""
    found = WhoAmI(
        user=who.user,
        signed_in_by=who.signed_in_by,
        is_admin=may(who, Action.ADMINISTER),
        roles={scope: role.word for scope, role in sorted(who.roles.items())},
        groups=sorted(who.groups),
    )
    return json_response(found)
