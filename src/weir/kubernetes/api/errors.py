"""Unexpected answers of the API server, as exceptions by the reaction of a caller.

A caller decides by type alone. It lists again after `ResourceExpired`, and waits for the stated time after
`TooManyRequests`. It reads again after `Conflict`, and tries again after `ApiUnreachable`. A write for which
`may_have_happened` holds is looked up before anything else is done about it.
"""

import msgspec
from msgspec import Struct

RETRY_AFTER_MAX_S = 60.0


class StatusCause(Struct, gc=False):
    """Single cause of a refusal."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, rename="camel", gc=False):
    """Object and causes of a refusal."""

    name: str = ""
    causes: list[StatusCause] = []
    retry_after_seconds: int = 0


class ApiStatus(Struct, gc=False):
    """An answer of the API server that isn't an object. `status`: Success or Failure."""

    status: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class ApiError(Exception):
    """The API server refused a request, or its outcome is unknown.

    `may_have_happened`: a write may nevertheless have been carried out, or be carried out yet.
    """

    may_have_happened = False


class ApiUnreachable(ApiError):
    """No answer, or not all of it."""

    def __init__(self, sentence: str, *, may_have_happened: bool) -> None:
        super().__init__(sentence)
        self.may_have_happened = may_have_happened


class CertificateUntrusted(ApiUnreachable):
    """No request was sent, because a certificate was refused. The text is whole sentences."""


class InvalidResponse(ApiError):
    """An unreadable answer: from another server, or in another form."""

    may_have_happened = True


class ApiRefused(ApiError):
    """An answer by which the API server refuses a request."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.may_have_happened = status >= 500  # a server error doesn't say if the write happened

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.status}, {self.reason!r}, {self.message!r})"


class NotFound(ApiRefused):
    """The object doesn't exist, or the server doesn't know its kind."""


class Conflict(ApiRefused):
    """The object has changed since the caller read it."""


class AlreadyExists(Conflict):
    """An object of this name exists already."""


class ResourceExpired(ApiRefused):
    """The resource version is too old: only a new list helps."""


class TooManyRequests(ApiRefused):
    """The server is overloaded, or a disruption budget refuses the eviction (`by_budget`)."""

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after_s: float, by_budget: bool
    ) -> None:
        super().__init__(status, reason, message)
        self.retry_after_s = retry_after_s
        self.by_budget = by_budget
        self.may_have_happened = False  # the server refuses before it begins


_BY_STATUS: dict[int, type[ApiRefused]] = {404: NotFound, 409: Conflict, 410: ResourceExpired}
_STATUS = msgspec.json.Decoder(ApiStatus)


def is_of_one_object(error: ApiError) -> bool:
    """Return True if a refusal concerns only the object of its request; others may be written meanwhile."""
    return isinstance(error, ApiRefused) and error.status < 500 and not isinstance(error, TooManyRequests)


def refusal(code: int, body: bytes, retry_after: str = "") -> ApiRefused:
    """Return the exception for an answer with this status code; `retry_after` is that header's value."""
    try:
        status = _STATUS.decode(body)
    except msgspec.DecodeError:  # some answers, and those of proxies, are plain text
        status = ApiStatus(message=body[:300].decode(errors="replace").strip())
    return refusal_of(status, code, _seconds(retry_after))


def refusal_of(status: ApiStatus, code: int = 0, retry_after_s: float | None = None) -> ApiRefused:
    """Return the exception for a status; in a watch it comes without a status code of HTTP."""
    code = code or status.code or 500
    message = status.message or status.reason or f"The API server answered {code}."
    details = status.details or StatusDetails()
    by_budget = any(cause.reason == "DisruptionBudget" for cause in details.causes)
    if retry_after_s is None and details.retry_after_seconds:
        retry_after_s = float(details.retry_after_seconds)
    if code == 429 or (code == 503 and retry_after_s is not None):
        wait_s = 1.0 if retry_after_s is None else min(retry_after_s, RETRY_AFTER_MAX_S)
        return TooManyRequests(code, status.reason, message, retry_after_s=wait_s, by_budget=by_budget)
    if status.reason == "AlreadyExists":
        return AlreadyExists(code, status.reason, message)
    if status.reason == "Expired":
        return ResourceExpired(code, status.reason, message)
    return _BY_STATUS.get(code, ApiRefused)(code, status.reason, message)


def _seconds(text: str) -> float | None:
    """Return Retry-After in seconds; the API server never sends a date; None without the header."""
    return float(text) if text.isdigit() else None
