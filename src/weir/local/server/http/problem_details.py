"""Refusals as problem details (RFC 9457): errors by field, each with a correction.

Every failed request gets such an answer, never a stack trace. pydantic parses a body directly from its
bytes. Error messages are those of scenario files.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from math import ceil
from typing import TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.types import Receive
from structlog import get_logger

from weir.api.answers import Problem
from weir.api.field_errors import ERRORS_MAX, FieldErrorList, field_name, read_model
from weir.local.server.http.path_names import name_refusal
from weir.local.server.http.server_limits import ServerLimits
from weir.scenario_io.error_messages import parameter_error
from weir.scenario_io.scalars import CLASSES_CONTEXT
from weir.store.errors import (
    NameTaken,
    NoSuchQueue,
    NoSuchRule,
    NoSuchToken,
    NoSuchWorkload,
    NotSuspended,
    QueueInUse,
    QueueUnsound,
    StoreFailed,
    StoreRefusal,
    TooManyRules,
    WorkloadOver,
)

PROBLEM_JSON = "application/problem+json"
DISCARD_BYTES_MAX = 16 << 20
DISCARD_S_MAX = 1.0
_LOG = get_logger(__name__)
_STATUS_OF: dict[type[StoreRefusal], int] = {
    NameTaken: 409,
    NoSuchQueue: 404,
    NoSuchRule: 404,
    NoSuchToken: 404,
    NoSuchWorkload: 404,
    NotSuspended: 409,
    QueueInUse: 409,
    QueueUnsound: 422,
    TooManyRules: 409,
    WorkloadOver: 409,
}

Shape = TypeVar("Shape", bound=BaseModel)
Result = TypeVar("Result")


class RequestRefused(Exception):
    """A refused request. `errors` name the fields, each with a correction."""

    def __init__(
        self,
        status: int,
        detail: str,
        errors: Sequence[dict[str, str]] = (),
        *,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = list(errors[:ERRORS_MAX])
        self.retry_after_s = retry_after_s

    def problem(self) -> Problem:
        """Return the body of the response."""
        return Problem(
            title=HTTPStatus(self.status).phrase, status=self.status, detail=self.detail, errors=self.errors
        )


def field_refusal(field: str, text: str, status: int = 422) -> RequestRefused:
    """Return the refusal of one field or parameter. `text` follows its name in the sentence."""
    message = f"{field}: {text}"
    return RequestRefused(status, message, [{"field": field, "message": message}])


class FieldErrors(FieldErrorList):
    """Errors in the fields of one body, as a refused request."""

    def refusal(self, detail: str, errors: list[dict[str, str]]) -> Exception:
        """Return the refusal of the body."""
        return RequestRefused(422, detail, errors)


def read_as(
    model: type[Shape], raw: bytes | str, subject: str, priority_classes: Mapping[str, int] | None = None
) -> Shape:
    """Parse a body as its model; `priority_classes` are those of the pool, if the body may name one.

    Raises:
        RequestRefused: the body has mistakes; the answer has all of them.
    """
    context = None if priority_classes is None else {CLASSES_CONTEXT: priority_classes}
    return read_model(model, raw, FieldErrors(subject), context)


async def read_body(request: Request, parse: Callable[[bytes], Result]) -> Result:
    """Parse the body, off the event loop.

    Raises:
        RequestRefused: the body is too large, arrives too slowly, has too many values or is invalid.
    """
    limits: ServerLimits = request.app.state.limits
    raw = await _body_of(request, limits)

    def parsed() -> Result:
        _check_values(raw, limits.body_values_max)
        return parse(raw)

    result: Result = await request.app.state.workers.parse(len(raw), parsed)
    return result


async def _body_of(request: Request, limits: ServerLimits) -> bytes:
    most = limits.body_bytes_max
    too_large = RequestRefused(
        413, f"The body is larger than {most:,} bytes: send less, and put large data into a file."
    )
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_s_max):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    await discard_body(request.receive)
                    raise too_large
                parts.append(part)
    except TimeoutError:
        sentence = f"The body didn't arrive within {limits.body_s_max:g} s: send it at once."
        raise RequestRefused(408, sentence) from None
    return b"".join(parts)


async def discard_body(receive: Receive) -> None:
    """Read the rest of a body, within bounds: many clients read an answer only once they have sent it all."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_S_MAX):
            while size < DISCARD_BYTES_MAX:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _check_values(raw: bytes, values_max: int) -> None:
    """Check that a body has no more values than any request needs, before each of them is checked.

    Raises:
        RequestRefused: the body has more.
    """
    if len(raw) // 2 <= values_max:  # each value takes at least two bytes
        return
    try:
        left: list[object] = [from_json(raw)]
    except ValueError:
        return  # the model reports such errors
    count = 0
    while left:
        value = left.pop()
        if isinstance(value, dict):
            count += len(value)
            left.extend(inner for inner in value.values() if isinstance(inner, dict | list))
        elif isinstance(value, list):
            count += len(value)
            left.extend(inner for inner in value if isinstance(inner, dict | list))
        if count > values_max:
            detail = f"The body has more than {values_max:,} values: omit unnecessary ones."
            raise RequestRefused(413, detail)


def answer(refused: RequestRefused) -> Response:
    """Return a refusal as a response."""
    headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else {}
    if refused.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, ceil(refused.retry_after_s)))
    return Response(
        refused.problem().model_dump_json(),
        status_code=refused.status,
        media_type=PROBLEM_JSON,
        headers=headers,
    )


def install(app: FastAPI) -> None:
    """Register handlers that answer every failure as a problem."""
    app.add_exception_handler(RequestRefused, _refused)
    app.add_exception_handler(StoreRefusal, _refusal)
    app.add_exception_handler(StoreFailed, _store_failed)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _crashed)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefused)
    return answer(error)


async def _refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, StoreRefusal)
    status = next((status for kind, status in _STATUS_OF.items() if isinstance(error, kind)), 409)
    field = "name" if isinstance(error, NameTaken) else None
    return answer(
        RequestRefused(status, str(error), [{"field": field, "message": str(error)}] if field else [])
    )


async def _store_failed(request: Request, error: Exception) -> Response:
    """Answer a failure of the store. Only a request that could change something says that nothing changed."""
    sentence = str(error)
    if request.method not in _READS and "nothing was changed" not in sentence.lower():
        sentence = f"Nothing was changed: {sentence}"
    return answer(RequestRefused(503, sentence))


async def _not_valid(_request: Request, error: Exception) -> Response:
    """Answer parameters that FastAPI refused."""
    assert isinstance(error, RequestValidationError)
    errors = []
    for mistake in error.errors():
        field = field_name(list(mistake["loc"][1:] or mistake["loc"]))
        errors.append({"field": field, "message": parameter_error(mistake, field)})
    first = errors[0]["message"] if errors else "The request can't be read."
    return answer(RequestRefused(422, first, errors))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = _SAID.get(error.status_code, str(error.detail))
    if error.status_code == _NOT_FOUND:
        sentence = name_refusal(request.scope.get("raw_path") or b"") or sentence
    refused = RequestRefused(error.status_code, sentence)
    response = answer(refused)
    response.headers.update(error.headers or {})
    return response


_READS = ("GET", "HEAD")
_NOT_FOUND = 404
_SAID = {
    _NOT_FOUND: "Unknown path; /api/v1/openapi.json lists all paths.",
    405: "The path doesn't support this method; /api/v1/openapi.json lists its methods.",
}


async def _crashed(request: Request, error: Exception) -> Response:
    """Answer an internal error; the log omits the content of the request."""
    _LOG.error("request_crashed", method=request.method, kind=type(error).__name__, exc_info=error)
    return answer(RequestRefused(500, "Internal error; the server's log has details."))
