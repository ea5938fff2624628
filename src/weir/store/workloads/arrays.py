"""Arrays: a plan of indices, of which some at a time become workloads.

An array and its indices are rows of one table. The position in the plan moves in the transaction that makes
the workloads of the indices. So a crash loses no index and makes none twice.
"""

import json
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update

from weir.api.workload_list import ArrayCounts, ArrayIndexRow, Explanation
from weir.control.journal import NO_CONDITIONS, ArrayMember, ArrayPlan, WorkloadRecord
from weir.model.array_indices import index_name, read_indices
from weir.state.events import WorkloadOutcome
from weir.store.database.codec import WORKLOAD, as_json, packed
from weir.store.database.database import Database
from weir.store.history.events import EventHistory
from weir.store.records import ArrayRecord, HistoryEvent, RecordPage
from weir.store.tables import ARRAY, ENDED, LIVE, array_skips, arrays, submissions, workloads
from weir.store.workloads.journal import WORKLOAD_RECORDS, workload_record

ORDER_S = 1e-6
"""Time between the submissions of an array's indices: they are queued in their order."""
_columns = workloads.c
STOPPED_BEFORE = "It was stopped before it was queued."
_SAME_COLUMNS = ("project", "department", "user", "type", "priority", "preemptible", "devices", "pods")
_COPIED = ("command", "directory", "grace_s", "secrets", "container")
_skips = array_skips.c
_SKIPPED = select(func.count()).where(_skips.uid == _columns.uid).correlate(workloads).scalar_subquery()
_OF_ARRAY = WORKLOAD_RECORDS.add_columns(
    *(arrays.c[name] for name in ("written", "only", "position", "again")), _SKIPPED.label("skips")
).join(arrays, arrays.c.uid == _columns.uid)
_PLAN = select(arrays).join(workloads, _columns.uid == arrays.c.uid).where(_columns.state == ARRAY)
"""Plans of arrays that aren't over."""
_WINDOW = 1024
"""Indices of the plan that are looked at together for those that were stopped."""
_INDEX_COLUMNS = (
    *("uid", "array_index", "state", "first_started_s", "ended_s"),
    *("wall_s", "exit_code", "restarts", "sentence"),
)


@dataclass(frozen=True, slots=True)
class ArrayEnd:
    """End of an array: its outcome, and the indices by state."""

    how: WorkloadOutcome
    at_s: float
    sentence: str
    counts: ArrayCounts
    ran_s: float  # time since the first start of an index


class ArrayTable:
    """Stores arrays, and queues their indices without loss or repetition."""

    def __init__(self, database: Database, history: EventHistory) -> None:
        self._database = database
        self._history = history

    def live(self) -> list[ArrayRecord]:
        """Return the arrays that aren't over."""
        query = _OF_ARRAY.where(_columns.state == ARRAY)
        return [_array_record(row) for row in self._database.rows(query)]

    def get(self, uid: int) -> ArrayRecord | None:
        """Return the array with a number, finished or not; None if there is none."""
        query = _OF_ARRAY.where(_columns.uid == uid)
        row = self._database.row(query)
        return None if row is None else _array_record(row)

    def counts(self, uid: int) -> Mapping[str, int]:
        """Return the number of an array's queued indices by state."""
        query = select(_columns.state, func.count()).where(*_queued(uid)).group_by(_columns.state)
        return {str(row[0]): int(row[1]) for row in self._database.rows(query)}

    def first_started_s(self, uid: int) -> float | None:
        """Return the time at which the first index started; None before that."""
        query = select(func.min(_columns.first_started_s)).where(_columns.array_uid == uid)
        at_s: float | None = self._database.value(query)
        return at_s

    def index_runs_s(self, uid: int) -> float:
        """Return the wall time of all runs of an array's indices together."""
        query = select(func.sum(_columns.wall_s)).where(_columns.array_uid == uid, _columns.uid != uid)
        ran_s: float | None = self._database.value(query)
        return ran_s or 0.0

    def with_state(self, uid: int, state: str) -> list[int]:
        """Return the indices of an array whose workload ended so."""
        query = select(_columns.array_index).where(*_queued(uid), _columns.state == state)
        indices = self._database.values(query)
        return sorted(indices)

    def queue(self, uid: int, number: int, now_s: float) -> list[WorkloadRecord]:
        """Make the workloads of the next indices; of none while the array is suspended or stopped."""

        def work(connection: Connection) -> list[WorkloadRecord]:
            row = connection.execute(
                _OF_ARRAY.where(_columns.uid == uid, _columns.state == ARRAY)
            ).one_or_none()
            if row is None or row.held is not None or row.withdrawn_s is not None:
                return []
            template = _array_record(row)
            again, position = json.loads(row.again), row.position
            taken = [(index, now_s) for index in again[:number]]
            again = again[number:]
            while position < len(template.indices) and len(taken) < number:
                window = template.indices[position : position + _WINDOW]
                skipped = _skipped(connection, uid, window)
                for index in window:
                    if len(taken) == number:
                        break
                    if index not in skipped:
                        taken.append((index, row.submitted_s + position * ORDER_S))
                    position += 1
            plan = update(arrays).where(arrays.c.uid == uid)
            connection.execute(plan.values(position=position, again=as_json(again)))
            return [_queue_index(connection, row, template, index, at_s) for index, at_s in taken]

        return self._database.write(work).result()

    def requeue(self, uid: int, indices: Collection[int]) -> "Future[list[int]]":
        """Queue those of these indices again that have ended; return them."""

        def work(connection: Connection) -> list[int]:
            row = connection.execute(
                _OF_ARRAY.where(_columns.uid == uid, _columns.state == ARRAY)
            ).one_or_none()
            if row is None:
                return []
            skipped, again = _skipped(connection, uid, indices), list(json.loads(row.again))
            position = {index: place for place, index in enumerate(_array_record(row).indices)}
            over = (*_queued(uid), _columns.state != LIVE)
            ended = set(connection.execute(select(_columns.array_index).where(*over)).scalars())
            chosen = [index for index in indices if index in ended or index in skipped]
            again += [index for index in chosen if index in ended or position[index] < row.position]
            replaced = [{"of_index": index} for index in chosen if index in ended]
            if replaced:
                which = (*over, _columns.array_index == bindparam("of_index"))
                connection.execute(update(workloads).where(*which).values(replaced=True), replaced)
            revived = [{"of_index": index} for index in chosen if index in skipped]
            if revived:
                which = (_skips.uid == uid, _skips.array_index == bindparam("of_index"))
                connection.execute(delete(array_skips).where(*which), revived)
            connection.execute(update(arrays).where(arrays.c.uid == uid).values(again=as_json(again)))
            return chosen

        return self._database.write(work)

    def skip(self, uid: int, index: int) -> "Future[bool]":
        """Stop an index that wasn't queued yet; return False if it was, or isn't one of the array."""

        def work(connection: Connection) -> bool:
            row = connection.execute(_PLAN.where(arrays.c.uid == uid)).one_or_none()
            if row is None:
                return False
            again, indices = list(json.loads(row.again)), _indices(row)
            place = bisect_left(indices, index)
            comes = row.position <= place < len(indices) and indices[place] == index
            is_skipped = bool(_skipped(connection, uid, [index]))
            if index not in again and not comes:
                return is_skipped
            if index in again:
                rest = as_json([other for other in again if other != index])
                connection.execute(update(arrays).where(arrays.c.uid == uid).values(again=rest))
            if not is_skipped:
                connection.execute(insert(array_skips).values(uid=uid, array_index=index))
            return True

        return self._database.write(work)

    def end(self, uid: int, end: ArrayEnd) -> bool:
        """Write the end of an array and its event down; return False if it was over before."""

        def work(connection: Connection) -> bool:
            array = _columns.uid == uid, _columns.state == ARRAY
            row = connection.execute(select(workloads).where(*array)).one_or_none()
            if row is None:
                return False
            counts = end.counts.model_dump_json()
            values = {
                "state": end.how.value,
                "ended_s": end.at_s,
                "sentence": end.sentence,
                "wall_s": end.ran_s,
            }
            connection.execute(update(workloads).where(*array).values(values))
            connection.execute(update(arrays).where(arrays.c.uid == uid).values(counts=counts))
            connection.execute(delete(array_skips).where(_skips.uid == uid))
            numbers = {"how": end.how.value, "indices": end.counts.model_dump()}
            event = HistoryEvent(end.at_s, ENDED, end.sentence, uid, row.name, row.project, numbers=numbers)
            self._history.write(connection, [event])
            return True

        return self._database.write(work).result()

    def page(self, uid: int, after: int | None, limit: int) -> RecordPage[ArrayIndexRow]:
        """Return a page of an array's indices in ascending order; `after` is the last index before it."""

        def read(connection: Connection) -> RecordPage[ArrayIndexRow]:
            row = connection.execute(_OF_ARRAY.where(_columns.uid == uid)).one_or_none()
            if row is None:
                return RecordPage((), 0, None)
            array = _array_record(row)
            indices, name = array.indices, array.record.workload.name
            rest = [index for index in indices if after is None or index > after]
            shown = rest[:limit]
            queued: dict[int, Row[Any]] = {}
            if shown:
                within = _columns.array_index.between(shown[0], shown[-1])
                query = select(*(_columns[name] for name in _INDEX_COLUMNS)).where(*_queued(uid), within)
                queued = {queued_row.array_index: queued_row for queued_row in connection.execute(query)}
            stopped = _skipped(connection, uid, shown) if row.state == ARRAY else {*shown}
            items = [_index_row(name, index, queued.get(index), stopped) for index in shown]
            return RecordPage(items, len(indices), shown[-1] if len(rest) > limit else None)

        return self._database.read(read)


def _queued(uid: int) -> tuple[Any, ...]:
    return (
        _columns.array_uid == uid,
        _columns.replaced.is_(False),
        _columns.array_index.is_not(None),
    )


def _array_record(row: Row[Any]) -> ArrayRecord:
    only = tuple(json.loads(row.only))
    record = replace(workload_record(row), array=ArrayPlan(row.written, only))
    whole = read_indices(row.written)
    return ArrayRecord(record, whole, only or whole.indices, row.position > 0, row.skips)


def _indices(row: Row[Any]) -> Sequence[int]:
    """Return the indices that an array runs, in ascending order."""
    only: Sequence[int] = json.loads(row.only)
    return only or read_indices(row.written).indices


def _skipped(connection: Connection, uid: int, indices: Collection[int]) -> set[int]:
    """Return those of the indices that were stopped before they were queued."""
    if not indices:
        return set()
    within = _skips.array_index.between(min(indices), max(indices))
    skipped = connection.execute(select(_skips.array_index).where(_skips.uid == uid, within)).scalars()
    return set(skipped).intersection(indices)


def _queue_index(
    connection: Connection, row: Row[Any], template: ArrayRecord, index: int, submitted_s: float
) -> WorkloadRecord:
    """Make the workload of an index."""
    array = template.record
    name = index_name(array.workload.name, index)
    workload = replace(array.workload, name=name, submitted_s=submitted_s)
    environment = (*array.launch.environment, *_variables(template, index))
    values = {column: getattr(row, column) for column in _SAME_COLUMNS}
    values |= {"name": name, "state": LIVE, "submitted_s": submitted_s, "sentence": ""}
    values |= {"ran_s": 0.0, "wall_s": 0.0, "starts": 0, "settled": 0, "failures": 0, "restarts": 0}
    values |= {"array_uid": template.uid, "array_index": index}
    done = connection.execute(insert(workloads), values)
    assert done.inserted_primary_key is not None
    uid = int(done.inserted_primary_key[0])
    copied = {column: getattr(row, column) for column in _COPIED}
    spec = {"uid": uid, "spec": packed(WORKLOAD, workload), "asked": "{}", "conditions": "{}"}
    connection.execute(insert(submissions), {**copied, **spec, "environment": as_json(environment)})
    return replace(
        array,
        workload=workload,
        launch=replace(array.launch, uid=uid, environment=environment),
        submitted_at_s=submitted_s,
        conditions=NO_CONDITIONS,
        array=None,
        member=ArrayMember(template.uid, index),
    )


def _variables(template: ArrayRecord, index: int) -> Sequence[tuple[str, str]]:
    whole = template.whole
    numbers = {
        "ID": template.uid,
        "INDEX": index,
        "COUNT": len(whole),
        "MIN": whole.indices[0],
        "MAX": whole.indices[-1],
        "STEP": whole.step,
    }
    return [(f"WEIR_ARRAY_{name}", str(number)) for name, number in numbers.items()]


def _index_row(array: str, index: int, row: Row[Any] | None, stopped: Collection[int]) -> ArrayIndexRow:
    name = index_name(array, index)
    if row is None:
        if index not in stopped:
            return ArrayIndexRow(index=index, name=name, status="pending")
        reason = Explanation(why="stopped", sentence=STOPPED_BEFORE)
        return ArrayIndexRow(index=index, name=name, status="stopped", reason=reason)
    status, sentence = "pending" if row.state == LIVE else row.state, row.sentence
    return ArrayIndexRow(
        index=index,
        name=name,
        status=status,
        uid=row.uid,
        first_started_s=row.first_started_s,
        ended_s=row.ended_s,
        ran_s=row.wall_s,
        exit_code=row.exit_code,
        restarts=row.restarts,
        reason=Explanation(why=status, sentence=sentence) if sentence and status != "succeeded" else None,
    )
