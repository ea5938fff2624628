"""Routes of the dashboard in a cluster besides those of every dashboard: sign-in, namespace and health."""

from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from weir.cli.cluster.dashboard.cluster_view import ClusterView
from weir.cli.cluster.dashboard.page_server import NO_STORE, VIEW, PageServer, body_of, json_answer
from weir.cli.cluster.dashboard.request_problem import RequestProblem
from weir.cli.cluster.dashboard.signed_in_people import HEALTH, SignedInPeople
from weir.control.token_bucket import TokenRate
from weir.dashboard.browser_checks import cookie_in
from weir.dashboard.oidc.errors import GrantRefused, ProviderUnavailable, TokenInvalid
from weir.dashboard.oidc.settings import CALLBACK, FLOW_COOKIE, FLOW_S, START
from weir.dashboard.oidc.sign_in_limiter import TOO_MANY, SignInLimiter
from weir.dashboard.trusted_proxies import HEADER, TrustedProxies

NAMESPACE = "/api/v1/dashboard/namespace"
SIGN_INS = TokenRate(600, 10.0)
"""Limit of sign-ins per address. Behind an untrusted ingress controller, everyone has its address."""
_HEADERS = {**NO_STORE, "Referrer-Policy": "no-referrer"}


class NamespaceChoice(BaseModel):
    """The only namespace to show; None for all."""

    model_config = ConfigDict(extra="forbid")

    namespace: Annotated[str, Field(pattern="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")] | None


class OidcRoutes:
    """Routes that begin and end sign-ins, and choose a namespace."""

    def __init__(self, people: SignedInPeople, server: PageServer, proxies: TrustedProxies) -> None:
        self._people = people
        self._server = server
        self._proxies = proxies
        self._limiter = SignInLimiter(SIGN_INS)

    def add(self, app: web.Application) -> None:
        """Add the routes to the application of the page."""
        app.router.add_get(START, self._start, allow_head=False)
        app.router.add_get(CALLBACK, self._callback, allow_head=False)
        app.router.add_put(NAMESPACE, self._choose)
        for path in HEALTH:
            app.router.add_get(path, _well)

    async def _start(self, request: web.Request) -> web.Response:
        """Send a browser to the provider."""
        self._take(request)
        try:
            address, cookie = await self._people.flow.begin()
        except ProviderUnavailable as error:
            raise RequestProblem(503, str(error)) from None
        answer = web.Response(status=303, headers={**_HEADERS, "Location": address})
        # Lax: the provider, another site, redirects the browser back.
        answer.set_cookie(
            FLOW_COOKIE, cookie, max_age=int(FLOW_S), path="/", secure=True, httponly=True, samesite="Lax"
        )
        return answer

    async def _callback(self, request: web.Request) -> web.Response:
        """Create the session of a browser that returns from the provider, and redirect to a one-time link."""
        self._take(request)
        query = request.query
        cookie = cookie_in(request.headers.get("Cookie", ""), FLOW_COOKIE)
        code = "" if query.get("error") else query.get("code", "")
        try:
            granted = await self._people.flow.redeem(cookie, query.get("state", "")[:200], code)
            credential = await self._people.begin(granted)
        except TokenInvalid as error:
            return _refused(401, f"This sign-in isn't valid: {error}. Sign in again.")
        except GrantRefused as error:
            return _refused(401, f"The identity provider refuses this sign-in ({error}).")
        except ProviderUnavailable as error:
            return _refused(503, str(error))
        except RequestProblem as error:
            return _refused(error.status, str(error))
        text, _ = self._people.sessions.make_code(credential, browser=cookie)
        return web.Response(status=303, headers={**_HEADERS, "Location": f"/#code={text}"})

    async def _choose(self, request: web.Request) -> web.Response:
        try:
            choice = NamespaceChoice.model_validate_json(await body_of(request))
        except ValidationError:
            raise RequestProblem(
                422, "A namespace has small letters, digits and dashes, at most 63: write one such as vision."
            ) from None
        view: ClusterView = request[VIEW]
        with view.opened.requests.admitted():
            credential = self._server.credential_of(request)
            return json_answer(await self._people.choose(credential, choice.namespace))

    def _take(self, request: web.Request) -> None:
        address = self._proxies.client_of(request.remote or "", request.headers.getall(HEADER, []))
        if self._limiter.take(address):
            raise RequestProblem(429, TOO_MANY)


def _refused(status: int, detail: str) -> web.Response:
    answer = web.Response(status=status, text=f"{detail}\n", headers=_HEADERS)
    answer.del_cookie(FLOW_COOKIE, path="/", secure=True, httponly=True, samesite="Lax")
    return answer


async def _well(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")
