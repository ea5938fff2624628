"""Refusals of requests that a cluster can't carry out."""

from weir.api.answers import Problem
from weir.client.errors import Refused


def refused(status: int, detail: str) -> Refused:
    """Return a refusal."""
    return Refused(Problem(title="The cluster refused", status=status, detail=detail))


def wrong(detail: str) -> Refused:
    """Return the refusal of an invalid request."""
    return refused(422, detail)


def not_here(instead: str) -> Refused:
    """Return the refusal of a request for which a cluster has other tools."""
    return refused(422, instead)
