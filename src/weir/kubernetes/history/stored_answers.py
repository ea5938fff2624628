"""Answers from the history's database, in separate threads: a database that hangs stops nothing else."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from heapq import merge
from threading import Lock, Thread
from typing import Any, TypeVar

from structlog import get_logger

from weir.api.answers import EventFilter, EventRow, QueueRow, UsageReport
from weir.api.history import HistoryReport
from weir.control.clock import in_utc
from weir.kubernetes.history.options import HistoryOptions
from weir.kubernetes.history.recent_part import history_with_recent, named, usage_with_recent
from weir.kubernetes.history.retention import retention_of
from weir.kubernetes.history.series_text import joined
from weir.kubernetes.query.usage.past_workloads import UsageHistoryEntry
from weir.kubernetes.query.usage.recent_series import Series
from weir.kubernetes.query.usage.reports import ReportRequest, history_report, usage_report
from weir.kubernetes.query.workloads.index import LIVE, WorkloadIndexEntry, WorkloadQuery
from weir.kubernetes.query.workloads.stored_history import Listed, StoredRow
from weir.service.blocking_calls import BlockingCalls
from weir.store.cluster.reader import ClusterHistoryReader
from weir.store.cluster.records import ClusterWorkloadFilter, StoredHistoryEntry
from weir.store.errors import StoreFailed
from weir.store.reports.scope import ReportScope

THREADS, WAITING_MAX = 4, 32
"""Limits of concurrent queries to the database, and of queries that wait for it."""
ANSWER_S = 20.0
PAUSE_S = 2.0
"""Time after a failure in which no other question is asked: each may take long to fail. While an earlier one
hangs, none is asked either.
"""
AWAY = "The history's database doesn't answer now, so this goes back 6 hours at most: {}"
IN_LOG = "Weir's log says why."
FULL = f"{WAITING_MAX} queries wait for it already."
_LOG = get_logger(__name__)
T = TypeVar("T")


class StoredAnswers:
    """Queries to the database, called on the event loop. None: no answer at the moment."""

    def __init__(self, options: HistoryOptions, cluster: Callable[[], str]) -> None:
        self._options = options
        self._cluster = cluster
        self._reader: _SharedReader | None = None
        self._opening = Lock()
        self._calls = BlockingCalls(THREADS)
        self._free = asyncio.Semaphore(THREADS)
        self._waiting = 0
        self._is_full = False
        self._failed_s = -PAUSE_S
        self._trouble = ""

    @property
    def note(self) -> str | None:
        """Return why the last question had no answer; None if it had one."""
        why = self._trouble or (FULL if self._is_full else "")
        return AWAY.format(why) if why else None

    def close(self) -> None:
        """Stop answering."""
        self._leave_reader()

    async def workloads(
        self,
        present: Sequence[WorkloadIndexEntry],
        matches: Sequence[WorkloadIndexEntry],
        query: WorkloadQuery,
        start: int,
        limit: int,
    ) -> tuple[int, list[Listed]] | None:
        """Return the number of selected workloads, and a page: live ones, and those without an object.

        The answer is None without an answer of the database.
        """
        wanted = ClusterWorkloadFilter(
            namespace=query.namespace,
            projects=query.projects,
            users=query.users,
            statuses=sorted(query.statuses - LIVE),
            types=query.types,
            text=query.text,
            named=query.named,
            present=[workload.number for workload in present],
            since_s=max(query.since_s, query.submitted_s),
        )
        first = 0 if query.named else max(0, start - len(matches))
        stored = await self._ask(lambda reader: reader.workloads(wanted, first, start + limit - first))
        if stored is None:
            return None
        count, rows = stored
        if query.named:
            rows = _newest_of_names(rows, {workload.key for workload in matches})
            count = len(rows)
        gone: list[Listed] = [_row(entry) for entry in rows]
        present_ones: list[Listed] = list(matches)
        merged = list(merge(present_ones, gone, key=_submitted_s, reverse=True))
        return len(matches) + count, merged[start - first : start - first + limit]

    async def workload(self, namespace: str, name: str, since_s: float) -> StoredRow | None:
        """Return the newest deleted workload of a name, submitted since a time.

        The answer is None if there is none, or without an answer.
        """
        entry = await self._ask(lambda reader: reader.workload(namespace, name, since_s))
        return None if entry is None else _row(entry)

    async def series(self, number: int, recent: Series) -> Series | None:
        """Return the curves of a workload, stored ones with the points after them; None without an answer."""

        def read(reader: ClusterHistoryReader) -> Series:
            metrics = joined(reader.series(number), recent)
            return {name: metric.points for name, metric in metrics.items()}

        return await self._ask(read)

    async def events(
        self, query: EventFilter, start: int, limit: int
    ) -> tuple[int, Sequence[EventRow]] | None:
        """Return the number of selected events, and a page of them, newest first; None without an answer."""
        page = await self._ask(lambda reader: reader.events(query, start, limit))
        return None if page is None else (page.total, page.items)

    async def report(
        self,
        kind: str,
        asked: ReportRequest,
        past: Sequence[UsageHistoryEntry],
        queues: Mapping[str, QueueRow],
        now_s: float,
    ) -> "UsageReport | HistoryReport | None":
        """Return a report of a period of any length; None without an answer."""
        return await self._ask(
            partial(_report, kind=kind, asked=asked, past=past, queues=queues, now_s=now_s)
        )

    async def _ask(self, question: Callable[[ClusterHistoryReader], T]) -> T | None:
        hangs = self._trouble and self._waiting
        self._is_full = self._waiting >= WAITING_MAX
        if hangs or self._is_full or time.monotonic() < self._failed_s + PAUSE_S:
            return None
        self._waiting += 1
        work = asyncio.ensure_future(self._call(question))
        work.add_done_callback(self._answered)
        try:
            answer = await asyncio.wait_for(asyncio.shield(work), ANSWER_S)
        except TimeoutError:
            self._fail("It took too long.")
        # The driver's text contains the database's address, which is for the log only
        except StoreFailed as error:
            self._fail(str(error), for_people=str(error) if error.__cause__ is None else IN_LOG)
        except Exception as error:  # noqa: BLE001 - the recent past can still be answered
            _LOG.error("history_question_failed", exc_info=error)
            self._fail(f"{type(error).__name__}.")
        else:
            self._trouble = ""
            return answer
        return None

    async def _call(self, question: Callable[[ClusterHistoryReader], T]) -> T:
        async with self._free:
            return await self._calls.run(partial(self._answer, question))

    def _answered(self, work: "asyncio.Future[Any]") -> None:
        self._waiting -= 1
        if not work.cancelled():
            work.exception()  # retrieve the error of a query without waiters

    def _fail(self, why: str, *, for_people: str = "") -> None:
        trouble = for_people or why
        if trouble != self._trouble:
            _LOG.warning("history_not_read", why=why)
        self._trouble, self._failed_s = trouble, time.monotonic()
        self._leave_reader()

    def _leave_reader(self) -> None:
        shared, self._reader = self._reader, None
        if shared is not None:
            Thread(target=shared.leave, name="weir-history-close", daemon=True).start()

    def _answer(self, question: Callable[[ClusterHistoryReader], T]) -> T:
        """Answer in a thread. After a failure the Secret is read again, since it may have changed."""
        with self._opening:
            shared = self._reader
            if shared is None:
                shared = self._reader = _SharedReader(self._options, self._cluster())
            shared.enter()
        try:
            return question(shared.reader)
        finally:
            shared.leave()


class _SharedReader:
    """A reader that is closed when its last user leaves: a question may hang for long after the others."""

    def __init__(self, options: HistoryOptions, cluster: str) -> None:
        self.reader = ClusterHistoryReader(options.read_url(), cluster, retention_of(options.keep_s))
        self._users = 1  # the answers themselves
        self._lock = Lock()

    def enter(self) -> None:
        """Count another user."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Count one user less, and close the reader after the last."""
        with self._lock:
            self._users -= 1
            is_last = not self._users
        if is_last:
            self.reader.close()


def _report(
    reader: ClusterHistoryReader,
    kind: str,
    asked: ReportRequest,
    past: Sequence[UsageHistoryEntry],
    queues: Mapping[str, QueueRow],
    now_s: float,
) -> UsageReport | HistoryReport:
    scope = ReportScope(asked.namespace or None, asked.projects)
    period = asked.since_s, asked.until_s, asked.by, now_s, scope
    began_s, stored_s = reader.stored()
    note = " ".join([*_began(began_s, asked), *reader.gaps(asked.since_s, asked.until_s)]) or None
    tail = None
    if stored_s is None or stored_s < asked.until_s:
        tail = replace(asked, since_s=max(asked.since_s, stored_s or 0.0))
    report: UsageReport | HistoryReport
    if kind == "usage":
        report = named(reader.usage(*period))
        if tail is not None:
            report = usage_with_recent(report, usage_report(past, queues, tail, ""), asked.until_s)
    else:
        report = named(reader.history(*period))
        if tail is not None:
            report = history_with_recent(report, history_report(past, queues, tail, ""), asked.until_s)
    return report.model_copy(update={"note": note})


def _began(began_s: float | None, asked: ReportRequest) -> list[str]:
    if began_s is not None and asked.since_s >= began_s:
        return []
    if began_s is None:
        return ["The history of this cluster has just begun."]
    began = in_utc(began_s)
    return [f"The history of this cluster begins at {began}."]


def _row(stored: StoredHistoryEntry) -> StoredRow:
    return StoredRow(stored.row, stored.stated["metadata"], stored.stated["detail"])


def _newest_of_names(rows: Sequence[StoredHistoryEntry], present: set[str]) -> list[StoredHistoryEntry]:
    """Return the newest workload of each name that the API server doesn't have."""
    newest: dict[str, StoredHistoryEntry] = {}
    for entry in rows:
        if entry.row.name not in present:
            newest.setdefault(entry.row.name, entry)
    return list(newest.values())


def _submitted_s(workload: Listed) -> float:
    return workload.row.submitted_s if isinstance(workload, StoredRow) else workload.submitted_s
