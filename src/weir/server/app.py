"""The application: routes, refusals, who may ask, and the description of the interface."""

from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from weir import __version__
from weir.server import problems
from weir.server.auth import Door
from weir.server.pool import Pool
from weir.server.problems import Refused
from weir.server.routes import queues, tokens, watching, whole, workloads
from weir.server.routes.common import BODIES

OPENAPI = "/api/v1/openapi.json"
OPEN = frozenset({"/healthz", "/readyz", OPENAPI})
"""What anyone may read."""
GUARDED = ("/api/", "/metrics")
_ABOUT = "One pool of GPUs for many teams, with guaranteed quotas and honest answers."


class _Guard:
    """Asks who sends a request before anything else looks at it."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(GUARDED) and scope["path"] not in OPEN:
            header = next((value for key, value in scope["headers"] if key == b"authorization"), b"")
            try:
                person = self._door.who(header.decode("latin-1"))
            except Refused as refused:
                await problems.answer(refused)(scope, receive, send)
                return
            scope.setdefault("state", {})["person"] = person
        await self._app(scope, receive, send)


def application(pool: Pool, door: Door) -> FastAPI:
    """The application of a pool."""
    app = described()
    app.state.pool = pool
    app.add_middleware(_Guard, door=door)
    return app


def described() -> FastAPI:
    """The application without a pool: what there is to say of its interface."""
    app = FastAPI(
        title="Weir",
        version=__version__,
        description=_ABOUT,
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for routes in (workloads, queues, whole, tokens, watching):
        app.include_router(routes.routes)
    problems.install(app)
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(plain())
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # how FastAPI wants it done
    return app


def _complete(schema: dict[str, Any]) -> None:
    """Add the bodies that routes read themselves, and how to say who asks."""
    components = schema.setdefault("components", {})
    models = components.setdefault("schemas", {})
    for name, model in BODIES.items():
        found = model.model_json_schema(ref_template="#/components/schemas/{model}")
        for inner, definition in found.pop("$defs", {}).items():
            models.setdefault(inner, definition)
        models[name] = found
    for unused in ("HTTPValidationError", "ValidationError"):
        models.pop(unused, None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            if path not in OPEN:
                operation["security"] = [{"token": []}]
            content = operation["responses"].get("422", {}).get("content", {})
            content.pop("application/json", None)
            content.setdefault(problems.PROBLEM_JSON, {"schema": {"$ref": "#/components/schemas/Problem"}})
