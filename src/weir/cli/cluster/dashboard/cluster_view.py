"""A cluster as one person sees it: their requests, their live watch, and their rights."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from weir.cli.cluster.dashboard.cluster_watch import ClusterLive
from weir.cli.cluster.dashboard.known_parameters import refuse_unknown
from weir.cli.cluster.dashboard.request_problem import RequestProblem
from weir.cli.cluster.dashboard.rights import person_of
from weir.cli.cluster.dashboard.shared_states import SharedStates
from weir.cli.cluster.dashboard.watch_capacity import WatchCapacity
from weir.cli.cluster.log_events import LogPieces
from weir.cli.cluster.requests import Answer, ClusterRequests, parts_of
from weir.dashboard.person import DashboardPerson
from weir.kubernetes.api.client import ApiClient
from weir.model.resources import seconds

REQUESTS_OPEN_MAX = 32
"""Limit of concurrent requests of one person; a page has few."""
LOGS_OPEN_MAX = 4
"""Logs of one person that are open: a browser has six connections to a server."""
LOG_PODS_MAX = 16
"""Pods whose output a page follows at the same time."""
STREAMS_MAX = 10
"""Pages of one person that are open."""
_EVENT_KINDS = {"stopping": "preempted"}
"""Kinds of a pool's events as a cluster names them."""
_REPORTS = ("history", "usage")


class OpenRequests:
    """Counter of the open requests of one person; `refusal` is the sentence at the limit."""

    def __init__(self, most: int, refusal: str) -> None:
        self._count, self._most, self._refusal = 0, most, refusal

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count a request as open while the block runs.

        Raises:
            RequestProblem: too many requests are open.
        """
        if self._count >= self._most:
            raise RequestProblem(429, self._refusal)
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1


class PersonRequests:
    """Requests and logs that one person has open, in all their views."""

    def __init__(self) -> None:
        self.requests = OpenRequests(
            REQUESTS_OPEN_MAX, f"You have {REQUESTS_OPEN_MAX} open requests: wait for their answers."
        )
        self.logs = OpenRequests(LOGS_OPEN_MAX, f"You have {LOGS_OPEN_MAX} open logs: close a page with one.")


class ClusterView:
    """A cluster with the rights of a client.

    `name`: of the cluster, for people; `namespace`: the only one that is shown, None for all;
    `opened`: by the same person, also in other views; `capacity`, `states`: of the watches of all.
    """

    def __init__(
        self,
        api: ApiClient,
        name: str,
        *,
        namespace: str | None,
        opened: PersonRequests | None = None,
        capacity: WatchCapacity | None = None,
        states: SharedStates | None = None,
    ) -> None:
        self.api = api
        self.name = name
        self.namespace = namespace
        self._requests = ClusterRequests(api, namespace=namespace)
        self._capacity = capacity
        self._states = states or SharedStates()
        self.live = ClusterLive(api, self._requests.queries, namespace, capacity, self._states)
        self.opened = opened or PersonRequests()

    def for_namespace(self, namespace: str | None) -> "ClusterView":
        """Return the same person's view of a namespace, or of all."""
        return ClusterView(
            self.api,
            self.name,
            namespace=namespace,
            opened=self.opened,
            capacity=self._capacity,
            states=self._states,
        )

    async def person(self) -> DashboardPerson:
        """Return the person, with the actions that the page offers them.

        Raises:
            WatchBroken: they can't watch the cluster.
            ApiError: the API server doesn't answer.
        """
        watch = await self.live.watch()
        return await person_of(self.api, self.name, watch.namespace)

    async def answer(self, method: str, raw_path: str, query: Mapping[str, str], body: bytes) -> Answer:
        """Return the answer to a REST request. Pages identify workloads by number.

        Raises:
            RequestProblem: it can't be read, has an unknown parameter, or its workload is gone.
            PoolError: a cluster can't carry it out, or Weir doesn't answer.
            ApiError: the API server refuses it, or doesn't answer.
        """
        parts, params = parts_of(raw_path), dict(query)
        refuse_unknown(method, parts, params)
        if parts[0] == "workloads" and len(parts) > 1:
            parts[1] = await self._named(parts[1])
        if "workload" in params:
            params["workload"] = await self._named(params["workload"])
        if "kind" in params:
            params["kind"] = _EVENT_KINDS.get(params["kind"], params["kind"])
        if parts[0] in _REPORTS and "since" in params:
            params["since"] = _since(params["since"])
        try:
            return await self._requests.answer(method, parts, params, body)
        except (msgspec.DecodeError, TypeError, AttributeError, RecursionError) as error:
            # Escaped, so that a line break can't begin a line of the log
            asked = ascii(f"/{'/'.join(parts)}: {error}")
            print(f"weir: {method} {asked}", file=sys.stderr)
            raise RequestProblem(422, "The body of the request can't be read.") from None

    async def logs(self, name: str, query: Mapping[str, str]) -> LogPieces:
        """Return the output of a workload in pieces. Raises the errors of `answer`."""
        refuse_unknown("GET", ["workloads", name, "logs"], query)
        return await self._requests.logs(await self._named(name), dict(query), followed_max=LOG_PODS_MAX)

    async def _named(self, name: str) -> str:
        """Return the namespace and name of the workload with a page's number."""
        if not (name.isascii() and name.isdigit()):
            return name
        watch = await self.live.watch()
        full_name = watch.rows.names.get(int(name))
        if full_name is None:
            raise RequestProblem(404, "There is no such workload any more.")
        return full_name


def _since(written: str) -> str:
    """Return the beginning of a report, from an age such as 7d."""
    try:
        return written if written.replace(".", "", 1).isdigit() else str(time.time() - seconds(written))
    except ValueError:
        return written
