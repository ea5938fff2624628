"""Server of a cluster's dashboard: the page, its sessions, the live stream, and REST.

Other people reach the port too, and so do other sites in a person's browser. Each request has to name the
right host, and each of REST needs the cookie and the proof of a session. `Visitors` says who has one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import web
from pydantic import BaseModel, ValidationError
from structlog import get_logger

from weir.api.access import SignInWays
from weir.cli.cluster.dashboard.cluster_view import STREAMS_MAX, ClusterView
from weir.cli.cluster.dashboard.log_answer import send_log
from weir.cli.cluster.dashboard.request_problem import RequestProblem, problem_of
from weir.dashboard.browser_checks import PROOF, cookie_in, origin_refusal
from weir.dashboard.oidc.settings import FLOW_COOKIE
from weir.dashboard.page_bundle import NOT_BUILT, asset_file, index_file
from weir.dashboard.person import DashboardPerson, SignInAsked
from weir.dashboard.session_table import SESSION_S, SessionTable, SignInRefused

SIGN_IN, SESSION = "/api/v1/dashboard/sign-in", "/api/v1/dashboard/session"
STREAM, WAYS = "/api/v1/dashboard/stream", "/api/v1/sign-in"
LOGS = "/api/v1/workloads/{workload}/logs"
BODY_BYTES_MAX = 1 << 20
BODY_S_MAX = 10.0
"""Time limit for the body of a request, so that an endless body doesn't occupy a connection."""
NO_STORE = {"Cache-Control": "no-store"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
VIEW = web.RequestKey("view", ClusterView)
_LOG = get_logger(__name__)


class Visitors(Protocol):
    """People who may see the page, their sessions, and the address of the page."""

    sessions: SessionTable
    cookie: str  # name of the cookie of a session
    is_secure: bool  # True: the page is served over HTTPS
    ways: SignInWays
    log: str  # place of the log, for messages
    open_paths: frozenset[str]  # further routes that need no session
    health_paths: frozenset[str]  # routes of the kubelet's probes, which send no host name

    def host_refusal(self, host: str) -> str | None:
        """Return why a Host header is refused, or None."""
        ...

    def view(self, credential: str) -> ClusterView:
        """Return the cluster as the person of a session sees it.

        Raises:
            SignInRefused: their sign-in has ended.
        """
        ...

    async def person(self, credential: str) -> DashboardPerson:
        """Return the person of a session."""
        ...

    def ended(self, credential: str) -> str | None:
        """Return the cause of a session's end; None if it is valid."""
        ...

    async def leave(self, credential: str) -> str | None:
        """Forget the person of a session; return the page that ends it with the identity provider."""
        ...


class PageServer:
    """Routes of the dashboard of one cluster."""

    def __init__(self, visitors: Visitors, server: str) -> None:
        """Create the server. `server`: address of the API server, to show to people."""
        self._visitors = visitors
        self._server = server
        self._sessions = visitors.sessions
        self._open = frozenset(
            {("POST", SIGN_IN), ("GET", WAYS)} | {("GET", path) for path in visitors.open_paths}
        )

    def application(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._answered])
        app.router.add_get("/", _index)
        app.router.add_get("/assets/{name}", _asset)
        app.router.add_get(WAYS, self._ways)
        app.router.add_post(SIGN_IN, self._sign_in)
        app.router.add_get(SESSION, self._session)
        app.router.add_delete(SESSION, self._sign_out)
        app.router.add_get(STREAM, self._stream)
        return app

    def add_rest(self, app: web.Application) -> None:
        """Add the routes of REST, behind all others."""
        app.router.add_get(LOGS, self._logs)
        app.router.add_route("*", "/api/v1/{rest:.*}", self._rest)

    @web.middleware
    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check a request, and answer its refusal as a problem."""
        credential = ""
        try:
            credential = self._checked(request)
            return await handler(request)
        except Exception as error:  # noqa: BLE001 - the other requests are answered
            ended = self._visitors.ended(credential) if credential else None
            shown = error if ended is None else SignInRefused(ended)
            if isinstance(shown, web.HTTPException):
                shown = RequestProblem(shown.status, f"{shown.reason}.")
            problem = problem_of(shown, self._server, self._visitors.log)
            if problem.status == 500:
                _LOG.error("request_failed", method=request.method, path=request.path, why=repr(error))
        return web.Response(
            status=problem.status,
            text=problem.model_dump_json(),
            content_type="application/problem+json",
            headers=NO_STORE,
        )

    def _checked(self, request: web.Request) -> str:
        """Return the credential of a request, which must come from this page and have a session.

        Raises:
            RequestProblem: the request comes from another site.
            SignInRefused: it has no session.
        """
        if request.path in self._visitors.health_paths:
            return ""
        host, headers = request.headers.get("Host", ""), request.headers
        refusal = self._visitors.host_refusal(host)
        is_api = request.path.startswith("/api/")
        if refusal is None and is_api:
            origin, site = headers.get("Origin", ""), headers.get("Sec-Fetch-Site", "")
            refusal = origin_refusal(request.method, host, origin, site)
        if refusal is not None:
            raise RequestProblem(403, refusal)
        if not is_api or (request.method, request.path) in self._open:
            return ""
        credential = self._sessions.credential_of(self._cookie_in(request), headers.get(PROOF, ""))
        request[VIEW] = self._visitors.view(credential)
        return credential

    def _cookie_in(self, request: web.Request) -> str:
        return cookie_in(request.headers.get("Cookie", ""), self._visitors.cookie)

    def credential_of(self, request: web.Request) -> str:
        """Return the credential of a request's session.

        Raises:
            SignInRefused: it has none.
        """
        return self._sessions.credential_of(self._cookie_in(request), request.headers.get(PROOF, ""))

    # Sessions

    async def _ways(self, _request: web.Request) -> web.Response:
        return json_answer(self._visitors.ways)

    async def _sign_in(self, request: web.Request) -> web.Response:
        try:
            asked = SignInAsked.model_validate_json(await body_of(request))
        except ValidationError:
            asked = SignInAsked()
        if asked.code is None:
            raise RequestProblem(422, "A cluster's dashboard takes no tokens: open a link that signs in.")
        flow_cookie = cookie_in(request.headers.get("Cookie", ""), FLOW_COOKIE)
        credential = self._sessions.redeem(asked.code, flow_cookie)
        person = await self._visitors.person(credential)
        cookie, proof = self._sessions.begin(credential)
        answer = json_answer(person.model_copy(update={"proof": proof}), 201)
        answer.set_cookie(
            self._visitors.cookie,
            cookie,
            max_age=int(SESSION_S),
            path="/",
            secure=self._visitors.is_secure,
            httponly=True,
            samesite="Strict",
        )
        if flow_cookie:
            answer.del_cookie(FLOW_COOKIE, path="/", secure=True, httponly=True, samesite="Lax")
        return answer

    async def _session(self, request: web.Request) -> web.Response:
        view: ClusterView = request[VIEW]
        with view.opened.requests.admitted():
            return json_answer(await self._visitors.person(self.credential_of(request)))

    async def _sign_out(self, request: web.Request) -> web.Response:
        credential = self.credential_of(request)
        self._sessions.end(self._cookie_in(request))
        provider = await self._visitors.leave(credential)
        answer = web.json_response({"provider": provider}, headers=NO_STORE)
        secure = self._visitors.is_secure
        answer.del_cookie(self._visitors.cookie, path="/", secure=secure, httponly=True, samesite="Strict")
        return answer

    # Stream and REST

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        view: ClusterView = request[VIEW]
        watch = await view.live.watch()
        if len(watch.feed.readers) >= STREAMS_MAX or (reader := watch.feed.join(None)) is None:
            raise RequestProblem(503, "Too many pages are open already.")
        answer = web.StreamResponse(headers={**NO_STORE, "Content-Encoding": "gzip"})
        answer.content_type = "application/x-ndjson"
        try:
            await answer.prepare(request)
            async for packed in watch.frames(reader, lambda: self._holds(request)):
                await answer.write(packed)
        except ConnectionError:  # the page was closed
            pass
        finally:
            watch.feed.readers.discard(reader)
        return answer

    def _holds(self, request: web.Request) -> bool:
        """Return True if the session of a long request is valid and has the same view."""
        try:
            return self._visitors.view(self.credential_of(request)) is request[VIEW]
        except SignInRefused:
            return False

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        view: ClusterView = request[VIEW]
        with view.opened.logs.admitted():
            pieces = await view.logs(request.match_info["workload"], request.query)
            return await send_log(request, pieces, lambda: self._holds(request))

    async def _rest(self, request: web.Request) -> web.Response:
        view: ClusterView = request[VIEW]
        with view.opened.requests.admitted():
            body = await body_of(request)
            answer = await view.answer(request.method, request.raw_path, request.query, body)
        if answer is None:
            return web.Response(status=204, headers=NO_STORE)
        if isinstance(answer, str):
            return web.Response(text=answer, headers=NO_STORE)
        if isinstance(answer, BaseModel):
            return json_answer(answer)
        return web.Response(body=answer, content_type="application/json", headers=NO_STORE)


async def body_of(request: web.Request) -> bytes:
    """Return the body of a request.

    Raises:
        RequestProblem: it takes too long.
    """
    try:
        async with asyncio.timeout(BODY_S_MAX):
            return await request.read()
    except TimeoutError:
        raise RequestProblem(408, "The request takes too long: send it again.") from None


async def _index(_request: web.Request) -> web.Response:
    file = index_file()
    if file is None:
        raise RequestProblem(503, NOT_BUILT)
    return web.Response(body=file[0], headers=file[1])


async def _asset(request: web.Request) -> web.Response:
    file = asset_file(request.match_info["name"], request.headers.get("Accept-Encoding", ""))
    if file is None:
        raise RequestProblem(404, "There is no such file.")
    return web.Response(body=file[0], headers=file[1])


def json_answer(answer: BaseModel, status: int = 200) -> web.Response:
    """Return an answer that no proxy or browser may cache."""
    return web.Response(
        status=status, text=answer.model_dump_json(), content_type="application/json", headers=NO_STORE
    )
