"""Search for a part of a name, a user or a project among all workloads.

Names are read from their index, which is a fraction of the table. Users and projects are few: those that
match are found first, by steps through their indexes.
"""

from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, func, literal_column, or_, select

from weir.store.tables import workloads

_columns = workloads.c


def matching(connection: Connection, part: str) -> ColumnElement[bool]:
    """Return the condition for workloads whose name, user or project has this part, in any case."""
    conditions: list[ColumnElement[bool]] = [_columns.name.icontains(part, autoescape=True)]
    for column in (_columns.user, _columns.project):
        matches = [value for value in _values(connection, column) if part.lower() in value.lower()]
        if matches:
            conditions.append(column.in_(matches))
    return or_(*conditions)


def _values(connection: Connection, column: Column[Any]) -> list[str]:
    """Return the values of a column that begins an index: DISTINCT would read the whole index."""
    steps = select(func.min(column).label("value")).cte("steps", recursive=True)
    following = select(func.min(column)).where(column > steps.c.value).scalar_subquery()
    steps = steps.union_all(select(following).where(steps.c.value.is_not(literal_column("NULL"))))
    query = select(steps.c.value).where(steps.c.value.is_not(literal_column("NULL")))
    return [str(value) for value in connection.execute(query).scalars()]
