"""Refusals of the dashboard's requests, as problem details."""

from http import HTTPStatus

from weir.api.answers import Problem
from weir.cli.cluster.dashboard.cluster_watch import WatchBroken, broken_by
from weir.cli.cluster.requests import sentence_of
from weir.client.errors import PoolError, Refused
from weir.dashboard.session_table import SignInRefused
from weir.kubernetes.api.errors import ApiError, ApiRefused


class RequestProblem(Exception):
    """A refused request."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def problem_of(error: Exception, server: str, log: str) -> Problem:
    """Return the refusal for an exception.

    `server`: the API server; `log`: name of the place that has the cause of a failure.
    """
    status, detail = 500, f"The dashboard failed at this request: its {log} says why."
    match error:
        case Refused():
            return error.problem
        case ApiRefused():  # passed on, a 401 of the API server would end the page's session
            status, detail = 403 if error.status == 401 else error.status, sentence_of(error)
        case ApiError():
            broken = broken_by(error, server)
            status, detail = broken.status, str(broken)
        case RequestProblem() | WatchBroken():
            status, detail = error.status, str(error)
        case SignInRefused():
            status, detail = 401, str(error)
        case PoolError():
            status, detail = 502, str(error)
    return Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
