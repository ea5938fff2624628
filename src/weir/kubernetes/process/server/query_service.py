"""The aggregated API of a scheduler process: its watches, and the answers of its port."""

import asyncio
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from weir.kubernetes.api.changes import Change
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.objects import Namespace
from weir.kubernetes.api.reflector import Reflector
from weir.kubernetes.query.aggregation.access_review import AccessReviewer
from weir.kubernetes.query.aggregation.front_proxy import FrontProxy
from weir.kubernetes.query.aggregation.withdrawal import Withdrawal
from weir.kubernetes.query.cluster.answers import SchedulerAnswers
from weir.kubernetes.query.cluster.preview_routes import PreviewRoutes
from weir.kubernetes.query.messages.report_writer import ReportWriter
from weir.kubernetes.query.messages.route import MessageRoute, ReportSource
from weir.kubernetes.query.routes import QueryRoutes
from weir.kubernetes.query.usage.recent_series import MEASURED_BYTES_MAX, RecentSeries
from weir.kubernetes.query.usage.recent_usage import RecentUsage
from weir.kubernetes.query.workloads.event_index import PATH as EVENTS_PATH
from weir.kubernetes.query.workloads.event_index import EventIndex
from weir.kubernetes.query.workloads.index import WorkloadIndex, WorkloadIndexEntry
from weir.kubernetes.query.workloads.namespace_ages import NamespaceAges
from weir.kubernetes.query.workloads.rows import EventView
from weir.kubernetes.translate.annotations import REPORTER
from weir.kubernetes.usage.cluster_use import ClusterUse

if TYPE_CHECKING:  # without a history, nothing of a database is imported
    from weir.kubernetes.history.options import HistoryOptions
    from weir.kubernetes.history.service import HistoryService

REPORTED_BY_WEIR = f"reportingController={REPORTER}"


class QueryService:
    """Indexes of workloads and events, and the routes over them. `run` it as a task."""

    def __init__(
        self,
        api: ApiClient,
        answers: SchedulerAnswers,
        namespace: str,
        history: "HistoryOptions | None" = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the service. `clock` is that of the times in objects, and can't be set."""
        self._api = api
        self._answers = answers
        self._clock = clock
        self.find_pod: Callable[[str, str], ReportSource | None] = lambda _namespace, _name: None
        """Finds a running pod that Weir schedules, by namespace and name."""
        self.busy_s_max: Callable[[], float] = lambda: 0.0
        """Returns how far ahead of the present a job may say that it is busy."""
        self.workloads = WorkloadIndex(clock)
        self.events = EventIndex(self.workloads, clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self.withdrawal = Withdrawal(api, namespace, self._start)
        self.usage = RecentUsage(clock())
        self.series = RecentSeries(clock())
        self.measured = RecentSeries(clock(), MEASURED_BYTES_MAX)
        self.workloads.changed = self._changed
        self._ages = NamespaceAges()
        self._reports = ReportWriter(api, self.workloads)
        self.history = None if history is None else self._keep_history(history, clock)
        self._proxy = FrontProxy(api)

    def _keep_history(self, options: "HistoryOptions", clock: Callable[[], float]) -> "HistoryService":
        from weir.kubernetes.history.service import HistoryService

        return HistoryService(
            *(options, self.workloads, self.events, self.usage, self.series),
            queues=self._answers.queues,
            clock=clock,
        )

    def _changed(self, key: str, workload: WorkloadIndexEntry | None, at_s: float) -> None:
        self.usage.changed(key, workload, at_s)
        if workload is not None:
            self.series.take(workload, self._clock())
        if self.history is not None:
            self.history.changed(key, workload, at_s)

    def measure(self, use: ClusterUse) -> None:
        """Add measured use to the curves of workloads, from any thread."""
        use_by_number = {
            workload.number: measured
            for key, measured in use.workloads.items()
            if (workload := self.workloads.by_key(key)) is not None
        }
        self.measured.measure(use_by_number, self._clock())

    def see_namespaces(self, changes: Sequence[Change[Namespace]]) -> None:
        """Process new, changed and deleted namespaces."""
        self._ages.see(changes)
        self.withdrawal.see_namespaces(changes)
        if self.history is not None:
            self.history.see_namespaces(changes)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def routes(self) -> tuple[MessageRoute, PreviewRoutes, QueryRoutes]:
        """Return the routes, for the application of the port; the last answer the rest of the API."""
        access = AccessReviewer(self._api)
        stored = None if self.history is None else self.history.answers
        messages = MessageRoute(self._proxy, self.find_pod, self._reports, self.busy_s_max, self._clock)
        previews = PreviewRoutes(self._proxy, access, self.workloads, self._answers, self._clock)
        return (
            messages,
            previews,
            QueryRoutes(
                *(self._proxy, access, self.workloads, self.events, self.usage),
                *(self.series, self.measured, self._ages),
                answers=self._answers,
                history=stored,
                clock=self._clock,
            ),
        )

    def close(self) -> None:
        """Refuse further questions."""
        self._answers.close()
        if self.history is not None:
            self.history.close()

    def is_front_proxy(self, certificate: bytes) -> bool:
        """Return True if an authority of the front proxy has signed a certificate, in DER."""
        return self._proxy.rules.issued(certificate)

    async def run(self, tls: ssl.SSLContext) -> None:
        """Follow Weir's Events, and keep the authorities of the front proxy in the context of the port."""
        self._proxy.tls = tls
        async with asyncio.TaskGroup() as tasks:
            events = Reflector(
                self._api,
                EVENTS_PATH,
                EventView,
                self.events.deliver,
                field_selector=REPORTED_BY_WEIR,
            )
            tasks.create_task(events.run())
            tasks.create_task(self._proxy.run())
            tasks.create_task(self._reports.run())
