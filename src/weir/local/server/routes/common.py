"""Parts that all routes share: the pool, the requester, cached responses, and parsed parameters."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel

from weir.api.answers import Problem, WorkloadRow
from weir.api.comma_lists import comma_words
from weir.local.server.access.auth import person_of
from weir.local.server.access.authorization import Person
from weir.local.server.http.problem_details import PROBLEM_JSON, RequestRefused, field_refusal
from weir.local.server.pool import PoolService
from weir.local.server.state.workload_lookup import find_workload, unknown_workload
from weir.local.server.views.array_view import ArrayView
from weir.model.array_indices import read_indices, split_name
from weir.model.reasons import as_clause
from weir.service.pending_reasons import explanation
from weir.store.records import StoredWorkload

Row = TypeVar("Row")
LIMIT_MAX = 1000
JSON = "application/json"


async def _pool(request: Request) -> PoolService:
    pool: PoolService = request.app.state.pool
    return pool


async def _requester(request: Request) -> Person:
    return person_of(request)


ThePool = Annotated[PoolService, Depends(_pool)]
Requester = Annotated[Person, Depends(_requester)]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Maximum number of items.")]
After = Annotated[
    str | None, Query(max_length=20, description="`next` of the previous page; omit it for the first page.")
]


def json_response(answer: BaseModel, status: int = 200) -> Response:
    """Return a response that pydantic has serialized."""
    return Response(answer.model_dump_json(), status_code=status, media_type=JSON)


def position(after: str | None) -> int | None:
    """Return the position that `after` names; None for the first page.

    Raises:
        RequestRefused: the position is invalid.
    """
    if after is None or after == "":
        return None
    if not (after.isascii() and after.isdigit() and len(after) <= 18):
        raise field_refusal("after", "is not the `next` of a page; write that, or omit it")
    return int(after)


def page_of(rows: Sequence[Row], limit: int, after: str | None) -> tuple[Sequence[Row], str | None]:
    """Return the rows of a page, and the position of the next one; None on the last page."""
    begin = position(after) or 0
    return rows[begin : begin + limit], str(begin + limit) if begin + limit < len(rows) else None


def refuse_large(size: int, pool: PoolService, subject: str) -> None:
    """Refuse a request whose JSON is larger than that of one workload may be.

    Raises:
        RequestRefused: the JSON is too large.
    """
    most = pool.limits.workload_bytes_max
    if size > most:
        raise RequestRefused(413, f"{subject} is larger than {most:,} bytes: put large parts into a file.")


def among(name: str, text: str | None, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Split a comma-separated parameter, and refuse unknown words.

    Raises:
        RequestRefused: a word is unknown.
    """
    words = comma_words(text)
    for word in words:
        if word not in allowed:
            raise field_refusal(
                name, f"{word[:40]!r} is unknown; write one or several of {', '.join(allowed)}"
            )
    return words


_REFUSALS = {
    400: "The request can't be read.",
    401: "Unknown or missing token. Log in with `weir login`.",
    403: "The person may not do this.",
    404: "Not found.",
    405: "The path doesn't support this method.",
    408: "The body arrived too slowly.",
    409: "The request conflicts with the current state.",
    413: "The body is too large.",
    422: "Invalid request; `errors` names the fields.",
    429: "The person's limit is exhausted; `Retry-After` says when to retry.",
    503: "The pool can't do this now; nothing was changed.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the refusals of a route, for the description of the interface."""
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
    """Document the body of a route that parses the body itself."""
    BODIES[model.__name__] = model
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"description": about, "required": True, "content": {JSON: {"schema": schema}}}}


def refuse_unqueued(pool: PoolService, name: str) -> None:
    """Refuse an index of an array that isn't queued yet.

    Raises:
        RequestRefused: the index isn't queued yet (409).
    """
    parts = split_name(name)
    array = None if parts is None else pool.view.arrays.named(parts[0])
    if parts is not None and array is not None and parts[1] in array.record.indices:
        raise RequestRefused(409, f"{name} isn't queued yet: {_why_unqueued(array)}.")


def _why_unqueued(array: ArrayView) -> str:
    """Return the reason, as a clause, for which an array queues no further index now."""
    name = array.name
    if array.stopped is not None:
        return f"{name} is being stopped, so it will not be"
    if array.suspended is not None:
        return f"{name} is suspended, and `weir resume {name}` lets its indices start"
    if array.gates:
        gate = explanation(next(iter(array.gates.values())))
        return "it waits" if gate is None else as_clause(gate.sentence)
    at_once = read_indices(counts.written).at_once if (counts := array.counts()).written else None
    most = "" if at_once is None else f", of which at most {at_once} run at a time"
    return f"it follows as the indices before it start{most}"


async def find_stored(pool: PoolService, name: str) -> tuple[StoredWorkload, WorkloadRow]:
    """Return the newest workload of a name, or the workload with a uid.

    Raises:
        RequestRefused: no workload has that name (404).
    """
    stored = await asyncio.to_thread(find_workload, pool.store, name)
    if stored is None:
        refuse_unqueued(pool, name)
        raise unknown_workload(pool.view, name[:80])
    row = pool.view.row_of(stored.row.uid)
    return stored, stored.row if row is None else row
