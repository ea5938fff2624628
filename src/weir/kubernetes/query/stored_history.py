"""History from a database, as the routes ask for it: where an installation has one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from weir.api.answers import EventRow, QueueRow, UsageReport, WhyAnswer, WorkloadDetail
from weir.api.history import HistoryReport
from weir.api.workload_list import WorkloadRow
from weir.kubernetes.query.event_index import EventQuery
from weir.kubernetes.query.past_workloads import UsageHistoryEntry
from weir.kubernetes.query.recent_series import Series
from weir.kubernetes.query.usage_reports import ReportRequest
from weir.kubernetes.query.workload_index import WorkloadIndexEntry, WorkloadQuery

RECENT_ALONE = (
    "A cluster without a database has a history of the last 6 hours, and workloads until they are deleted."
)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A workload whose object is gone: its row, the metadata of its object, and the fields of its details."""

    row: WorkloadRow
    metadata: Mapping[str, Any]
    detail: Mapping[str, Any]

    def as_detail(self, events: Sequence[EventRow]) -> WorkloadDetail:
        """Return its details."""
        return WorkloadDetail(**self.row.model_dump(), **self.detail, events=list(events))

    def why(self) -> WhyAnswer:
        """Return how it ended."""
        row = self.row
        return WhyAnswer(name=row.name, status=row.status, reason=row.reason, evicted=row.evicted)


Listed = WorkloadIndexEntry | StoredRow


class StoredHistory(Protocol):
    """Answers from a database. An answer is None if it can't be had now, for which `note` has the reason."""

    @property
    def note(self) -> str | None:
        """Return why the last question had no answer."""
        ...

    async def workloads(
        self,
        present: Sequence[WorkloadIndexEntry],
        found: Sequence[WorkloadIndexEntry],
        query: WorkloadQuery,
        start: int,
        limit: int,
    ) -> tuple[int, list[Listed]] | None:
        """Return the number of wanted workloads, and a page: those found, and those whose object is gone."""
        ...

    async def workload(self, namespace: str, name: str, since_s: float) -> StoredRow | None:
        """Return the newest workload of a name, submitted since a time, whose object is gone."""
        ...

    async def series(self, number: int, recent: Series) -> Series | None:
        """Return the curves of a workload, stored ones with the points after them."""
        ...

    async def events(
        self, query: EventQuery, start: int, limit: int
    ) -> tuple[int, Sequence[EventRow]] | None:
        """Return the number of wanted events, and a page of them, newest first."""
        ...

    async def report(
        self,
        kind: str,
        asked: ReportRequest,
        past: Sequence[UsageHistoryEntry],
        queues: Mapping[str, QueueRow],
        now_s: float,
    ) -> UsageReport | HistoryReport | None:
        """Return a report of a period of any length."""
        ...
