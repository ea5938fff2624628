"""Choice of the workloads that a report counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Table


@dataclass(frozen=True, slots=True)
class ReportScope:
    """Workloads of one namespace or of all, and of some projects; no projects choose all."""

    namespace: str | None = None
    projects: Sequence[str] = ()

    def conditions(self, table: Table) -> tuple[ColumnElement[bool], ...]:
        """Return the conditions for rows of a table with a namespace and a project."""
        conditions: list[ColumnElement[bool]] = []
        if self.namespace is not None:
            conditions.append(table.c.namespace == self.namespace)
        if self.projects:
            conditions.append(table.c.project.in_(list(self.projects)))
        return tuple(conditions)


EVERYTHING: Final = ReportScope()
