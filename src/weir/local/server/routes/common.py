"""What all routes need: the pool, who asks, answers written once, parameters read carefully."""

from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel

from weir.api.answers import Problem
from weir.local.server.auth import Person, person_of
from weir.local.server.pool import PoolService
from weir.local.server.problem_details import PROBLEM_JSON, RequestRefused

LIMIT_MOST = 1000
JSON = "application/json"


async def _pool(request: Request) -> PoolService:
    found: PoolService = request.app.state.pool
    return found


async def _who(request: Request) -> Person:
    return person_of(request)


ThePool = Annotated[PoolService, Depends(_pool)]
Who = Annotated[Person, Depends(_who)]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MOST, description="How many at most.")]
After = Annotated[
    str | None, Query(max_length=20, description="`next` of the page before; leave out for the first.")
]


def said(answer: BaseModel, status: int = 200) -> Response:
    """An answer, written by pydantic alone."""
    return Response(answer.model_dump_json(), status_code=status, media_type=JSON)


def position(after: str | None) -> int | None:
    """What `after` says.

    Raises:
        Refused: it isn't what a page said.
    """
    if after is None or after == "":
        return None
    if not (after.isascii() and after.isdigit() and len(after) <= 18):
        message = "after: is not what a page said; write its next, or leave it out"
        raise RequestRefused(422, message, [{"field": "after", "message": message}])
    return int(after)


def words(text: str | None) -> tuple[str, ...]:
    """Words between commas."""
    return tuple(dict.fromkeys(word.strip() for word in (text or "").split(",") if word.strip()))


def among(name: str, text: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """Words between commas, each one of those known.

    Raises:
        Refused: one isn't.
    """
    found = words(text)
    for word in found:
        if word not in known:
            message = f"{name}: {word[:40]!r} isn't known; write some of {', '.join(known)}"
            raise RequestRefused(422, message, [{"field": name, "message": message}])
    return found


_REFUSALS = {
    400: "The request can't be read.",
    401: "Nobody the pool knows asks.",
    403: "Who asks may not do this.",
    404: "There is no such thing.",
    405: "This address doesn't answer this method.",
    408: "The body came too slowly.",
    409: "It contradicts what is.",
    413: "The body is too large.",
    422: "Something is wrong with the request; `errors` names the fields.",
    429: "This person has used up their share; `Retry-After` says when to ask again.",
    503: "The pool can't do this now; nothing was changed.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route may refuse, for the description of the interface."""
    return {
        status: {
            "description": _REFUSALS[status],
            "content": {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in (401, *statuses, 429, 503)
    }


BODIES: dict[str, type[BaseModel]] = {"Problem": Problem}


BODY_REFUSALS = (408, 413, 422)


def takes(model: type[BaseModel], about: str) -> dict[str, Any]:
    """That a route takes a body, which it reads itself."""
    BODIES[model.__name__] = model
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"description": about, "required": True, "content": {JSON: {"schema": schema}}}}
