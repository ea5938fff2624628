"""Routes of the dashboard: sign-in, one-time links, the live stream, and the files of the page."""

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from weir.api.answers import Answer, DashboardLink
from weir.dashboard.browser_checks import SECURE_COOKIE
from weir.dashboard.oidc.settings import FLOW_COOKIE
from weir.dashboard.page_bundle import NOT_BUILT, asset_file, index_file
from weir.dashboard.person import DashboardPerson, SignInAsked
from weir.dashboard.session_table import SESSION_S
from weir.local.server.access.audit_middleware import note
from weir.local.server.access.auth import Authenticator
from weir.local.server.access.authorization import Action, Person, may
from weir.local.server.dashboard.browser_requests import (
    check_host,
    check_origin,
    cookie_name,
    session_cookie,
)
from weir.local.server.dashboard.live_hub import LiveHub
from weir.local.server.dashboard.sessions import DashboardSessions
from weir.local.server.http.problem_details import RequestRefused, read_as, read_body
from weir.local.server.routes.common import Requester, ThePool, json_response, problems
from weir.store.projects.tokens import token_hash

if TYPE_CHECKING:
    from weir.local.server.access.oidc_sign_in import OidcSignIn  # with libraries that other pools don't need

SIGN_IN = "/api/v1/dashboard/sign-in"
_SESSION = "/api/v1/dashboard/session"
routes = APIRouter(tags=["dashboard"])
_NO_STORE = {"Cache-Control": "no-store"}


class SignedOut(Answer):
    """The end of a session. `provider`: page that ends the session with the identity provider."""

    provider: str | None = None


def _person(person: Person, proof: str | None = None) -> DashboardPerson:
    return DashboardPerson(
        user=person.user,
        is_admin=may(person, Action.ADMINISTER),
        projects=sorted(scope for scope in person.scopes if may(person, Action.SUBMIT, scope)),
        roles={scope: role.word for scope, role in sorted(person.roles.items())},
        proof=proof,
    )


@routes.post(SIGN_IN, include_in_schema=False)
async def sign_in(request: Request) -> Response:
    """Begin a session: a cookie for the browser, a proof for the page."""
    check_origin(request.scope)
    sessions: DashboardSessions = request.app.state.sessions
    authenticator: Authenticator = request.app.state.authenticator
    asked = await read_body(request, lambda body: read_as(SignInAsked, body, "The sign-in"))
    if (asked.token is None) == (asked.code is None):
        raise RequestRefused(422, "Write a token, or the code of a link.")
    credential = token_hash((asked.token or "").strip())
    if asked.code is not None:
        credential = sessions.redeem(asked.code, request.cookies.get(FLOW_COOKIE, ""))
    await authenticator.refresh(credential)
    person = authenticator.person_with(credential)
    request.state.person = person
    cookie, proof = sessions.begin(credential)
    note(request, user=person.user, signed_in_by=person.signed_in_by)
    answer = json_response(_person(person, proof), 201)
    answer.headers["Cache-Control"] = "no-store"
    name = cookie_name(request.scope)
    secure = name == SECURE_COOKIE
    answer.set_cookie(
        name, cookie, max_age=int(SESSION_S), path="/", secure=secure, httponly=True, samesite="strict"
    )
    if FLOW_COOKIE in request.cookies:
        answer.delete_cookie(FLOW_COOKIE, path="/", secure=True, httponly=True, samesite="lax")
    return answer


@routes.get(_SESSION, include_in_schema=False)
async def session(person: Requester) -> Response:
    """Return the signed-in person."""
    answer = json_response(_person(person))
    answer.headers.update(_NO_STORE)
    return answer


@routes.delete(_SESSION, include_in_schema=False)
async def sign_out(request: Request, _person: Requester) -> Response:
    """End the session; name the page that ends the one with the identity provider, if there is one."""
    sessions: DashboardSessions = request.app.state.sessions
    sessions.end(session_cookie(request.scope))
    oidc: OidcSignIn | None = request.app.state.oidc
    answer = json_response(SignedOut())
    if oidc is not None:
        oidc.end_session(request.state.credential)
        answer = json_response(SignedOut(provider=oidc.sign_out_address(request.state.credential)))
    name = cookie_name(request.scope)
    answer.delete_cookie(name, path="/", secure=name == SECURE_COOKIE, httponly=True, samesite="strict")
    return answer


@routes.post(
    "/api/v1/dashboard/links", status_code=201, response_model=DashboardLink, responses=problems(409)
)
async def make_link(request: Request, pool: ThePool, person: Requester) -> Response:
    """Make a link that signs in to the dashboard once, within a minute, with the rights of this token."""
    sessions: DashboardSessions = request.app.state.sessions
    if person.subject:
        raise RequestRefused(409, "Open the pool's address in a browser, and sign in there.")
    code, until_s = sessions.make_code(request.state.credential)
    answer = json_response(pool.on_wall_clock(DashboardLink(path=f"/#code={code}", expires_s=until_s)), 201)
    answer.headers.update(_NO_STORE)
    return answer


@routes.get("/api/v1/dashboard/stream", include_in_schema=False)
async def stream(request: Request, person: Requester) -> Response:
    """Stream the list, and then its changes, as lines of JSON."""
    hub: LiveHub = request.app.state.live
    reader = hub.join(person)
    if reader is None:
        raise RequestRefused(503, "Too many pages are open already, or the server is being stopped.")
    headers = {**_NO_STORE, "Content-Encoding": "gzip"}
    return StreamingResponse(hub.frames(reader), media_type="application/x-ndjson", headers=headers)


@routes.get("/", include_in_schema=False)
async def index(request: Request) -> Response:
    """Return the page; every screen is this one, with its state in the address."""
    check_host(request.scope)
    file = index_file()
    if file is None:
        raise RequestRefused(503, NOT_BUILT)
    return Response(file[0], headers=file[1])


@routes.get("/assets/{name}", include_in_schema=False)
async def asset(name: str, request: Request) -> Response:
    """Return a file of the page."""
    check_host(request.scope)
    file = asset_file(name, request.headers.get("accept-encoding", ""))
    if file is None:
        raise RequestRefused(404, "There is no such file.")
    return Response(file[0], headers=file[1])
