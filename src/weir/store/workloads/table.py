"""Workloads as people submit, stop and list them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NoReturn

from sqlalchemy import ColumnElement, Connection, Row, Select, func, not_, select, update

from weir.api.workload_list import ArrayCounts, WorkloadRow
from weir.control.journal import NO_CONDITIONS, WorkloadRecord
from weir.state.events import WorkloadOutcome
from weir.store.database.codec import START_CONDITIONS, WORKLOAD, mapping_of, packed
from weir.store.database.database import Database
from weir.store.errors import NoSuchWorkload, NotSuspended, WorkloadOver
from weir.store.records import RecordPage, StoredWorkload, WorkloadFilter
from weir.store.tables import IS_INDEX, LIVE, NOT_OVER, arrays, submissions, workloads
from weir.store.workloads.journal import WORKLOAD_RECORDS, workload_record
from weir.store.workloads.new_rows import insert_workloads, new_row
from weir.store.workloads.search import matching

PAGE_MAX = 1000
PENDING = "pending"
FEW_MAX = 2000
"""Number of found workloads up to which a search reads them by their numbers."""
FORGOTTEN_TOGETHER = 500
"""Workloads whose details are removed in one transaction."""
NO_COMMAND = "[]"
"""Command of a workload whose details were removed: every submission has one of a word at least."""
_NO_DETAILS = {
    "command": NO_COMMAND,
    "environment": "[]",
    "asked": "{}",
    "secrets": "{}",
    "container": "{}",
    "directory": "",
}
NOTHING_ASKED: Mapping[str, object] = {}
NO_STATUSES: Mapping[int, str] = {}
_ENDS = frozenset(end.value for end in WorkloadOutcome)

_columns = workloads.c
_SAME_NAMES = (
    *("uid", "name", "project", "user", "type", "priority", "preemptible", "devices", "pods"),
    *("submitted_s", "first_started_s", "started_s", "ended_s", "exit_code", "restarts", "sweep"),
)
"""Columns with the unchanged fields of a row of the API."""
_LINE = select(
    *(_columns[name] for name in (*_SAME_NAMES, "state", "ran_s", "wall_s", "sentence", "held")),
    _columns.array_uid,
    _columns.array_index,
)


class WorkloadTable:
    """Queues, changes, lists and forgets workloads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(
        self, record: WorkloadRecord, asked: Mapping[str, object] = NOTHING_ASKED
    ) -> "Future[WorkloadRecord]":
        """Queue a workload; its record comes with its number, `launch.uid`.

        `asked` is the submission as received, for reruns; it must be JSON.

        Raises:
            NameTaken: a live workload has the name.
            NoSuchQueue: there is no such project.
        """
        row = new_row(record, asked)
        return self._database.write(lambda connection: insert_workloads(connection, [record], [row])[0])

    def submit_all(
        self, records: Sequence[WorkloadRecord], asked: Sequence[Mapping[str, object]]
    ) -> "Future[list[WorkloadRecord]]":
        """Queue all or none, as `submit`; a dependency without a number is on a record before it."""
        rows = [new_row(record, raw) for record, raw in zip(records, asked, strict=True)]
        return self._database.write(lambda connection: insert_workloads(connection, records, rows))

    def cancel(self, name: str, at_s: float) -> "Future[WorkloadRecord]":
        """Cancel a workload for good; repeating it does no harm. Raises NoSuchWorkload, WorkloadOver."""
        return self._change(name, lambda record: {"withdrawn_s": at_s} if record.withdrawn_s is None else {})

    def suspend(self, name: str, why: str) -> "Future[WorkloadRecord]":
        """Suspend a workload. Raises NoSuchWorkload, WorkloadOver."""
        return self._change(name, lambda _: {"held": why})

    def resume(self, name: str) -> "Future[WorkloadRecord]":
        """Resume a workload. Raises NoSuchWorkload, WorkloadOver, NotSuspended."""
        return self._change(name, _released)

    def _change(
        self, name: str, values: Callable[[WorkloadRecord], Mapping[str, Any]]
    ) -> "Future[WorkloadRecord]":
        """Set columns of a live workload; `values` computes them from its record."""

        def work(connection: Connection) -> WorkloadRecord:
            record = _live_record(connection, name)
            uid = record.launch.uid
            changed = values(record)
            if not changed:
                return record
            connection.execute(update(workloads).where(_columns.uid == uid).values(changed))
            of_array = _columns.array_uid == uid, _columns.state == LIVE  # empty unless it is an array
            connection.execute(update(workloads).where(*of_array).values(changed))
            return workload_record(connection.execute(WORKLOAD_RECORDS.where(_columns.uid == uid)).one())

        return self._database.write(work)

    def set_priority(self, name: str, priority: int) -> "Future[WorkloadRecord]":
        """Set the priority of a live workload, in its row and its specification. Fails as `suspend` does."""

        def work(connection: Connection) -> WorkloadRecord:
            record = _live_record(connection, name)
            uid = record.launch.uid
            workload = replace(record.workload, priority=priority)
            where = submissions.c.uid == uid
            connection.execute(update(workloads).where(_columns.uid == uid).values(priority=priority))
            connection.execute(update(submissions).where(where).values(spec=packed(WORKLOAD, workload)))
            return replace(record, workload=workload)

        return self._database.write(work)

    def drop_conditions(self, name: str) -> "Future[WorkloadRecord]":
        """Let a live workload that has never started start without the conditions of its submission.

        Raises NoSuchWorkload, WorkloadOver, NotSuspended (it has none, or has started).
        """

        def work(connection: Connection) -> WorkloadRecord:
            record = _live_record(connection, name)
            uid = record.launch.uid
            if record.conditions == NO_CONDITIONS or record.status.starts:
                raise NotSuspended(f"{name} isn't suspended: there is nothing to resume.")
            where = submissions.c.uid == uid
            none = packed(START_CONDITIONS, NO_CONDITIONS)
            connection.execute(update(submissions).where(where).values(conditions=none))
            return replace(record, conditions=NO_CONDITIONS)

        return self._database.write(work)

    def newest(self, name: str) -> StoredWorkload | None:
        """Return the newest workload of a name, finished or not; None without one."""
        return self._one(
            _columns.uid == select(func.max(_columns.uid)).where(_columns.name == name).scalar_subquery()
        )

    def get(self, uid: int) -> StoredWorkload | None:
        """Return the workload with a number; None if there is none."""
        return self._one(_columns.uid == uid)

    def _one(self, which: ColumnElement[bool]) -> StoredWorkload | None:
        row = self._database.row(WORKLOAD_RECORDS.where(which))
        if row is None:
            return None
        counts = self._database.read(lambda connection: _counts(connection, [row]))
        return StoredWorkload(_listed(row, {}, counts), workload_record(row), mapping_of(row.asked))

    def ended_between(self, since_s: float, until_s: float) -> list[int]:
        """Return the numbers of the workloads that ended at `since_s` or later and before `until_s`."""
        ended = select(_columns.uid).where(_columns.ended_s >= since_s, _columns.ended_s < until_s)
        return self._database.values(ended)

    def delete_launch_specs(self, before_s: float) -> list[int]:
        """Delete the launch specs of workloads that ended before this; return their numbers."""
        old = (
            select(_columns.uid)
            .join(submissions, submissions.c.uid == _columns.uid)
            .where(_columns.ended_s < before_s, submissions.c.command != NO_COMMAND)
            .limit(FORGOTTEN_TOGETHER)
        )

        def work(connection: Connection) -> list[int]:
            uids = list(connection.execute(old).scalars())
            which = submissions.c.uid.in_(uids)
            connection.execute(update(submissions).where(which).values(_NO_DETAILS))
            return uids

        deleted: list[int] = []
        while some := self._database.write(work, durable=False).result():
            deleted += some
        return deleted

    def page(
        self,
        wanted: WorkloadFilter,
        *,
        live: Mapping[int, str] = NO_STATUSES,
        after: int | None = None,
        limit: int = 100,
    ) -> RecordPage[WorkloadRow]:
        """Return a page of workloads, newest first (by uid, which is also the key of the next page).

        `live` has the status (starting, running, stopping) of workloads that aren't over, by uid; others
        are pending. `wanted.statuses` selects by it, and the lines show it.
        """
        limit = max(1, min(limit, PAGE_MAX))
        ends = sorted(_ENDS if wanted.statuses is None else _ENDS.intersection(wanted.statuses))

        def read(connection: Connection) -> RecordPage[WorkloadRow]:
            rows: list[Row[Any]] = []
            total = 0
            where = _filters(connection, wanted)
            if wanted.q and wanted.ended and (few := _found_few(connection, where)) is not None:
                where = (few,)
            if wanted.live:
                count, page_rows = _live(connection, where, wanted.statuses, live, after, limit)
                total, rows = total + count, rows + page_rows
            if wanted.ended and ends:
                count, page_rows = _ended(connection, where, ends, after, limit)
                total, rows = total + count, rows + page_rows
            rows.sort(key=lambda row: -int(row.uid))
            has_more = len(rows) > limit
            counts = _counts(connection, rows[:limit])
            items = [_listed(row, live, counts) for row in rows[:limit]]
            return RecordPage(items, total, items[-1].uid if has_more else None)

        return self._database.read(read)


def _live(
    connection: Connection,
    where: Sequence[ColumnElement[bool]],
    statuses: Collection[str] | None,
    live: Mapping[int, str],
    after: int | None,
    limit: int,
) -> tuple[int, list[Row[Any]]]:
    """Return the number of live workloads, and one page of their lines."""
    conditions = (*where, _columns.state.in_(NOT_OVER), not_(IS_INDEX))
    if statuses is None:
        total = connection.execute(select(func.count()).where(*conditions)).scalar_one()
        return total, list(connection.execute(_newest(_LINE.where(*conditions), after, limit)))
    if _ENDS.issuperset(statuses):
        return 0, []
    asked = frozenset(statuses)
    uids = connection.execute(select(_columns.uid).where(*conditions).order_by(_columns.uid.desc())).scalars()
    meant = [uid for uid in uids if live.get(uid, PENDING) in asked]
    page = [uid for uid in meant if after is None or uid < after][: limit + 1]
    return len(meant), list(connection.execute(_LINE.where(_columns.uid.in_(page))))


def _ended(
    connection: Connection,
    where: Sequence[ColumnElement[bool]],
    ends: Sequence[str],
    after: int | None,
    limit: int,
) -> tuple[int, list[Row[Any]]]:
    """Return the number of ended workloads, and one page of their lines.

    All ended ones are counted as all less the live ones: the state of each would have to be read.
    """
    these = (*where, _columns.state.in_(ends), not_(IS_INDEX))
    count = select(func.count()).select_from(workloads)
    if len(ends) < len(_ENDS):
        total = connection.execute(count.where(*these)).scalar_one()
    else:
        not_over = _columns.state.in_(NOT_OVER), not_(IS_INDEX)
        total = connection.execute(count.where(*where)).scalar_one()
        total -= connection.execute(count.where(*where, *not_over)).scalar_one()
        total -= connection.execute(count.where(*where, IS_INDEX)).scalar_one()
    return total, list(connection.execute(_newest(_LINE.where(*these), after, limit)))


def _found_few(connection: Connection, where: Sequence[ColumnElement[bool]]) -> ColumnElement[bool] | None:
    """Return the condition for the workloads that a search finds, by their numbers; None if they are many."""
    uids = list(connection.execute(select(_columns.uid).where(*where).limit(FEW_MAX + 1)).scalars())
    return _columns.uid.in_(uids) if len(uids) <= FEW_MAX else None


def _newest(lines: Select[Any], after: int | None, limit: int) -> Select[Any]:
    if after is not None:
        lines = lines.where(_columns.uid < after)
    return lines.order_by(_columns.uid.desc()).limit(limit + 1)


def _filters(connection: Connection, wanted: WorkloadFilter) -> tuple[ColumnElement[bool], ...]:
    where: list[ColumnElement[bool]] = []
    for column, words in (
        (_columns.project, wanted.projects),
        (_columns.type, wanted.types),
        (_columns.user, wanted.users),
    ):
        if words is not None:
            where.append(column.in_(list(words)))
    if wanted.since_s:
        where.append(_columns.submitted_s >= wanted.since_s)
    if wanted.q:
        where.append(matching(connection, wanted.q))
    return tuple(where)


def _live_record(connection: Connection, name: str) -> WorkloadRecord:
    """Return the record of an unfinished workload or array.

    Raises:
        NoSuchWorkload, WorkloadOver: the workload doesn't exist, or has ended.
    """
    which = WORKLOAD_RECORDS.where(_columns.name == name, _columns.state.in_(NOT_OVER))
    row = connection.execute(which).one_or_none()
    if row is None:
        _refuse(connection, name)
    return workload_record(row)


def _released(record: WorkloadRecord) -> dict[str, None]:
    if record.suspended is None:
        raise NotSuspended(f"{record.workload.name} isn't suspended: there is nothing to resume.")
    return {"held": None}


def _refuse(connection: Connection, name: str) -> NoReturn:
    if connection.execute(select(_columns.uid).where(_columns.name == name)).first() is None:
        raise NoSuchWorkload(f"There is no workload called {name}.")
    raise WorkloadOver(f"{name} is over already.")


def _counts(connection: Connection, rows: Sequence[Row[Any]]) -> Mapping[int, ArrayCounts]:
    """Return the counts of those rows that are arrays and over, by number."""
    uids = [row.uid for row in rows if row.array_uid is not None and row.array_index is None]
    if not uids:
        return {}
    counted = connection.execute(select(arrays.c.uid, arrays.c.counts).where(arrays.c.uid.in_(uids)))
    return {uid: ArrayCounts.model_validate_json(counts) for uid, counts in counted if counts != "{}"}


def _listed(row: Row[Any], live: Mapping[int, str], counts: Mapping[int, ArrayCounts]) -> WorkloadRow:
    over = row.state not in NOT_OVER
    status = row.state if over else live.get(row.uid, PENDING)
    sentence = row.sentence if over else row.held or ""
    values = {name: getattr(row, name) for name in _SAME_NAMES}
    array = counts.get(row.uid)
    return WorkloadRow.model_validate(
        values
        | {
            "pods": row.pods * (1 if array is None else array.size),
            "status": status,
            "pods_running": 0,
            "ran_s": row.wall_s,
            "ran_before_s": row.wall_s,
            "kept_s": row.ran_s,
            "reason": {"why": status, "sentence": sentence} if sentence else None,
            "array": array,
            "array_uid": None if row.array_index is None else row.array_uid,
            "index": row.array_index,
        }
    )
