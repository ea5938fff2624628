"""Query parameters of the dashboard's REST requests: a misspelled filter must not choose everything."""

from collections.abc import Iterable, Mapping, Sequence

from weir.cli.cluster.dashboard.request_problem import RequestProblem
from weir.scenario_io.error_messages import unknown_parameter

_PAGE = ("limit", "after")
_PERIOD = ("by", "since", "until", "project")
_NAMED = ("projects", "departments", "workloads", "schedules", "sweeps")
_KNOWN: Mapping[str, Sequence[str]] = {
    "GET workloads": ("project", "status", "type", "user", "q", "all", "since", *_PAGE),
    "GET workloads/*/why": ("wait",),
    "GET workloads/*/logs": ("pod", "start", "tail", "follow"),
    **dict.fromkeys(("GET workloads/*/series", "GET workloads/*/decision"), ()),
    "POST workloads/*/rerun": ("failed",),
    **{f"POST workloads/*/{act}": () for act in ("stop", "suspend", "resume", "extend", "priority")},
    "GET events": ("workload", "project", "kind", *_PAGE),
    **dict.fromkeys(("GET usage", "GET history"), _PERIOD),
    **dict.fromkeys(("GET nodes", "GET departments", "GET schedules", "GET notifications"), _PAGE),
    "GET projects": ("may_submit", *_PAGE),
    "GET projects/*/templates": _PAGE,
    "GET sweeps": ("project", *_PAGE),
    "DELETE sweeps/*": ("checkpoints",),
    "GET notifications/deliveries": ("state", *_PAGE),
    **dict.fromkeys(("PUT projects/*", "PUT departments/*"), ("version",)),
    **{f"GET {noun}/*": () for noun in _NAMED},
    **{
        f"POST {noun}": ()
        for noun in ("workloads", "workloads:batch", "schedules", "sweeps", "notifications")
    },
    **dict.fromkeys(("GET status", "GET whoami", "GET snapshot"), ()),
}
"""Parameters by method and path; an asterisk matches any name. A cluster refuses other paths itself."""


def refuse_unknown(method: str, parts: Sequence[str], params: Iterable[str]) -> None:
    """Check that a path takes these parameters.

    Raises:
        RequestProblem: a parameter is unknown.
    """
    named = "/".join("*" if index == 1 else part for index, part in enumerate(parts))
    parameters = _KNOWN.get(f"{method} {'/'.join(parts)}", _KNOWN.get(f"{method} {named}"))
    if parameters is None:
        return
    for name in params:
        if name not in parameters:
            raise RequestProblem(422, unknown_parameter(name, parameters))
