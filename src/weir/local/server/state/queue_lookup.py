"""Refusal of requests for a project or department that the pool doesn't have."""

from weir.local.server.http.problem_details import RequestRefused


def no_such_queue(kind: str, name: str) -> RequestRefused:
    """Return the refusal of a name that no queue of a kind has, `project` or `department`."""
    return RequestRefused(404, f"There is no {kind} {name[:80]}; `weir {kind} list` shows which there are.")
