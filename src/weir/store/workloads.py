"""Workloads as people submit, stop and list them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from typing import Any, NoReturn

from sqlalchemy import ColumnElement, Connection, Row, Select, func, insert, select, update

from weir.api.workload_list import WorkloadRow
from weir.control.journal import NO_CONDITIONS, WorkloadRecord
from weir.state.events import WorkloadOutcome
from weir.store.codec import START_CONDITIONS, WORKLOAD, as_json, mapping_of, packed
from weir.store.database import Database
from weir.store.errors import NameTaken, NoSuchQueue, NoSuchWorkload, NotSuspended, WorkloadOver
from weir.store.journal import WORKLOAD_RECORDS, workload_record
from weir.store.records import RecordPage, StoredWorkload, WorkloadFilter
from weir.store.tables import LIVE, queues, submissions, workloads
from weir.store.workload_search import matching

PAGE_MOST = 1000
PENDING = "pending"
FEW_MAX = 2000
"""Number of workloads up to which a search finds them first, and reads them by their numbers then."""
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
_ENDS = frozenset(end.value for end in WorkloadOutcome)

_INSERT = insert(workloads)
_INSERT_SUBMISSION = insert(submissions)
_columns = workloads.c
_UID_OF_LIVE = select(_columns.uid).where(_columns.state == LIVE)
_PROJECT = select(queues.c.parent, queues.c.is_project)
_SAME_NAMES = (
    *("uid", "name", "project", "user", "type", "priority", "preemptible", "devices", "pods"),
    *("submitted_s", "first_started_s", "started_s", "ended_s", "exit_code", "restarts"),
)
"""Columns that are fields of a row of the API as they are."""
_LINE = select(*(_columns[name] for name in (*_SAME_NAMES, "state", "ran_s", "wall_s", "sentence", "held")))


class WorkloadTable:
    """Workloads in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(self, record: WorkloadRecord, asked: Mapping[str, object]) -> "Future[WorkloadRecord]":
        """Queue a workload."""
        row, submission = _row(record), _submission_row(record, asked)
        return self._database.write(lambda connection: _submit(connection, record, row, submission))

    def change(
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
            return workload_record(connection.execute(WORKLOAD_RECORDS.where(_columns.uid == uid)).one())

        return self._database.write(work)

    def set_priority(self, name: str, priority: int) -> "Future[WorkloadRecord]":
        """Set the priority of a live workload, in its row and in its specification."""

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
        """Let a live workload that has never started start without the conditions of its submission."""

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
        """Return the newest workload of a name."""
        return self._one(
            _columns.uid == select(func.max(_columns.uid)).where(_columns.name == name).scalar_subquery()
        )

    def of(self, uid: int) -> StoredWorkload | None:
        """Return the workload with a number."""
        return self._one(_columns.uid == uid)

    def _one(self, which: ColumnElement[bool]) -> StoredWorkload | None:
        row = self._database.read(
            lambda connection: connection.execute(WORKLOAD_RECORDS.where(which)).one_or_none()
        )
        if row is None:
            return None
        return StoredWorkload(_listed(row, {}), workload_record(row), mapping_of(row.asked))

    def ended_between(self, since_s: float, until_s: float) -> list[int]:
        """Return the numbers of the workloads that ended at `since_s` or later and before `until_s`."""
        ended = select(_columns.uid).where(_columns.ended_s >= since_s, _columns.ended_s < until_s)
        return self._database.read(lambda connection: list(connection.execute(ended).scalars()))

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

        found: list[int] = []
        while some := self._database.write(work, durable=False).result():
            found += some
        return found

    def page(
        self, wanted: WorkloadFilter, live: Mapping[int, str], after: int | None, limit: int
    ) -> RecordPage[WorkloadRow]:
        """Return a page of workloads, newest first."""
        limit = max(1, min(limit, PAGE_MOST))
        ends = sorted(_ENDS if wanted.statuses is None else _ENDS.intersection(wanted.statuses))

        def read(connection: Connection) -> RecordPage[WorkloadRow]:
            rows: list[Row[Any]] = []
            total = 0
            where = _filters(connection, wanted)
            if wanted.q and wanted.ended and (few := _found_few(connection, where)) is not None:
                where = (few,)
            if wanted.live:
                count, found = _live(connection, where, wanted.statuses, live, after, limit)
                total, rows = total + count, rows + found
            if wanted.ended and ends:
                count, found = _ended(connection, where, ends, after, limit)
                total, rows = total + count, rows + found
            rows.sort(key=lambda row: -int(row.uid))
            more = len(rows) > limit
            items = [_listed(row, live) for row in rows[:limit]]
            return RecordPage(items, total, items[-1].uid if more else None)

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
    here = (*where, _columns.state == LIVE)
    if statuses is None:
        total = connection.execute(select(func.count()).where(*here)).scalar_one()
        return total, list(connection.execute(_newest(_LINE.where(*here), after, limit)))
    if _ENDS.issuperset(statuses):
        return 0, []
    asked = frozenset(statuses)
    uids = connection.execute(select(_columns.uid).where(*here).order_by(_columns.uid.desc())).scalars()
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
    these = (*where, _columns.state.in_(ends))
    count = select(func.count()).select_from(workloads)
    if len(ends) < len(_ENDS):
        total = connection.execute(count.where(*these)).scalar_one()
    else:
        live = connection.execute(count.where(*where, _columns.state == LIVE)).scalar_one()
        total = connection.execute(count.where(*where)).scalar_one() - live
    return total, list(connection.execute(_newest(_LINE.where(*these), after, limit)))


def _found_few(connection: Connection, where: Sequence[ColumnElement[bool]]) -> ColumnElement[bool] | None:
    """Return the condition for the workloads that a search finds, by their numbers; None if they are many."""
    found = list(connection.execute(select(_columns.uid).where(*where).limit(FEW_MAX + 1)).scalars())
    return _columns.uid.in_(found) if len(found) <= FEW_MAX else None


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
    if wanted.q:
        where.append(matching(connection, wanted.q))
    return tuple(where)


def _row(record: WorkloadRecord) -> dict[str, Any]:
    workload = record.workload
    return {
        "name": workload.name,
        "project": workload.project,
        "department": None,
        "user": workload.user,
        "type": workload.type.value,
        "state": LIVE,
        "priority": workload.priority,
        "preemptible": workload.preemptible,
        "devices": record.devices,
        "pods": workload.pods,
        "submitted_s": record.submitted_at_s,
        "ran_s": 0.0,
        "wall_s": 0.0,
        "sentence": "",
        "starts": 0,
        "settled": 0,
        "failures": 0,
        "restarts": 0,
    }


def _submission_row(record: WorkloadRecord, asked: Mapping[str, object]) -> dict[str, Any]:
    launch = record.launch
    return {
        "spec": packed(WORKLOAD, record.workload),
        "command": as_json(launch.command),
        "environment": as_json(launch.environment),
        "directory": launch.directory,
        "grace_s": launch.grace_s,
        "asked": as_json(asked),
        "secrets": as_json(dict(launch.secrets)),
        "container": as_json({} if launch.container is None else asdict(launch.container)),
        "conditions": packed(START_CONDITIONS, record.conditions),
    }


def _submit(
    connection: Connection, record: WorkloadRecord, row: Mapping[str, Any], submission: Mapping[str, Any]
) -> WorkloadRecord:
    workload = record.workload
    project = connection.execute(_PROJECT.where(queues.c.name == workload.project)).one_or_none()
    if project is None or not project.is_project:
        raise NoSuchQueue(f"There is no project {workload.project}: make it, or name another.")
    if connection.execute(_UID_OF_LIVE.where(_columns.name == workload.name)).first() is not None:
        raise NameTaken(
            f"A workload called {workload.name} isn't over yet: take another name, or stop it first."
        )
    done = connection.execute(_INSERT, {**row, "department": project.parent})
    assert done.inserted_primary_key is not None
    uid = int(done.inserted_primary_key[0])
    connection.execute(_INSERT_SUBMISSION, {"uid": uid, **submission})
    return replace(record, launch=replace(record.launch, uid=uid))


def _live_record(connection: Connection, name: str) -> WorkloadRecord:
    """Return the record of a live workload.

    Raises:
        NoSuchWorkload, WorkloadOver: there is none.
    """
    which = WORKLOAD_RECORDS.where(_columns.name == name, _columns.state == LIVE)
    row = connection.execute(which).one_or_none()
    if row is None:
        _refuse(connection, name)
    return workload_record(row)


def _refuse(connection: Connection, name: str) -> NoReturn:
    if connection.execute(select(_columns.uid).where(_columns.name == name)).first() is None:
        raise NoSuchWorkload(f"There is no workload called {name}.")
    raise WorkloadOver(f"{name} is over already.")


def _listed(row: Row[Any], live: Mapping[int, str]) -> WorkloadRow:
    over = row.state != LIVE
    status = row.state if over else live.get(row.uid, PENDING)
    sentence = row.sentence if over else row.held or ""
    values = {name: getattr(row, name) for name in _SAME_NAMES}
    return WorkloadRow.model_validate(
        values
        | {
            "status": status,
            "pods_running": 0,
            "ran_s": row.wall_s,
            "ran_before_s": row.wall_s,
            "kept_s": row.ran_s,
            "reason": {"why": status, "sentence": sentence} if sentence else None,
        }
    )
