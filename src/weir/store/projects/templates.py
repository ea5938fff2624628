"""Templates of projects: submissions with parameters."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, insert, select

from weir.store.database.codec import record_of, row_of
from weir.store.database.database import Database
from weir.store.errors import NoSuchQueue
from weir.store.tables import queues, templates


@dataclass(frozen=True, slots=True)
class TemplateRecord:
    """A template. `workload` is its submission as received, with placeholders."""

    project: str
    name: str
    user: str
    saved_wall_s: float
    parameters: Sequence[Mapping[str, Any]]
    workload: Mapping[str, Any]


class TemplateTable:
    """Stores the templates of projects."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self, project: str) -> list[TemplateRecord]:
        """Return the templates of a project by name."""
        query = select(templates).where(templates.c.project == project).order_by(templates.c.name)
        return [_record(row) for row in self._database.rows(query)]

    def get(self, project: str, name: str) -> TemplateRecord | None:
        """Return a template; None if there is none."""
        query = select(templates).where(_is(project, name))
        row = self._database.row(query)
        return None if row is None else _record(row)

    def save_soon(self, record: TemplateRecord) -> "Future[None]":
        """Store a template; it replaces one of the same name. Fails with NoSuchQueue."""
        row = row_of(record)

        def work(connection: Connection) -> None:
            if (
                connection.execute(select(queues.c.name).where(queues.c.name == record.project)).first()
                is None
            ):
                raise NoSuchQueue(f"There is no project {record.project}.")
            connection.execute(delete(templates).where(_is(record.project, record.name)))
            connection.execute(insert(templates), row)

        return self._database.write(work)

    def delete_soon(self, project: str, name: str) -> "Future[None]":
        """Delete a template."""

        def work(connection: Connection) -> None:
            connection.execute(delete(templates).where(_is(project, name)))

        return self._database.write(work)


def delete_templates_of_project(connection: Connection, project: str) -> None:
    """Delete the templates of a project, in the transaction that deletes it."""
    connection.execute(delete(templates).where(templates.c.project == project))


def _is(project: str, name: str) -> Any:
    return and_(templates.c.project == project, templates.c.name == name)


def _record(row: Row[Any]) -> TemplateRecord:
    read = {name: json.loads(getattr(row, name)) for name in ("parameters", "workload")}
    return record_of(TemplateRecord, row, **read)
