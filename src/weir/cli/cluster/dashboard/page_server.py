"""Server of a cluster's dashboard: the page, its session, the live stream, and REST through a kubeconfig.

It listens on loopback. Other users of the machine reach the port too, and so do other sites in the person's
browser: each request has to name this machine, and each of REST needs the cookie and the proof of a session.
"""

import sys
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec
from aiohttp import web
from pydantic import BaseModel, ValidationError

from weir.api.access import SignInWays
from weir.api.answers import Answer, Problem
from weir.cli.cluster.dashboard.cluster_watch import ClusterLive, WatchBroken, broken_by
from weir.cli.cluster.dashboard.rights import person_of
from weir.cli.cluster.requests import ClusterRequests, parts_of, sentence_of
from weir.client.errors import PoolError, Refused
from weir.dashboard.browser_checks import COOKIE, PROOF, cookie_in, loopback_refusal, origin_refusal
from weir.dashboard.page_bundle import NOT_BUILT, asset_file, index_file
from weir.dashboard.person import SignInAsked
from weir.dashboard.session_table import SESSION_S, SessionTable, SignInRefused
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError, ApiRefused
from weir.model.resources import seconds

CREDENTIAL = "kubeconfig"
SIGNED_OUT = "You aren't signed in here any more: run `weir dashboard` again."
SIGN_IN, SESSION = "/api/v1/dashboard/sign-in", "/api/v1/dashboard/session"
STREAM, WAYS = "/api/v1/dashboard/stream", "/api/v1/sign-in"
BODY_BYTES_MAX = 1 << 20
_OPEN = frozenset({("POST", SIGN_IN), ("GET", WAYS)})
"""Requests that need no session."""
_NO_STORE = {"Cache-Control": "no-store"}
_EVENT_KINDS = {"stopping": "preempted"}
"""Kinds of a pool's events as a cluster names them."""
_REPORTS = ("history", "usage")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RequestProblem(Exception):
    """A refused request."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class PageServer:
    """Routes of the dashboard of one cluster. `name`: of the cluster, for people."""

    def __init__(self, api: ApiClient, name: str, *, namespace: str | None, port: int) -> None:
        self._api = api
        self._name = name
        self._requests = ClusterRequests(api, namespace=namespace)
        self.live = ClusterLive(api, self._requests.queries, namespace)
        self._cookie = (
            f"{COOKIE}_{port}"  # cookies are of a host, and a pool's dashboard may be on another port
        )
        self._sessions = SessionTable(time.time, is_known=lambda _: True, signed_out=SIGNED_OUT)

    def make_code(self) -> str:
        """Return the code of a link that signs in once, within a minute."""
        return self._sessions.make_code(CREDENTIAL)[0]

    def application(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._answered])
        app.router.add_get("/", _index)
        app.router.add_get("/assets/{name}", _asset)
        app.router.add_get(WAYS, _ways)
        app.router.add_post(SIGN_IN, self._sign_in)
        app.router.add_get(SESSION, self._session)
        app.router.add_delete(SESSION, self._sign_out)
        app.router.add_get(STREAM, self._stream)
        app.router.add_route("*", "/api/v1/{rest:.*}", self._rest)
        return app

    @web.middleware
    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check a request, and answer its refusal as a problem."""
        try:
            self._check(request)
            return await handler(request)
        except Exception as error:  # noqa: BLE001 - the other requests are answered
            problem = self._problem_of(error)
            if problem.status == 500:
                print(f"weir: {request.method} {request.path}: {error!r}", file=sys.stderr)
        return web.Response(
            status=problem.status,
            text=problem.model_dump_json(),
            content_type="application/problem+json",
            headers=_NO_STORE,
        )

    def _problem_of(self, error: Exception) -> Problem:
        """Return the refusal that an error stands for."""
        status, detail = 500, "The dashboard failed at this request: its terminal says why."
        match error:
            case Refused():
                return error.problem
            case ApiRefused():  # a 401 of the cluster would end the session of the page
                status, detail = 403 if error.status == 401 else error.status, sentence_of(error)
            case ApiError():
                broken = broken_by(error, self._api.server)
                status, detail = broken.status, str(broken)
            case RequestProblem() | WatchBroken():
                status, detail = error.status, str(error)
            case SignInRefused():
                status, detail = 401, str(error)
            case PoolError():
                status, detail = 502, str(error)
            case web.HTTPException():
                status, detail = error.status, f"{error.reason}."
        return Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)

    def _check(self, request: web.Request) -> None:
        """Refuse what comes from another site, or without a session.

        Raises:
            RequestProblem: it comes from another site.
            SignInRefused: it has no session.
        """
        host, headers = request.headers.get("Host", ""), request.headers
        refusal = loopback_refusal(host)
        is_api = request.path.startswith("/api/")
        if refusal is None and is_api:
            origin, site = headers.get("Origin", ""), headers.get("Sec-Fetch-Site", "")
            refusal = origin_refusal(request.method, host, origin, site)
        if refusal is not None:
            raise RequestProblem(403, refusal)
        if is_api and (request.method, request.path) not in _OPEN:
            self._sessions.credential_of(self._cookie_in(request), headers.get(PROOF, ""))

    def _cookie_in(self, request: web.Request) -> str:
        return cookie_in(request.headers.get("Cookie", ""), self._cookie)

    # Sessions

    async def _sign_in(self, request: web.Request) -> web.Response:
        try:
            asked = SignInAsked.model_validate_json(await request.read())
        except ValidationError:
            asked = SignInAsked()
        if asked.code is None:
            raise RequestProblem(
                422, "A cluster's dashboard has no tokens: open the link that `weir dashboard` prints."
            )
        credential = self._sessions.redeem(asked.code)
        person = await self._person()
        cookie, proof = self._sessions.begin(credential)
        answer = _json(person.model_copy(update={"proof": proof}), 201)
        answer.set_cookie(
            self._cookie, cookie, max_age=int(SESSION_S), path="/", httponly=True, samesite="Strict"
        )
        return answer

    async def _session(self, _request: web.Request) -> web.Response:
        return _json(await self._person())

    async def _person(self) -> Answer:
        watch = await self.live.watch()
        return await person_of(self._api, self._name, watch.namespace)

    async def _sign_out(self, request: web.Request) -> web.Response:
        self._sessions.end(self._cookie_in(request))
        answer = web.json_response({"provider": None}, headers=_NO_STORE)
        answer.del_cookie(self._cookie, path="/", httponly=True, samesite="Strict")
        return answer

    # Stream and REST

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        watch = await self.live.watch()
        reader = watch.feed.join(None)
        if reader is None:
            raise RequestProblem(503, "Too many pages are open already.")
        cookie, proof = self._cookie_in(request), request.headers.get(PROOF, "")

        def holds() -> bool:
            try:
                self._sessions.credential_of(cookie, proof)
            except SignInRefused:
                return False
            return True

        answer = web.StreamResponse(headers={**_NO_STORE, "Content-Encoding": "gzip"})
        answer.content_type = "application/x-ndjson"
        try:
            await answer.prepare(request)
            async for packed in watch.frames(reader, holds):
                await answer.write(packed)
        except ConnectionError:  # the page was closed
            pass
        finally:
            watch.feed.readers.discard(reader)
        return answer

    async def _rest(self, request: web.Request) -> web.Response:
        parts, params = parts_of(request.raw_path), dict(request.query)
        if parts[0] == "workloads" and len(parts) > 1:
            parts[1] = await self._named(parts[1])
        if "workload" in params:
            params["workload"] = await self._named(params["workload"])
        if "kind" in params:
            params["kind"] = _EVENT_KINDS.get(params["kind"], params["kind"])
        if parts[0] in _REPORTS and "since" in params:
            params["since"] = _since(params["since"])
        body = await request.read()
        try:
            answer = await self._requests.answer(request.method, parts, params, body)
        except (msgspec.DecodeError, TypeError, AttributeError) as error:
            print(f"weir: {request.method} {request.path}: {error}", file=sys.stderr)
            raise RequestProblem(422, "The body of the request can't be read.") from None
        return _rest_answer(answer)

    async def _named(self, name: str) -> str:
        """Return the namespace and name of a workload, which pages know by its number."""
        if not (name.isascii() and name.isdigit()):
            return name
        watch = await self.live.watch()
        found = watch.rows.names.get(int(name))
        if found is None:
            raise RequestProblem(404, "There is no such workload any more.")
        return found


def _since(written: str) -> str:
    """Return the begin of a report, which pages give as an age such as 7d."""
    try:
        return written if written.replace(".", "", 1).isdigit() else str(time.time() - seconds(written))
    except ValueError:
        return written


async def _ways(_request: web.Request) -> web.Response:
    """Return how people sign in: by the link alone."""
    return _json(SignInWays(links_only=True))


async def _index(_request: web.Request) -> web.Response:
    found = index_file()
    if found is None:
        raise RequestProblem(503, NOT_BUILT)
    return web.Response(body=found[0], headers=found[1])


async def _asset(request: web.Request) -> web.Response:
    found = asset_file(request.match_info["name"], request.headers.get("Accept-Encoding", ""))
    if found is None:
        raise RequestProblem(404, "There is no such file.")
    return web.Response(body=found[0], headers=found[1])


def _rest_answer(answer: BaseModel | bytes | str | None) -> web.Response:
    if answer is None:
        return web.Response(status=204, headers=_NO_STORE)
    if isinstance(answer, str):
        return web.Response(text=answer, headers=_NO_STORE)
    if isinstance(answer, BaseModel):
        return _json(answer)
    return web.Response(body=answer, content_type="application/json", headers=_NO_STORE)


def _json(answer: BaseModel, status: int = 200) -> web.Response:
    return web.Response(
        status=status, text=answer.model_dump_json(), content_type="application/json", headers=_NO_STORE
    )
