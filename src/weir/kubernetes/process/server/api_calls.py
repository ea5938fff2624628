"""Counts of the calls to the API server, as the API server's own metrics group them."""

from collections import Counter, defaultdict
from functools import partial

from weir.kubernetes.api.client import ApiClient
from weir.service.metric_families import Histogram

SECONDS_BOUNDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)
NO_ANSWER = "none"
"""The code of a call without an answer."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_GROUPS = {"api": 2, "apis": 3}
"""Number of segments before the resource, by the first one."""


class ApiCalls:
    """Counts since this process began. Belongs to the event loop."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()  # by verb, resource and code
        self.durations: defaultdict[str, Histogram] = defaultdict(partial(Histogram, SECONDS_BOUNDS))
        """Durations of answered calls by verb; a watch has none."""

    def add(self, method: str, path: str, status: int, took_s: float) -> None:
        """Count a call. `method` WATCH is a GET that stays open; `status` 0: no answer."""
        resource, is_collection = resource_of(path)
        verb = _VERBS.get(method) or ("list" if is_collection and method == "GET" else method.lower())
        self.counts[verb, resource, str(status) if status else NO_ANSWER] += 1
        if status and method != "WATCH":
            self.durations[verb].add(took_s)


def calls_of(api: ApiClient) -> ApiCalls:
    """Return the counts of the calls of a client from now on."""
    calls = ApiCalls()
    api.called = calls.add
    return calls


def resource_of(path: str) -> tuple[str, bool]:
    """Return the resource of a path, such as pods/binding, and True if the path is of all its objects."""
    parts = path.strip("/").split("/")
    rest = parts[_GROUPS.get(parts[0], len(parts)) :]
    if not rest:
        return parts[0], False
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    return "/".join((rest[0], *rest[2:3])), len(rest) == 1
