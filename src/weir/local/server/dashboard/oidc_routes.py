"""Routes of the sign-in with OpenID Connect: how to sign in, and a browser's way to the provider and back."""

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse, RedirectResponse

from weir.api.access import SignInWays
from weir.dashboard.oidc.errors import ProviderUnavailable
from weir.dashboard.oidc.settings import (
    CALLBACK,
    CODE_LENGTH_MAX,
    FLOW_COOKIE,
    FLOW_S,
    RETRY_S,
    SCOPES,
    START,
    WAYS,
)
from weir.dashboard.oidc.sign_in_limiter import TOO_MANY, SignInLimiter
from weir.dashboard.trusted_proxies import HEADER, TrustedProxies
from weir.local.server.access.audit_middleware import note
from weir.local.server.dashboard.browser_requests import check_host
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.routes.common import json_response

if TYPE_CHECKING:
    from weir.local.server.access.oidc_sign_in import OidcSignIn  # with libraries that other pools don't need

routes = APIRouter(tags=["dashboard"])
_NO_STORE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


@routes.get(WAYS, response_model=SignInWays)
async def ways(request: Request) -> Response:
    """Return how people sign in to this pool. Anyone may read it."""
    oidc: OidcSignIn | None = request.app.state.oidc
    if oidc is None:
        return json_response(SignInWays())
    settings = oidc.settings
    answer = SignInWays(
        issuer=settings.issuer, client_id=settings.login_client, scopes=SCOPES, dashboard=START
    )
    return json_response(answer)


@routes.get(START, include_in_schema=False)
async def start(request: Request) -> Response:
    """Send a browser to the provider."""
    oidc = _opened(request)
    try:
        address, cookie = await oidc.flow.begin()
    except ProviderUnavailable as error:
        raise RequestRefused(503, str(error), retry_after_s=RETRY_S) from None
    answer = RedirectResponse(address, 303, headers=_NO_STORE)
    # Lax: the provider, another site, redirects the browser back.
    answer.set_cookie(
        FLOW_COOKIE, cookie, max_age=int(FLOW_S), path="/", secure=True, httponly=True, samesite="lax"
    )
    return answer


@routes.get(CALLBACK, include_in_schema=False)
async def callback(
    request: Request,
    code: Annotated[str, Query(max_length=CODE_LENGTH_MAX)] = "",
    state: Annotated[str, Query(max_length=200)] = "",
    error: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Begin the session of a browser that returns from the provider, by a link that works once."""
    oidc = _opened(request)
    try:
        cookie = request.cookies.get(FLOW_COOKIE, "")
        credential = await oidc.begin_session(cookie, state, "" if error else code)
        await oidc.refresh(credential)
        person = oidc.person(credential)
    except RequestRefused as refused:
        note(request, why=refused.detail)
        return _forgetting(PlainTextResponse(f"{refused.detail}\n", refused.status, _NO_STORE))
    request.state.person = person
    text, _ = request.app.state.sessions.make_code(credential, browser=cookie)
    return RedirectResponse(f"/#code={text}", 303, headers=_NO_STORE)  # the page sends the cookie once more


def _opened(request: Request) -> "OidcSignIn":
    """Return the sign-in of the pool, for a browser that asks over HTTPS."""
    oidc: OidcSignIn | None = request.app.state.oidc
    if oidc is None or request.scope["scheme"] != "https":
        raise RequestRefused(404, "This address has no sign-in with OpenID Connect.")
    check_host(request.scope)
    limiter: SignInLimiter = request.app.state.sign_ins
    proxies: TrustedProxies = request.app.state.proxies
    peer = "" if request.client is None else request.client.host
    wait_s = limiter.take(proxies.client_of(peer, request.headers.getlist(HEADER)))
    if wait_s:
        raise RequestRefused(429, TOO_MANY, retry_after_s=wait_s)
    return oidc


def _forgetting(answer: Response) -> Response:
    answer.delete_cookie(FLOW_COOKIE, path="/", secure=True, httponly=True, samesite="lax")
    return answer
