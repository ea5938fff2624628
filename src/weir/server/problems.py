"""Refusals as problem details (RFC 9457): what was wrong, field by field, and what to write instead.

Whatever a request says, the answer is one of these and never the trace of a crash. A body is read by
pydantic straight from its bytes and complained of in the words scenario files are complained of.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from structlog import get_logger

from weir.model.files.complaints import complain
from weir.model.files.lines import Mistakes, Step
from weir.model.pool import Problem
from weir.store.failures import (
    NameTaken,
    NoSuchQueue,
    NoSuchToken,
    NoSuchWorkload,
    NotSuspended,
    QueueInUse,
    QueueUnsound,
    Refusal,
    StoreFailed,
    WorkloadOver,
)

PROBLEM_JSON = "application/problem+json"
BODY_BYTES_MOST = 8 << 20
ERRORS_MOST = 100
_LOG = get_logger(__name__)
_STATUS_OF: dict[type[Refusal], int] = {
    NameTaken: 409,
    NoSuchQueue: 404,
    NoSuchToken: 404,
    NoSuchWorkload: 404,
    NotSuspended: 409,
    QueueInUse: 409,
    QueueUnsound: 422,
    WorkloadOver: 409,
}

Shape = TypeVar("Shape", bound=BaseModel)


class Refused(Exception):
    """A request is refused. `errors` name the fields, each with what to write instead."""

    def __init__(self, status: int, detail: str, errors: Sequence[dict[str, str]] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = list(errors[:ERRORS_MOST])

    def problem(self) -> Problem:
        """What is answered."""
        return Problem(
            title=HTTPStatus(self.status).phrase, status=self.status, detail=self.detail, errors=self.errors
        )


class Fields(Mistakes):
    """Everything wrong with the fields of one body."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self._errors: dict[tuple[str, str], None] = {}

    def at(self, path: Sequence[Step], text: str) -> None:
        """Something is wrong with a field."""
        self._errors.setdefault((field_name(path), text))

    def __bool__(self) -> bool:
        return bool(self._errors)

    def refuse_if_any(self) -> None:
        """Refuse the body if anything is wrong with it.

        Raises:
            Refused: with all of it.
        """
        if self._errors:
            errors = [{"field": field, "message": text} for field, text in self._errors]
            first = errors[0]["message"]
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise Refused(422, f"{self.file}: {first}{more}", errors)


def field_name(path: Sequence[Step]) -> str:
    """A path as people write it: `pods[0].gpus`."""
    name = ""
    for step in path:
        if isinstance(step, int):
            name += f"[{step}]"
        else:
            shown = step if step.isprintable() else ascii(step)[1:-1]
            name += f".{shown}" if name else shown
    return name or "body"


def read_as(model: type[Shape], raw: bytes | str, what: str) -> Shape:
    """A body as its model.

    Raises:
        Refused: with everything that doesn't fit.
    """
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        fields = Fields(what)
        if error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid":
            fields.at((), "the body is not JSON; write one JSON object")
        else:
            complain(error, model, (), fields)
        fields.refuse_if_any()
        raise


async def body_of(request: Request) -> bytes:
    """The body, if it isn't too large.

    Raises:
        Refused: it is.
    """
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_BYTES_MOST:
            raise Refused(413, f"The body is larger than {BODY_BYTES_MOST >> 20} MiB: send less.")
        parts.append(part)
    return b"".join(parts)


def answer(refused: Refused) -> Response:
    """A refusal as a response."""
    headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else None
    return Response(
        refused.problem().model_dump_json(),
        status_code=refused.status,
        media_type=PROBLEM_JSON,
        headers=headers,
    )


def install(app: FastAPI) -> None:
    """Have every failure answered as a problem."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(Refusal, _refusal)
    app.add_exception_handler(StoreFailed, _store_failed)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _crashed)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return answer(error)


async def _refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    status = next((status for kind, status in _STATUS_OF.items() if isinstance(error, kind)), 409)
    field = "name" if isinstance(error, NameTaken) else None
    return answer(Refused(status, str(error), [{"field": field, "message": str(error)}] if field else []))


async def _store_failed(_request: Request, error: Exception) -> Response:
    said = str(error)
    return answer(
        Refused(503, said if "nothing was changed" in said.lower() else f"Nothing was changed: {said}")
    )


async def _not_valid(_request: Request, error: Exception) -> Response:
    """Parameters FastAPI itself refused."""
    assert isinstance(error, RequestValidationError)
    errors = [
        {"field": field_name(list(each["loc"][1:] or each["loc"])), "message": str(each["msg"])}
        for each in error.errors()
    ]
    first = f"{errors[0]['field']}: {errors[0]['message']}" if errors else "The request can't be read."
    return answer(Refused(422, first, errors))


async def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refused = Refused(error.status_code, _SAID.get(error.status_code, str(error.detail)))
    found = answer(refused)
    found.headers.update(error.headers or {})
    return found


_SAID = {
    404: "There is nothing at this address; /api/v1/openapi.json lists what there is.",
    405: "This address doesn't answer this method; /api/v1/openapi.json lists what it answers.",
}


async def _crashed(request: Request, error: Exception) -> Response:
    """A fault of ours: told in the log without what the request said."""
    _LOG.error("request_crashed", method=request.method, kind=type(error).__name__, exc_info=error)
    return answer(Refused(500, "The server made a mistake; its log says more."))
