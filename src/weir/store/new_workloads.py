"""New workloads as rows: one, or several that are stored together or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, insert, select, update

from weir.control.journal import StartConditions, WorkloadRecord
from weir.store.codec import START_CONDITIONS, WORKLOAD, as_json, packed
from weir.store.errors import NameTaken, NoSuchQueue
from weir.store.tables import ARRAY, LIVE, NOT_OVER, arrays, queues, submissions, workloads

_columns = workloads.c
_INSERT = insert(workloads)
_INSERT_SUBMISSION = insert(submissions)
_UID_OF_LIVE = select(_columns.uid).where(_columns.state.in_(NOT_OVER))
_PROJECT = select(queues.c.parent, queues.c.is_project)


@dataclass(frozen=True, slots=True)
class NewRow:
    """Columns of a new workload, and of its submission."""

    listed: Mapping[str, Any]
    submission: Mapping[str, Any]


def new_row(record: WorkloadRecord, asked: Mapping[str, object]) -> NewRow:
    """Return the columns of a new workload; `asked` is its submission as received."""
    return NewRow(_listed(record), _submission_row(record, asked))


def insert_together(
    connection: Connection, records: Sequence[WorkloadRecord], rows: Sequence[NewRow]
) -> list[WorkloadRecord]:
    """Insert workloads. A dependency without a number is on one before it.

    Raises:
        NameTaken, NoSuchQueue: nothing is changed.
    """
    if len({record.workload.name for record in records}) < len(records):
        raise NameTaken("Two of the workloads have the same name: name each differently.")
    for record in records:
        _check_new(connection, record)
    uids: dict[str, int] = {}
    made = []
    for record, row in zip(records, rows, strict=True):
        numbered = replace(record, conditions=_numbered(record.conditions, uids))
        conditions = packed(START_CONDITIONS, numbered.conditions)
        known = replace(row, submission={**row.submission, "conditions": conditions})
        made.append(insert_workload(connection, numbered, known))
        uids[record.workload.name] = made[-1].launch.uid
    return made


def _listed(record: WorkloadRecord) -> dict[str, Any]:
    workload = record.workload
    return {
        "name": workload.name,
        "project": workload.project,
        "department": None,
        "user": workload.user,
        "type": workload.type.value,
        "state": LIVE if record.array is None else ARRAY,
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


def _numbered(conditions: StartConditions, uids: Mapping[str, int]) -> StartConditions:
    """Return conditions with the numbers of the workloads that are submitted together."""
    found = tuple(
        each if each.uid else replace(each, uid=uids[each.name]) for each in conditions.dependencies
    )
    return replace(conditions, dependencies=found)


def _check_new(connection: Connection, record: WorkloadRecord) -> str | None:
    """Return the department of a new workload.

    Raises:
        NoSuchQueue, NameTaken: it can't be stored.
    """
    workload = record.workload
    project = connection.execute(_PROJECT.where(queues.c.name == workload.project)).one_or_none()
    if project is None or not project.is_project:
        raise NoSuchQueue(f"There is no project {workload.project}: make it, or name another.")
    if connection.execute(_UID_OF_LIVE.where(_columns.name == workload.name)).first() is not None:
        raise NameTaken(
            f"A workload called {workload.name} isn't over yet: take another name, or stop it first."
        )
    department: str | None = project.parent
    return department


def insert_workload(connection: Connection, record: WorkloadRecord, row: NewRow) -> WorkloadRecord:
    """Insert a workload; return its record with its number.

    Raises:
        NameTaken, NoSuchQueue: nothing is changed.
    """
    department = _check_new(connection, record)
    done = connection.execute(_INSERT, {**row.listed, "department": department})
    assert done.inserted_primary_key is not None
    uid = int(done.inserted_primary_key[0])
    connection.execute(_INSERT_SUBMISSION, {"uid": uid, **row.submission})
    if record.array is not None:
        connection.execute(update(workloads).where(_columns.uid == uid).values(array_uid=uid))
        only = as_json(record.array.only)
        values = {"position": 0, "again": "[]", "skipped": "[]", "counts": "{}"}
        connection.execute(insert(arrays).values(uid=uid, written=record.array.written, only=only, **values))
    return replace(record, launch=replace(record.launch, uid=uid))
