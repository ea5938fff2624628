"""History of a cluster, as every replica reads it."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Connection, bindparam, func, or_, select

from weir.api.answers import EventFilter, EventRow, UsageReport
from weir.api.history import HistoryReport
from weir.api.workload_list import WorkloadRow
from weir.store.cluster.records import GAP, PENDING, ClusterWorkloadFilter, StoredHistoryEntry
from weir.store.cluster.tables import EVENT_COLUMNS, cluster_events, cluster_series, cluster_workloads
from weir.store.database.codec import mapping_of
from weir.store.database.database import ReadableDatabase
from weir.store.database.dialects import address_of, encrypted, limit_statements, open_engine, storable
from weir.store.database.identity import check_cluster, mark_of_database
from weir.store.database.schema import is_current
from weir.store.errors import StoreFailed
from weir.store.records import RecordPage, Retention
from weir.store.reports.period import HistoryReports
from weir.store.reports.scope import EVERYTHING, ReportScope
from weir.store.reports.usage import By, UsageReports
from weir.store.tables import BEGAN, LIVE, SAMPLED, marks, workloads
from weir.store.workloads.search import matching

STATEMENT_S = 20.0
"""Time that a question may take: those of others wait for its connection."""
_NOT_YET = "The history's database is new: its first leader has not opened it yet."
_workloads, _stated, _events = workloads.c, cluster_workloads.c, cluster_events.c


class ClusterHistoryReader:
    """Questions to the history of a cluster. Any thread may ask; each method raises StoreFailed."""

    def __init__(self, url: str, cluster: str, retention: Retention, limit_s: float = STATEMENT_S) -> None:
        self._database = ReadableDatabase()
        self._database.engine = open_engine(encrypted(address_of(url, None)))
        limit_statements(self._database.engine, limit_s)
        self._cluster = cluster
        self._is_checked = False
        self._usage = UsageReports(self._database, retention)
        self._reports = HistoryReports(self._database, retention, self._usage)

    def close(self) -> None:
        """Close the connections."""
        if self._database.engine is not None:
            self._database.engine.dispose()

    def _read(self, work: Any) -> Any:
        def checked(connection: Connection) -> Any:
            if not self._is_checked:
                mark = mark_of_database(connection) if is_current(connection) else None
                if mark is None:
                    raise StoreFailed(_NOT_YET)
                check_cluster(mark, self._cluster)
                self._is_checked = True
            return work(connection)

        return self._database.read(checked)

    # Ended workloads

    def workloads(
        self, wanted: ClusterWorkloadFilter, start: int, limit: int
    ) -> tuple[int, list[StoredHistoryEntry]]:
        """Return the number of matching workloads, and a page of them from `start` on, newest first."""
        joined = workloads.join(cluster_workloads, _stated.uid == _workloads.uid)
        counted = joined if wanted.named else workloads

        def read(connection: Connection) -> tuple[int, list[StoredHistoryEntry]]:
            where = _conditions(wanted)
            if wanted.text:
                where.append(matching(connection, storable(wanted.text)))
            listed = (
                select(_stated.stated)
                .select_from(joined)
                .where(*where)
                .order_by(_workloads.submitted_s.desc(), _workloads.uid)
                .offset(start)
                .limit(limit)
            )
            count = select(func.count()).select_from(counted).where(*where)
            rows = [_workload(text) for text in connection.execute(listed).scalars()] if limit else []
            return int(connection.execute(count).scalar_one()), rows

        result: tuple[int, list[StoredHistoryEntry]] = self._read(read)
        return result

    def workload(self, namespace: str, name: str, since_s: float = 0.0) -> StoredHistoryEntry | None:
        """Return the newest workload with a name or an owner's name that was submitted since a time.

        The answer is None if there is none.
        """
        wanted = ClusterWorkloadFilter(namespace=namespace, named=name, since_s=since_s)
        return next(iter(self.workloads(wanted, 0, 1)[1]), None)

    def series(self, number: int) -> str | None:
        """Return the stored curves of a workload; None if there are none."""
        wanted = select(cluster_series.c.series).where(cluster_series.c.uid == number)
        series: str | None = self._read(lambda connection: connection.execute(wanted).scalar())
        return series

    # Events

    def events(self, wanted: EventFilter, start: int, limit: int) -> RecordPage[EventRow]:
        """Return events from `start` on, newest first. Changes of reasons are left out unless selected."""
        where = _among(
            (_events.namespace, (wanted.namespace,)),
            (_events.workload, (wanted.workload,)),
            (_events.project, wanted.projects),
            (_events.kind, wanted.kinds),
        )
        if wanted.since_s:
            where.append(_events.at_s >= wanted.since_s)
        if not wanted.kinds:  # Weir's own events already state most reasons
            where.append(_events.kind != PENDING)
        query = select(cluster_events).where(*where).order_by(_events.at_s.desc(), _events.id.desc())
        count = select(func.count()).select_from(cluster_events).where(*where)

        def read(connection: Connection) -> RecordPage[EventRow]:
            rows = [_event(row) for row in connection.execute(query.offset(start).limit(limit))]
            total = int(connection.execute(count).scalar_one())
            return RecordPage(rows, total, start + limit if start + limit < total else None)

        page: RecordPage[EventRow] = self._read(read)
        return page

    # Reports

    def stored(self) -> tuple[float | None, float | None]:
        """Return the time from which, and up to which, usage is stored; None if nothing is."""
        last = select(marks.c.at_s).where(marks.c.name == SAMPLED)
        began = select(marks.c.at_s).where(marks.c.name == BEGAN)
        period: tuple[float | None, float | None] = self._read(
            lambda connection: (
                connection.execute(began).scalar(),
                connection.execute(last).scalar(),
            )
        )
        return period

    def gaps(self, since_s: float, until_s: float) -> Sequence[str]:
        """Return the gaps of the stored history in a period, as sentences."""
        # The source identifies Weir; an Event may have any kind
        by_weir = _events.source.startswith(f"{GAP}:", autoescape=True)
        within = select(_events.sentence).where(
            _events.kind == GAP, by_weir, _events.at_s >= since_s, _events.at_s < until_s
        )
        sentences: Sequence[str] = self._read(
            lambda connection: list(connection.execute(within.order_by(_events.at_s).limit(3)).scalars())
        )
        return sentences

    def usage(
        self, since_s: float, until_s: float, by: By, now_s: float, scope: ReportScope = EVERYTHING
    ) -> UsageReport:
        """Return sums by key, of some workloads or of all."""
        self._read(lambda _: None)
        return self._usage.report(since_s, until_s, by, now_s=now_s, scope=scope)

    def history(
        self, since_s: float, until_s: float, by: By, now_s: float, scope: ReportScope = EVERYTHING
    ) -> HistoryReport:
        """Return the figures of a period for planning, of some workloads or of all."""
        self._read(lambda _: None)
        return self._reports.report(since_s, until_s, by, now_s=now_s, scope=scope)


def _among(*columns: tuple[Any, Sequence[str]]) -> list[ColumnElement[bool]]:
    """Return the conditions that columns have one of their values; empty values select all."""
    return [column.in_([storable(value) for value in values]) for column, values in columns if any(values)]


def _conditions(wanted: ClusterWorkloadFilter) -> list[ColumnElement[bool]]:
    where = _among(
        (_workloads.namespace, (wanted.namespace,)),
        (_workloads.user, wanted.users),
        (_workloads.project, wanted.projects),
        (_workloads.type, wanted.types),
    )
    statuses = [storable(status) for status in wanted.statuses]
    where.append(_workloads.state.in_(statuses) if statuses else _workloads.state != LIVE)
    if wanted.since_s:
        where.append(_workloads.submitted_s >= wanted.since_s)
    if wanted.present:
        present: BindParameter[int] = bindparam(
            "present", list(wanted.present), expanding=True, literal_execute=True
        )
        where.append(_workloads.uid.not_in(present))
    if wanted.named:
        named = storable(wanted.named)
        where.append(or_(_stated.name == named, _stated.owner == named))
    return where


def _workload(text: str) -> StoredHistoryEntry:
    stated = dict(mapping_of(text))
    return StoredHistoryEntry(WorkloadRow.model_validate(stated.pop("row")), stated)


def _event(row: Any) -> EventRow:
    columns = {name: getattr(row, name) for name in EVENT_COLUMNS}
    return EventRow(**columns, numbers=mapping_of(row.numbers))
