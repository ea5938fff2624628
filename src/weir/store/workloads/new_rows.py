"""New workloads as rows: one, or several that are stored together or not at all."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, insert, select, update

from weir.control.journal import ArrayPlan, StartConditions, WorkloadRecord
from weir.store.database.codec import START_CONDITIONS, WORKLOAD, as_json, packed
from weir.store.errors import NameTaken, NoSuchQueue
from weir.store.tables import ARRAY, LIVE, NOT_OVER, arrays, queues, submissions, workloads
from weir.store.workloads.sweeps import add_trial

_columns = workloads.c
_INSERT = insert(workloads).returning(workloads.c.uid, sort_by_parameter_order=True)
_INSERT_SUBMISSION = insert(submissions)
_NAMES_OF_LIVE = select(_columns.name).where(_columns.state.in_(NOT_OVER))
NAMES_TOGETHER = 500
"""Names that one query looks for."""
_PROJECT = select(queues.c.parent, queues.c.is_project)


@dataclass(frozen=True, slots=True)
class NewRow:
    """Column values of one new workload."""

    listed: Mapping[str, Any]
    submission: Mapping[str, Any]


def new_row(record: WorkloadRecord, asked: Mapping[str, object]) -> NewRow:
    """Return the columns of a new workload; `asked` is its submission as received."""
    return NewRow(_listed(record), _submission_row(record, asked))


def insert_workloads(
    connection: Connection, records: Sequence[WorkloadRecord], rows: Sequence[NewRow]
) -> list[WorkloadRecord]:
    """Insert workloads; return their records with their numbers. A dependency without one is on one of them.

    Raises:
        NameTaken, NoSuchQueue: nothing is changed.
    """
    departments = _departments(connection, {record.workload.project for record in records})
    _check_names(connection, [record.workload.name for record in records])
    listed = [
        {**row.listed, "department": departments[record.workload.project]}
        for record, row in zip(records, rows, strict=True)
    ]
    numbers = connection.execute(_INSERT, listed).scalars().all()
    uids = {record.workload.name: int(uid) for record, uid in zip(records, numbers, strict=True)}
    made = [
        replace(
            record,
            launch=replace(record.launch, uid=uids[record.workload.name]),
            conditions=_numbered(record.conditions, uids),
        )
        for record in records
    ]
    submitted = [
        {
            **row.submission,
            "uid": record.launch.uid,
            "conditions": packed(START_CONDITIONS, record.conditions),
        }
        for record, row in zip(made, rows, strict=True)
    ]
    connection.execute(_INSERT_SUBMISSION, submitted)
    for stored in made:
        if stored.array is not None:
            _insert_array(connection, stored.launch.uid, stored.array)
        if stored.trial is not None:
            add_trial(connection, stored.trial, stored.launch.uid, stored.workload.name)
    return made


def _insert_array(connection: Connection, uid: int, plan: ArrayPlan) -> None:
    connection.execute(update(workloads).where(_columns.uid == uid).values(array_uid=uid))
    values = {"uid": uid, "written": plan.written, "only": as_json(plan.only)}
    values |= {"position": 0, "again": "[]", "counts": "{}"}
    connection.execute(insert(arrays), values)


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
        "sweep": record.sweep,
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
    }


def _numbered(conditions: StartConditions, uids: Mapping[str, int]) -> StartConditions:
    """Return conditions with the numbers of the workloads that are submitted together."""
    dependencies = tuple(
        dependency if dependency.uid else replace(dependency, uid=uids[dependency.name])
        for dependency in conditions.dependencies
    )
    return replace(conditions, dependencies=dependencies)


def _departments(connection: Connection, projects: Collection[str]) -> Mapping[str, str | None]:
    """Return the departments of projects.

    Raises:
        NoSuchQueue: there is no such project.
    """
    departments: dict[str, str | None] = {}
    for name in projects:
        project = connection.execute(_PROJECT.where(queues.c.name == name)).one_or_none()
        if project is None or not project.is_project:
            raise NoSuchQueue(f"There is no project {name}: make it, or name another.")
        departments[name] = project.parent
    return departments


def _check_names(connection: Connection, names: Sequence[str]) -> None:
    """Refuse names that aren't free.

    Raises:
        NameTaken: a name is taken, or occurs twice.
    """
    if len(set(names)) < len(names):
        raise NameTaken("Two of the workloads have the same name: name each differently.")
    for first in range(0, len(names), NAMES_TOGETHER):
        together = _NAMES_OF_LIVE.where(_columns.name.in_(names[first : first + NAMES_TOGETHER]))
        taken = connection.execute(together).scalars().first()
        if taken is not None:
            raise NameTaken(f"A workload called {taken} isn't over yet: take another name, or stop it first.")
