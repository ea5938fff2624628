"""Parameters of requests to the aggregated API."""

from collections.abc import Iterable, Mapping, Sequence

from weir.kubernetes.query.aggregation.discovery import GROUP
from weir.kubernetes.query.aggregation.refusals import QueryRefused
from weir.scenario_io.error_messages import unknown_parameter

PAGE_MAX, PAGE = 1_000, 100
NUMBER_MAX = 1e12
_SELECTORS = ("labelSelector", "fieldSelector")
_PAGE_OF = ("limit", "after", "continue")
WORKLOADS = ("project", "status", "type", "user", "q", "all", "since", "named", *_PAGE_OF, "fields", "known")
EVENTS = ("workload", "project", "kind", *_PAGE_OF)
REPORTS = ("by", "since", "until", "project")
WHY = ("wait",)
_OF_ALL_LISTS = (
    *("pretty", "timeout", "timeoutSeconds", "resourceVersion", "resourceVersionMatch", "limit", "continue"),
    *("watch", "allowWatchBookmarks", "sendInitialEvents", *_SELECTORS, "shardSelector", "includeObject"),
)
"""Parameters that kubectl and other clients send to any list of the API server."""


def refuse_unknown(params: Iterable[str], known_names: Sequence[str]) -> None:
    """Refuse unknown parameters: a misspelled filter must not choose everything.

    Raises:
        QueryRefused: a parameter is unknown.
    """
    for name in params:
        if name not in known_names and name not in _OF_ALL_LISTS:
            raise QueryRefused(422, unknown_parameter(name, known_names))


def refuse_unknown_ways(params: Mapping[str, str]) -> None:
    """Refuse features of the API server's own lists that would be answered wrongly if they were ignored.

    The API server authorizes a list that selects one name as one of that name.

    Raises:
        QueryRefused: the request selects or watches.
    """
    for name in _SELECTORS:
        if params.get(name):
            raise QueryRefused(
                422,
                f"{name}: {GROUP} has no selectors: use project, status, type, q or named; or ask for "
                "workloads.weir.dev.",
            )
    if params.get("watch", "").lower() in ("1", "t", "true"):
        raise QueryRefused(405, f"{GROUP} can't be watched: use kubectl get workloads.weir.dev --watch.")


def page_bounds(params: Mapping[str, str]) -> tuple[int, int]:
    """Return the start of a page, and the number of its rows.

    Raises:
        QueryRefused: a parameter isn't a number.
    """
    after = "continue" if params.get("continue") else "after"  # kubectl uses "continue"
    start, limit = number(params, after, 0), number(params, "limit", PAGE)
    return max(0, int(start)), min(PAGE_MAX, max(1, int(limit)))


def number(params: Mapping[str, str], name: str, default: float) -> float:
    """Return a parameter that is a number.

    Raises:
        QueryRefused: the parameter isn't a number.
    """
    text = params.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = float("nan")
    if not abs(value) < NUMBER_MAX:  # also True for NaN
        raise QueryRefused(422, f"{name}: {text[:100]!r} is no number that can be used.")
    return value
