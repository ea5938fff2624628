"""Routes of the aggregated API: the requester, the request, and the answer as JSON.

The API server has authenticated the person and authorized the path, which names the namespace. So a route
answers what its path says, and nothing of other namespaces below one of them.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web
from pydantic import BaseModel
from structlog import get_logger

from weir import __version__
from weir.api.answers import (
    SUGGESTIONS_WAIT_S_MAX,
    EventFilter,
    EventPage,
    WorkloadDetail,
    WorkloadPage,
    WorkloadRow,
)
from weir.api.comma_lists import comma_words
from weir.kubernetes.query.aggregation.access_review import AccessReviewer
from weir.kubernetes.query.aggregation.discovery import GROUP, ROOT, group, groups, resources
from weir.kubernetes.query.aggregation.front_proxy import FrontProxy, Identity
from weir.kubernetes.query.aggregation.http_exchange import refusal, requester
from weir.kubernetes.query.aggregation.refusals import QueryRefused, not_forwarded
from weir.kubernetes.query.aggregation.request_parameters import (
    EVENTS,
    REPORTS,
    WHY,
    WORKLOADS,
    number,
    page_bounds,
    refuse_unknown,
    refuse_unknown_ways,
)
from weir.kubernetes.query.aggregation.request_places import RequestPlaces
from weir.kubernetes.query.cluster.answers import SchedulerAnswers
from weir.kubernetes.query.shared_answer import SharedAnswer
from weir.kubernetes.query.usage.recent_series import RecentSeries, missing_note, series_answer
from weir.kubernetes.query.usage.recent_usage import KEPT_S, RecentUsage
from weir.kubernetes.query.usage.reports import (
    history_report,
    note_of,
    recent_part,
    report_request,
    usage_report,
)
from weir.kubernetes.query.workloads.activity_states import ActivityStates
from weir.kubernetes.query.workloads.answer_objects import detailed, listed, node_list, of_cluster
from weir.kubernetes.query.workloads.event_index import EventIndex, matching_events
from weir.kubernetes.query.workloads.index import WorkloadIndex, WorkloadIndexEntry, matching, params_query
from weir.kubernetes.query.workloads.namespace_ages import NamespaceAges
from weir.kubernetes.query.workloads.rows import max_runtime_s, memory_isolation, reported_fields
from weir.kubernetes.query.workloads.stored_history import RECENT_ALONE, Listed, StoredRow

if TYPE_CHECKING:  # without a history, nothing of a database is imported
    from weir.kubernetes.history.stored_answers import StoredAnswers

REQUESTS_MAX, REQUESTS_OF_ONE_MAX = 64, 16
"""Limits of concurrent requests, of all people and of one; others are refused, and clients repeat them."""
LARGE_MAX, LARGE_OF_ONE_MAX = 4, 2
"""Limit of concurrent reports and answers about the whole cluster: each may have tens of megabytes.

Answers with curves take long to make. The same number of them is made at a time, and others wait.
"""
FEW = 2_000
"""Workloads that are filtered on the event loop; more are in a thread, because the loop renews the lease."""
_EVENTS_SHOWN = 20
_PERSON = web.RequestKey("person", Identity)
_LOG = get_logger(__name__)
Answer = BaseModel | bytes | dict[str, Any]
Handler = Callable[[web.Request], Awaitable[Answer]]


class QueryRoutes:
    """Routes over the indexes and the state of this replica."""

    def __init__(
        self,
        proxy: FrontProxy,
        access: AccessReviewer,
        workloads: WorkloadIndex,
        events: EventIndex,
        usage: RecentUsage,
        series: RecentSeries,
        measured: RecentSeries,
        ages: NamespaceAges,
        answers: SchedulerAnswers,
        history: "StoredAnswers | None" = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the routes. `clock` is that of the times in objects and of jobs' messages."""
        self._clock = clock
        self._history = history
        self._proxy = proxy
        self._access = access
        self._workloads = workloads
        self._events = events
        self._usage = usage
        self._recent_series = series
        self._measured_series = measured
        self._ages = ages
        self._answers = answers
        self._node_rows = SharedAnswer(self._made_nodes)
        self._pool_status = SharedAnswer(answers.status)
        self._states = ActivityStates(answers.measured)
        self._places = RequestPlaces(REQUESTS_MAX, REQUESTS_OF_ONE_MAX)
        self._large_places = RequestPlaces(LARGE_MAX, LARGE_OF_ONE_MAX)
        self._free_series = asyncio.Semaphore(LARGE_MAX)

    def add(self, app: web.Application) -> None:
        """Add the routes to the application of the port."""
        within = f"{ROOT}/namespaces/{{namespace}}"
        discovery = (("/apis", groups()), (f"/apis/{GROUP}", group()), (ROOT, resources()))
        for path, answer in discovery:  # the API server needs discovery to regard the API as available
            responder = partial(self._answer, _constant(answer), limited=False)
            app.router.add_get(path, responder, allow_head=False)
        one = f"{within}/workloads/{{name}}"
        routes: list[tuple[str, Handler, Sequence[str]]] = [
            (f"{ROOT}/nodes", self._nodes, ()),
            (f"{ROOT}/pools/cluster", self._pool, ()),
            (f"{ROOT}/pools/cluster/snapshot", partial(self._one_of_few, self._snapshot), ()),
            (one, self._workload, ()),
            (f"{one}/why", self._why, WHY),
            (f"{one}/series", self._series, ()),
            (f"{one}/decision", partial(self._one_of_few, self._decision), ()),
        ]
        for start in (ROOT, within):
            routes.append((f"{start}/workloads", self._list, WORKLOADS))
            routes.append((f"{start}/events", self._list_events, EVENTS))
            for kind in _REPORTS:
                report = partial(self._one_of_few, partial(self._report, kind))
                routes.append((f"{start}/reports/{kind}", report, REPORTS))
        for path, handler, known_names in routes:
            app.router.add_get(path, partial(self._answer, handler, parameters=known_names), allow_head=False)
        app.router.add_route("*", f"/apis/{GROUP}/{{rest:.*}}", partial(self._answer, _unknown))

    # Requests

    async def _answer(
        self,
        handler: Handler,
        request: web.Request,
        *,
        parameters: Sequence[str] | None = None,
        limited: bool = True,
    ) -> web.Response:
        """Answer a request. `parameters`: those that it takes; None: all."""
        person = requester(request, self._proxy.rules)
        if person is None:
            return refusal(not_forwarded())
        request[_PERSON] = person
        try:
            with self._places.taken(person.user) if limited else nullcontext():
                refuse_unknown_ways(request.query)
                if parameters is not None:
                    refuse_unknown(request.query, parameters)
                return _encoded(await handler(request))
        except QueryRefused as error:
            return refusal(error)
        except Exception as error:  # noqa: BLE001 - the others are answered
            _LOG.error("query_failed", path=request.path[:300], exc_info=error)
            return refusal(QueryRefused(500, "Weir failed at this request; its log says why."))

    async def _one_of_few(self, handler: Handler, request: web.Request) -> Answer:
        with self._large_places.taken(request[_PERSON].user):
            return await handler(request)

    # Workloads and events of one namespace or of all

    async def _list(self, request: web.Request) -> Answer:
        if request.query.get("fields") == "activity":
            return self._states.answer(
                request.match_info.get("namespace", ""), request.query.get("known", "")
            )
        namespace, since_s = await self._within(request)
        query = replace(params_query(request.query, namespace), since_s=since_s)
        workloads = self._workloads.all()
        if len(workloads) > FEW:
            matches = await asyncio.to_thread(matching, workloads, query)
        else:
            matches = matching(workloads, query)
        start, limit = page_bounds(request.query)
        stored = note = None
        if query.asks_for_ended:
            if self._history is None:
                note = RECENT_ALONE
            else:
                stored = await self._history.workloads(workloads, matches, query, start, limit)
                note = self._history.note
        total, page = (len(matches), matches[start : start + limit]) if stored is None else stored
        rows = [self._row(workload) for workload in page]
        following = _next(start + limit, total)
        answer = WorkloadPage(total=total, items=rows, next=following, note=note).model_dump(mode="json")
        for item, workload in zip(answer["items"], page, strict=True):
            item["metadata"] = workload.metadata
        return listed("WorkloadList", answer)

    def _row(self, workload: Listed) -> WorkloadRow:
        if isinstance(workload, StoredRow):
            return workload.row
        row, activity = workload.row(self._clock()), self._answers.activity(workload)
        return row if activity is None else row.model_copy(update={"activity": activity})

    async def _workload(self, request: web.Request) -> Answer:
        workload = await self._present_or_stored(request)
        if isinstance(workload, StoredRow):
            return await self._stored_workload(request, workload)
        workload_object, row = workload.object, self._row(workload)
        namespace, since_s = await self._within(request)
        query = EventFilter(namespace, workload.key, since_s=since_s)
        detail = WorkloadDetail(
            **row.model_dump(),
            pod_rows=self._answers.pods(workload),
            max_runtime_s=max_runtime_s(workload_object),
            idle_rules=self._answers.idle_rules(workload) if row.ended_s is None else None,
            **reported_fields(workload_object),
            **memory_isolation(workload_object),
            events=matching_events(self._events.all(), query, 0, _EVENTS_SHOWN)[1][::-1],
        )
        return detailed(workload, detail)

    async def _stored_workload(self, request: web.Request, workload: StoredRow) -> Answer:
        assert self._history is not None
        namespace, since_s = await self._within(request)
        about = EventFilter(namespace, workload.row.name, since_s=since_s)
        stored = await self._history.events(about, 0, _EVENTS_SHOWN)
        return detailed(workload, workload.as_detail([] if stored is None else stored[1][::-1]))

    async def _why(self, request: web.Request) -> Answer:
        workload = await self._present_or_stored(request)
        if isinstance(workload, StoredRow):
            return workload.why()
        wait_s = min(SUGGESTIONS_WAIT_S_MAX, max(0.0, number(request.query, "wait", 0.0)))
        all_namespaces = await self._access.may_list(request[_PERSON], "workloads")
        return await self._answers.why(workload, all_namespaces=all_namespaces, wait_s=wait_s)

    async def _series(self, request: web.Request) -> Answer:
        workload = await self._present_or_stored(request)
        row = workload.row if isinstance(workload, StoredRow) else workload.row(self._clock())
        async with self._free_series:
            return await self._series_of(row)

    async def _series_of(self, row: WorkloadRow) -> Answer:
        history = self._history
        series, reported_s = self._recent_series.series_of(row.uid, self._clock())
        stored = None if history is None else await history.series(row.uid, series)
        if stored is not None:
            series, reported_s = stored, 0.0
        measured, measured_s = self._measured_series.series_of(row.uid, self._clock())
        trouble = None if history is None else history.note
        note = missing_note(row.submitted_s, reported_s, measured_s if measured else 0.0, trouble)
        return await asyncio.to_thread(series_answer, row.name, series, measured, note)

    async def _decision(self, request: web.Request) -> Answer:
        workload = self._requested_workload(request)
        needs = (
            "The details of a decision name workloads of all namespaces: they need the right to list "
            f"workloads.{GROUP} in all of them."
        )
        await self._access.refuse_unless_lists(request[_PERSON], "workloads", needs)
        return await self._answers.decision(workload)

    async def _list_events(self, request: web.Request) -> Answer:
        namespace, since_s = await self._within(request)
        projects, kinds = (comma_words(request.query.get(name)) for name in ("project", "kind"))
        query = EventFilter(namespace, request.query.get("workload", ""), projects, kinds, since_s)
        start, limit = page_bounds(request.query)
        stored = None if self._history is None else await self._history.events(query, start, limit)
        if stored is None:
            stored = await asyncio.to_thread(matching_events, self._events.all(), query, start, limit)
        note = RECENT_ALONE if self._history is None else self._history.note
        total, page = stored
        following = _next(start + limit, total)
        answer = EventPage(total=total, items=list(page), next=following, note=note).model_dump(mode="json")
        for item in answer["items"]:
            item["metadata"] = {"name": str(item["id"])}
        return listed("EventList", answer)

    async def _report(self, kind: str, request: web.Request) -> Answer:
        now_s, (namespace, began_s) = self._clock(), await self._within(request)
        queues, history = self._answers.queues(), self._history
        kept_s = KEPT_S if history is None else math.inf
        asked = report_request(request.query, partial(number, request.query), now_s, namespace, kept_s)
        asked = replace(asked, since_s=min(asked.until_s, max(asked.since_s, began_s)))
        past = await self._usage.copied(asked.since_s, now_s)
        note: str | None = None
        if history is not None and not asked.is_recent_alone:
            stored = await history.report(kind, asked, past, queues, now_s)
            if stored is not None:
                return stored
            note, asked = history.note, recent_part(asked, now_s)
        note = note or note_of(self._usage, asked, has_database=history is not None)
        return await asyncio.to_thread(_REPORTS[kind], past, queues, asked, note)

    async def _present_or_stored(self, request: web.Request) -> Listed:
        """Return a workload that the API server has, or else one of the history.

        Raises:
            QueryRefused: there is none.
        """
        try:
            return self._requested_workload(request)
        except QueryRefused as error:
            (namespace, since_s), name = await self._within(request), request.match_info["name"]
            history = self._history
            stored = None if history is None else await history.workload(namespace, name, since_s)
            if stored is None:
                raise error.noted(None if history is None else history.note) from None
            return stored

    async def _within(self, request: web.Request) -> tuple[str, float]:
        """Return the namespace that the path names, or an empty text, and since when its past is its own."""
        namespace = request.match_info.get("namespace", "")
        began_s = self._ages.began_s(namespace)
        if began_s == math.inf and await self._access.may_list(request[_PERSON], "workloads"):
            began_s = 0.0
        return namespace, began_s

    def _requested_workload(self, request: web.Request) -> WorkloadIndexEntry:
        namespace, name = (request.match_info[key] for key in ("namespace", "name"))
        workload = self._workloads.get(namespace, name)
        if workload is None:
            raise QueryRefused(404, f"There is no workload {name[:300]} in {namespace[:300]}.")
        return workload

    # Queries of the whole cluster

    async def _nodes(self, _request: web.Request) -> Answer:
        return await self._node_rows.get()

    async def _made_nodes(self) -> Answer:
        rows = await self._answers.nodes()
        return await asyncio.to_thread(node_list, rows)

    async def _pool(self, _request: web.Request) -> Answer:
        return of_cluster("Pool", (await self._pool_status.get()).model_dump(mode="json"))

    async def _snapshot(self, _request: web.Request) -> Answer:
        return of_cluster("Snapshot", {"scenario": await self._answers.snapshot()})


_REPORTS: Mapping[str, Callable[..., Answer]] = {"usage": usage_report, "history": history_report}


def _constant(answer: dict[str, Any]) -> Handler:
    async def handler(_request: web.Request) -> Answer:
        return answer

    return handler


async def _unknown(request: web.Request) -> Answer:
    if request.method != "GET":
        raise QueryRefused(405, f"{GROUP} is for reading alone: change the objects themselves.")
    raise QueryRefused(404, f"Weir {__version__} doesn't serve {request.path[:300]}.")


def _next(end: int, total: int) -> str | None:
    """Return where the next page begins; None after the last one."""
    return str(end) if end < total else None


def _encoded(answer: Answer) -> web.Response:
    body = answer
    if isinstance(answer, BaseModel):
        body = answer.model_dump_json().encode()
    elif isinstance(answer, dict):
        body = msgspec.json.encode(answer)
    return web.Response(body=body, content_type="application/json")
