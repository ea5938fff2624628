"""Schedules, each with the time of its next run.

That time moves in the transaction that stores the workload of a run, so a crash loses no run and makes none
twice.
"""

import json
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from weir.control.journal import WorkloadRecord
from weir.store.database.codec import record_of, row_of
from weir.store.database.database import Database
from weir.store.tables import schedules
from weir.store.workloads.new_rows import NewRow, insert_workloads

RUNS_MAX = 20
"""Workloads of earlier runs that are looked at for `concurrency`."""


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A schedule. `asked` is its submission as received, `owner` identifies the person it runs for."""

    name: str
    project: str
    user: str
    owner: Mapping[str, Any]
    cron: str
    zone: str
    concurrency: str
    asked: Mapping[str, Any]
    suspended: bool = False
    next_wall_s: float | None = None
    last_wall_s: float | None = None
    last: str | None = None
    said: str = ""
    runs: tuple[int, ...] = ()  # numbers of its last workloads


class ScheduleTable:
    """Stores schedules, and each run together with its schedule."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[ScheduleRecord]:
        """Return all schedules by name."""
        query = select(schedules).order_by(schedules.c.name)
        return [_record(row) for row in self._database.rows(query)]

    def set_soon(self, record: ScheduleRecord) -> "Future[None]":
        """Store a schedule; it replaces one of the same name."""

        def work(connection: Connection) -> None:
            connection.execute(delete(schedules).where(schedules.c.name == record.name))
            connection.execute(insert(schedules), row_of(record))

        return self._database.write(work)

    def delete_soon(self, name: str) -> "Future[None]":
        """Delete a schedule."""

        def work(connection: Connection) -> None:
            connection.execute(delete(schedules).where(schedules.c.name == name))

        return self._database.write(work)

    def run_soon(
        self, before: ScheduleRecord, after: ScheduleRecord, record: WorkloadRecord, row: NewRow
    ) -> "Future[list[WorkloadRecord]]":
        """Store the workload of a run, and the updated schedule; nothing if the schedule has changed since.

        Fails with NameTaken or NoSuchQueue: nothing is stored.
        """

        def work(connection: Connection) -> list[WorkloadRecord]:
            stored = connection.execute(
                select(schedules).where(schedules.c.name == before.name)
            ).one_or_none()
            if stored is None or stored.next_wall_s != before.next_wall_s:
                return []
            (made,) = insert_workloads(connection, [record], [row])
            runs = (*after.runs, made.launch.uid)[-RUNS_MAX:]
            values = row_of(replace(after, runs=runs, last=made.workload.name))
            connection.execute(update(schedules).where(schedules.c.name == before.name).values(values))
            return [made]

        return self._database.write(work)


def _record(row: Row[Any]) -> ScheduleRecord:
    read = {name: json.loads(getattr(row, name)) for name in ("owner", "asked")}
    return record_of(ScheduleRecord, row, **read, runs=tuple(json.loads(row.runs)))
