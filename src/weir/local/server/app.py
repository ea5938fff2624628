"""The application: routes, refusals, authentication, and the description of the interface."""

from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weir import __version__
from weir.dashboard.oidc.settings import CALLBACK, START, WAYS
from weir.dashboard.oidc.sign_in_limiter import SignInLimiter
from weir.dashboard.tls_listener import ListenSettings
from weir.dashboard.trusted_proxies import TrustedProxies
from weir.local.server.access.audit import AuditLog
from weir.local.server.access.audit_middleware import AuditMiddleware
from weir.local.server.access.auth import Authenticator
from weir.local.server.access.authorization import Person
from weir.local.server.access.request_limiter import RequestLimiter
from weir.local.server.dashboard import browser_requests, oidc_routes
from weir.local.server.dashboard import routes as dashboard
from weir.local.server.dashboard.browser_requests import header, session_cookie
from weir.local.server.dashboard.live_hub import LiveHub
from weir.local.server.dashboard.sessions import DashboardSessions
from weir.local.server.http import problem_details
from weir.local.server.http.connections import keep
from weir.local.server.http.peers import peer_of
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.pool import PoolService
from weir.local.server.routes import (
    arrays,
    audit_log,
    batches,
    checkpoints,
    history,
    members,
    nodes,
    notifications,
    pod_entry,
    pool_state,
    queues,
    quota_previews,
    schedules,
    secrets,
    session_links,
    stream,
    submission_previews,
    sweeps,
    templates,
    tokens,
    what_if,
    why,
    workloads,
)
from weir.local.server.routes.common import BODIES

OPENAPI = "/api/v1/openapi.json"
OPEN = frozenset(
    {
        "/healthz",
        "/readyz",
        OPENAPI,
        dashboard.SIGN_IN,
        WAYS,
        START,
        CALLBACK,
    }
)
"""Paths that anyone may read."""
GUARDED = ("/api/", "/metrics")
_ABOUT = "One pool of GPUs for many teams, with guaranteed quotas and honest answers."

_GROUPS = (
    arrays.routes,
    batches.routes,
    workloads.routes,
    why.routes,
    submission_previews.routes,
    sweeps.routes,
    checkpoints.routes,
    pod_entry.routes,
    session_links.routes,
    queues.routes,
    quota_previews.routes,
    members.routes,
    schedules.routes,
    templates.routes,
    secrets.routes,
    history.routes,
    nodes.routes,
    notifications.routes,
    pool_state.routes,
    tokens.routes,
    audit_log.routes,
    what_if.routes,
    stream.routes,
    oidc_routes.routes,
    dashboard.routes,
)
"""Routers of the application, whose routes are used directly: including a router would process each again."""


class _AuthMiddleware:
    """Authenticates each request and applies the rate limits before anything else."""

    def __init__(
        self, app: ASGIApp, authenticator: Authenticator, limiter: RequestLimiter, sessions: DashboardSessions
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._sessions = sessions
        self._limiter = limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(GUARDED) and scope["path"] not in OPEN:
            try:
                credential = await self._credential_of(scope)
                await self._authenticator.refresh(credential)
                person = self._authenticator.person_with(credential)
                admitted = self._limiter.admitted(
                    person, scope["method"], scope["path"], scope["query_string"]
                )
                with admitted, suppress(_TokenExpired):
                    state = scope.setdefault("state", {})
                    state["person"], state["credential"] = person, credential
                    keep(state)
                    await self._app(scope, receive, self._while_it_holds(send, scope, person))
            except RequestRefused as refused:
                scope.setdefault("state", {}).setdefault("audit", {})["why"] = refused.detail
                if _has_body(scope):
                    await problem_details.discard_body(receive)
                await problem_details.answer(refused)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _credential_of(self, scope: Scope) -> str:
        """Return the identity of the token in the header, the session in the cookie, or the peer's user.

        A token comes first: its rights may be fewer than the peer's.
        """
        authorization = header(scope, b"authorization")
        if authorization:
            return await self._authenticator.bearer_credential(authorization)
        if session_cookie(scope):
            return browser_requests.credential_of(scope, self._sessions)
        peer = self._authenticator.peer_credential(peer_of(scope))
        return peer or await self._authenticator.bearer_credential("")

    async def _holds(self, scope: Scope, person: Person) -> bool:
        """Return True if a request still means this person, with the same rights."""
        try:
            if person.subject:  # the provider's tokens expire within minutes, streams last for hours
                return self._authenticator.open_person(scope["state"]["credential"]) == person
            credential = await self._credential_of(scope)
            await self._authenticator.refresh(credential)
            return self._authenticator.person_with(credential) == person
        except RequestRefused:
            return False

    def _while_it_holds(self, send: Send, scope: Scope, person: Person) -> Send:
        """End a long answer, such as a stream, once its token has changed or expired."""

        async def checked(message: Message) -> None:
            if message.get("more_body") and not await self._holds(scope, person):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                raise _TokenExpired
            await send(message)

        return checked


def _has_body(scope: Scope) -> bool:
    return any(
        key == b"transfer-encoding" or (key == b"content-length" and value != b"0")
        for key, value in scope["headers"]
    )


class _TokenExpired(Exception):
    """The token of a request is no longer valid."""


def create_app(
    pool: PoolService,
    authenticator: Authenticator,
    audit: AuditLog,
    listen: ListenSettings | None = None,
) -> FastAPI:
    """Create the application of a pool.

    Args:
        pool: the pool.
        authenticator: knows its people.
        audit: receives the requests.
        listen: the listener for other machines, if there is one.
    """
    app = create_schema_app()
    app.state.pool = pool
    app.state.limits = pool.limits
    app.state.workers = pool.workers
    app.state.audit = audit
    pool.checks["audit"] = audit.check
    app.state.sessions = sessions = DashboardSessions(pool.home, authenticator, pool.clock)
    app.state.authenticator = authenticator
    app.state.oidc = authenticator.oidc
    app.state.sign_ins = SignInLimiter()
    app.state.proxies = TrustedProxies() if listen is None else listen.proxies
    app.state.public_host = None if listen is None else urlsplit(listen.public_url).netloc
    app.state.session_proxy = None  # until the port of sessions is open
    app.state.live = LiveHub(pool, lambda: audit.lines)
    app.add_middleware(
        _AuthMiddleware, authenticator=authenticator, limiter=RequestLimiter(pool.limits), sessions=sessions
    )
    # Outermost, so that it also sees refusals
    app.add_middleware(AuditMiddleware, audit=audit, guarded=GUARDED)
    return app


def create_schema_app() -> FastAPI:
    """Create the application without a pool, for the description of its interface."""
    app = FastAPI(
        title="Weir",
        version=__version__,
        description=_ABOUT,
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=[route for group in _GROUPS for route in group.routes],
    )
    problem_details.install(app)
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(plain())
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # how FastAPI wants it done
    return app


def _complete(schema: dict[str, Any]) -> None:
    """Add the bodies that routes read themselves, and the authentication."""
    components = schema.setdefault("components", {})
    models = components.setdefault("schemas", {})
    for name, model in BODIES.items():
        model_schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        for inner, definition in model_schema.pop("$defs", {}).items():
            models.setdefault(inner, definition)
        models[name] = model_schema
    for unused in ("HTTPValidationError", "ValidationError"):
        models.pop(unused, None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            if path not in OPEN:
                operation["security"] = [{"token": []}]
            content = operation["responses"].get("422", {}).get("content", {})
            content.pop("application/json", None)
            content.setdefault(
                problem_details.PROBLEM_JSON, {"schema": {"$ref": "#/components/schemas/Problem"}}
            )
