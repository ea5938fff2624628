"""Live view of a cluster with the rights of one person: watches, polls, and the frames of the page.

Workloads, projects and departments are watched. Nodes, events, the status and the activity of workloads come
from Weir's API every few seconds, while a page is open. A watch that breaks off ends its readers' streams.
The next reader begins another one, so a page never shows what is older than its connection.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from pydantic_core import to_json

from weir.cli.cluster.dashboard.cluster_rows import ClusterRows
from weir.cli.cluster.dashboard.shared_states import SharedStates, WorkloadStates
from weir.cli.cluster.dashboard.watch_capacity import NoCapacity, WatchCapacity
from weir.cli.cluster.objects import ListedQueue
from weir.cli.cluster.queries import ClusterQueries
from weir.cli.cluster.requests import sentence_of
from weir.client.errors import Refused
from weir.dashboard.live_feed import LiveFeed, LiveReader
from weir.dashboard.live_frames import GZIP_HEADER, compressed, frame
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError, ApiRefused, ApiUnreachable, CertificateUntrusted
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.reflector import Reflector, RetryDelays
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.crd.schemas import API_VERSION

TICK_S = 0.25
POLL_S = 3.0
STATES_S = 9.0
"""Interval at which the activity of workloads is read; it changes less often than nodes do."""
REVIEW_S = 15.0
"""Interval at which a person's rights are reviewed, because a watch outlives withdrawn rights."""
ANSWER_S_MAX = 10.0
"""Time for the answers of one poll; a connection that takes longer is lost."""
LIST_S_MAX = 120.0
IDLE_S = 30.0
"""Grace period for a new watch without a page: the page that asked for it may still connect."""
EVENTS = 200
STOPPED = "The dashboard is being stopped."
_SYNCED_S = 0.05
_RETRIES = RetryDelays(most_s=3.0)


class WatchBroken(Exception):
    """The cluster can't be watched; the sentence says why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def broken_by(error: Exception, server: str) -> WatchBroken:
    """Return the cause that ends a watch."""
    if isinstance(error, ApiRefused):  # a 401 of the API server isn't a 401 of the page's session
        status = 403 if error.status in (401, 403) else 503
        return WatchBroken(status, f"The cluster refused: {sentence_of(error)}")
    if isinstance(error, CertificateUntrusted):
        return WatchBroken(503, str(error))
    text = str(error) or "there was no answer in time"
    return WatchBroken(503, f"The cluster at {server} can't be reached: {text.rstrip('.')}.")


class ClusterWatch:
    """A watch of a cluster, from its start until something breaks it off.

    `namespace`: the only one to show; None for all that the person may list. `states`: what the watches of
    the process know of the activity of workloads.
    """

    def __init__(
        self,
        api: ApiClient,
        queries: ClusterQueries,
        namespace: str | None,
        states: SharedStates,
    ) -> None:
        self._api = api
        self._queries = queries
        self._shared_states = states
        self._states = WorkloadStates(namespace or "")
        self._states_due_s = 0.0
        self.namespace = namespace
        self.rows = ClusterRows()
        self.feed: LiveFeed[None] = LiveFeed()
        self.broken: WatchBroken | None = None
        self._watches: dict[str, Reflector[Any]] = {}  # by path
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: set[int] | None = None  # numbers of the last poll's events
        self._reviewed_s = time.monotonic()
        self._policy = ""
        self._trouble: str | None = None

    async def start(self) -> None:
        """Watch the objects that the person may list; return after the first complete list.

        Raises:
            ApiError: the cluster refuses the workloads, or doesn't answer.
        """
        path = await self._scope()
        watches: dict[str, Reflector[Any]] = {
            path: Reflector(self._api, path, WorkloadObject, self.rows.take_workloads, waits=_RETRIES)
        }
        for kind in ("project", "department"):
            of_kind = path_of(API_VERSION, f"{kind}s")
            if await self._may_list(of_kind):
                receiver = self.rows.queues(kind)
                watches[of_kind] = Reflector(self._api, of_kind, ListedQueue, receiver, waits=_RETRIES)
        self._watches = watches
        self._tasks = [asyncio.create_task(watch.run()) for watch in watches.values()]
        async with asyncio.timeout(LIST_S_MAX):
            for watch in watches.values():
                while not watch.synced.is_set():
                    if watch.failure:
                        raise ApiUnreachable(watch.failure, may_have_happened=False)
                    await asyncio.sleep(_SYNCED_S)
        await self._poll_once()
        self.rows.begin()
        self.feed.begin(self.rows.table, self._status())
        self._tasks += [asyncio.create_task(self._tick()), asyncio.create_task(self._poll())]

    @property
    def workloads(self) -> int:
        """Return the number of workloads in the watch."""
        return len(self.rows)

    async def stop(self, why: WatchBroken) -> None:
        """End the watch and the streams of its readers."""
        self._break_off(why)
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _break_off(self, why: WatchBroken) -> None:
        self.broken = self.broken or why
        for reader in self.feed.readers:
            reader.start_over()

    async def _scope(self) -> str:
        """Return the path of the workloads: of all namespaces, or of the only one that may be listed."""
        if self.namespace is None:
            everywhere = path_of(API_VERSION, "workloads")
            if await self._may_list(everywhere):
                return everywhere
            self.namespace = self._api.namespace or None
        path = path_of(API_VERSION, "workloads", self.namespace or "")
        await self._api.version_of(path)
        return path

    async def _may_list(self, path: str) -> bool:
        try:
            await self._api.version_of(path)
        except ApiRefused as error:
            if error.status != 403:
                raise
            return False
        return True

    # Frames

    async def frames(self, reader: LiveReader[None], holds: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Yield the frames of a reader as one gzip stream, until its session ends."""
        try:
            yield GZIP_HEADER
            while self.broken is None and holds():
                if reader.behind:
                    reader.catch_up()
                    self.feed.tick(self._status())
                    yield await self.feed.packed_whole()
                elif packed := await reader.next():
                    yield packed
        finally:
            self.feed.readers.discard(reader)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.feed.tick(self._status())

    def _status(self) -> bytes:
        return to_json({"trouble": self._trouble or self.rows.trouble, "policy": self._policy, "readings": 0})

    # Polls

    async def _poll(self) -> None:
        while self.broken is None:
            await asyncio.sleep(POLL_S)
            if not self.feed.readers:
                continue
            try:
                async with asyncio.timeout(ANSWER_S_MAX):
                    await self._poll_once()
            except (ApiError, TimeoutError) as error:
                self._break_off(broken_by(error, self._api.server))

    async def _poll_once(self) -> None:
        """Read the parts that aren't watched.

        Raises:
            ApiError: the API server doesn't answer, or refuses a watch.
        """
        is_due = time.monotonic() - self._reviewed_s >= REVIEW_S
        for path, watch in self._watches.items():
            if is_due or watch.failure:  # after withdrawn rights, a new watch shows the rest
                await self._api.version_of(path)
        if is_due:
            self._reviewed_s = time.monotonic()
        self._trouble = None
        status = await self._read(self._queries.status())
        if status is not None:
            self._policy = str(status.get("policy") or "")
            self._trouble = self._trouble or status.get("trouble")
        nodes = await self._read(self._queries.nodes())
        if nodes is not None:
            self._trouble = self.rows.set_nodes(nodes["items"]) or self._trouble
        events = await self._read(self._queries.events({"limit": str(EVENTS)}))
        if events is not None:
            self._send_events(events["items"])
        if time.monotonic() >= self._states_due_s:
            self._states_due_s = time.monotonic() + STATES_S
            self._states = await self._shared_states.read(self._states, self._page_of_workloads)
            await self.rows.take_states(self._states.by_name)

    async def _page_of_workloads(self, params: Mapping[str, str]) -> dict[str, Any] | None:
        return await self._read(self._queries.workloads(params))

    async def _read(self, asked: Awaitable[bytes]) -> dict[str, Any] | None:
        """Return an answer of Weir's API; None if the person may not read it, or Weir doesn't answer."""
        try:
            answer: dict[str, Any] = msgspec.json.decode(await asked)
        except Refused as error:
            self._trouble = error.problem.detail or str(error)
            return None
        except ApiRefused as error:
            if error.status == 401:
                raise
            if error.status >= 500:
                self._trouble = sentence_of(error)
            return None
        return answer

    def _send_events(self, events: Sequence[dict[str, Any]]) -> None:
        """Send the events that are new since the last poll."""
        fresh = [event for event in events if self._seen is not None and event["id"] not in self._seen]
        self._seen = {event["id"] for event in events}
        if fresh:
            self.feed.give(compressed(frame([("kind", b'"events"'), ("events", to_json(fresh))])))


class ClusterLive:
    """The present watch of a cluster. It starts with the first page, and again after a loss."""

    def __init__(
        self,
        api: ApiClient,
        queries: ClusterQueries,
        namespace: str | None,
        capacity: WatchCapacity | None = None,
        states: SharedStates | None = None,
    ) -> None:
        self._api = api
        self._queries = queries
        self._namespace = namespace
        self._capacity = capacity
        self._states = states or SharedStates()
        self._watch: ClusterWatch | None = None
        self._begun_s = 0.0
        self._lock = asyncio.Lock()
        self._is_closed = False

    async def watch(self) -> ClusterWatch:
        """Return a watch that has the whole list.

        Raises:
            WatchBroken: the cluster can't be watched now.
        """
        async with self._lock:
            if self._watch is not None and self._watch.broken is None:
                return self._watch
            await self.stop()
            begun = ClusterWatch(self._api, self._queries, self._namespace, self._states)
            try:
                await self._admitted(begun)
            except (ApiError, TimeoutError) as error:
                why = broken_by(error, self._api.server)
                await begun.stop(why)
                raise why from None
            except NoCapacity as error:
                why = WatchBroken(503, str(error))
                await begun.stop(why)
                raise why from None
            except BaseException:  # end its tasks, which would continue
                await begun.stop(WatchBroken(503, STOPPED))
                raise
            self._watch, self._begun_s = begun, time.monotonic()
            return begun

    async def _admitted(self, begun: ClusterWatch) -> None:
        if self._capacity is None:
            await self._started(begun)
            return
        async with self._capacity.starting(begun, is_whole=self._namespace is None):
            await self._started(begun)

    async def _started(self, begun: ClusterWatch) -> None:
        if not self._is_closed:
            await begun.start()
        if self._is_closed:  # closed before or during the start
            raise WatchBroken(503, STOPPED)

    @property
    def has_readers(self) -> bool:
        """Return True while a page is open."""
        return self._watch is not None and bool(self._watch.feed.readers)

    @property
    def is_idle(self) -> bool:
        """Return True if no page uses it, or is about to."""
        return not self.has_readers and time.monotonic() - self._begun_s > IDLE_S

    @property
    def workloads(self) -> int:
        """Return the number of workloads of the present watch."""
        return 0 if self._watch is None else self._watch.workloads

    async def stop(self) -> None:
        """End the present watch."""
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.stop(WatchBroken(503, STOPPED))

    async def close(self) -> None:
        """Stop the present watch, and start no other one for requests in progress."""
        self._is_closed = True
        await self.stop()
