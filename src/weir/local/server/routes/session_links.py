"""Links to sessions in a browser."""

import asyncio

from fastapi import APIRouter, Request, Response

from weir.api.sessions import SessionLink
from weir.local.server.access.audit_middleware import leave_out, note
from weir.local.server.access.auth import Authenticator
from weir.local.server.access.authorization import Action
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.routes.common import Requester, ThePool, json_response, problems
from weir.local.server.state.workload_lookup import find_workload, live_name, unknown_workload
from weir.local.server.web_sessions.program_socket import connect
from weir.local.server.web_sessions.proxy import SessionProxy
from weir.local.starts.session_programs import kind_of

routes = APIRouter(prefix="/api/v1/workloads", tags=["workloads"], route_class=StrictRoute)
_TEXT_MAX = 253


@routes.post(
    "/{name}/session", status_code=201, response_model=SessionLink, responses=problems(403, 404, 409, 422)
)
async def make_session_link(name: str, request: Request, pool: ThePool, person: Requester) -> Response:
    """Make a link that opens the session of one's own workload in a browser, once, within a minute.

    It answers 409 until the program of the session listens.
    """
    note(request, workload=name[:_TEXT_MAX])
    stored = await asyncio.to_thread(find_workload, pool.store, live_name(pool.view, name))
    if stored is None:
        raise unknown_workload(pool.view, name[:80])
    workload = stored.record.workload
    pool.require_visible(person, workload.project, workload.submitted_s, Action.VIEW, workload.user)
    kind = kind_of(stored.record.launch.environment)
    if kind is None:
        raise RequestRefused(422, f"{workload.name} has no session in a browser: `weir shell` enters it.")
    proxy: SessionProxy | None = request.app.state.session_proxy
    if proxy is None:
        raise RequestRefused(503, "Another program has the port of sessions: write --sessions-port.")
    is_remote = request.scope.get("scheme") == "https"
    authenticator: Authenticator = request.app.state.authenticator
    if person.subject and not authenticator.is_known(request.state.credential):
        raise RequestRefused(
            422, "This sign-in lasts for minutes: open the dashboard in a browser, and sign in there."
        )
    try:
        own = proxy.gate.own_directory(person, workload.name, stored.row.uid)
        connect(own).close()
    except RequestRefused as refused:
        if refused.status == 409:
            leave_out(request)
        raise
    code, until_s = proxy.gate.views.make_code(
        request.state.credential, person.user, stored.row.uid, workload.name, kind
    )
    url = (
        proxy.remote_link(person.user, workload.name, code)
        if is_remote
        else await proxy.link(person.user, workload.name, code)
    )
    link = SessionLink(url=url, expires_s=until_s)
    answer = json_response(pool.on_wall_clock(link), 201)
    answer.headers["Cache-Control"] = "no-store"
    return answer
