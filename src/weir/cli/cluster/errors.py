"""What a cluster can't do, said as a pool says no."""

from weir.api.answers import Problem
from weir.client.errors import Refused


def refused(status: int, detail: str) -> Refused:
    """A refusal."""
    return Refused(Problem(title="The cluster refused", status=status, detail=detail))


def wrong(said: str) -> Refused:
    """The request can't be carried out as it is."""
    return refused(422, said)


def not_here(instead: str) -> Refused:
    """Something a cluster has no part in."""
    return refused(422, instead)
