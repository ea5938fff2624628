"""Memberships: roles of users and groups in departments and projects.

Deleting a department or project deletes its memberships in the same transaction, so that a new one of that
name begins without them.
"""

from typing import get_args

from sqlalchemy import Connection, delete, func, select

from weir.store.database.codec import record_of, row_of
from weir.store.database.database import Database
from weir.store.database.dialects import put
from weir.store.errors import NoSuchQueue, QueueUnsound
from weir.store.records import MembershipRecord, ScopeRole
from weir.store.tables import memberships, queues

MEMBERS_MAX = 5000
"""Memberships of one department or project."""
_ROLES = get_args(ScopeRole)


class MembershipTable:
    """Memberships in a database, all kept in memory, since every request needs them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.all = self._database.read(_read)

    def set(self, membership: MembershipRecord) -> None:
        """Create a membership, or change its role.

        Raises:
            NoSuchQueue: the department or project no longer exists.
            QueueUnsound: the department or project has the maximum of memberships.
        """

        def work(connection: Connection) -> tuple[MembershipRecord, ...]:
            scope = membership.scope
            if connection.execute(select(queues.c.name).where(queues.c.name == scope)).first() is None:
                raise NoSuchQueue(f"There is no department or project {scope}.")
            add_membership(connection, membership)
            in_scope = select(func.count()).where(memberships.c.scope == scope)
            if connection.execute(in_scope).scalar_one() > MEMBERS_MAX:
                raise QueueUnsound(f"{scope} has {MEMBERS_MAX:,} members: make a Unix group a member.")
            return _read(connection)

        self.all = self._database.write(work).result()

    def delete(self, scope: str, kind: str, name: str) -> bool:
        """Delete a membership; return False if there was none."""

        def work(connection: Connection) -> tuple[bool, tuple[MembershipRecord, ...]]:
            table = memberships.c
            which = (table.scope == scope) & (table.kind == kind) & (table.name == name)
            is_deleted = bool(connection.execute(delete(memberships).where(which)).rowcount)
            return is_deleted, _read(connection)

        is_deleted, self.all = self._database.write(work).result()
        return is_deleted

    def read(self) -> None:
        """Read all memberships into memory."""
        self.all = self._database.read(_read)

    def queue_deleted(self, name: str) -> None:
        """Remove the memberships of a deleted department or project from memory."""
        self.all = tuple(membership for membership in self.all if membership.scope != name)


def add_membership(connection: Connection, membership: MembershipRecord) -> None:
    """Create a membership or change its role, in the transaction of a caller that knows its scope."""
    assert membership.role in _ROLES
    put(connection, memberships, row_of(membership))


def without_scope(connection: Connection, name: str) -> None:
    """Delete the memberships of a department or project, in the transaction that deletes it."""
    connection.execute(delete(memberships).where(memberships.c.scope == name))


def _read(connection: Connection) -> tuple[MembershipRecord, ...]:
    table = memberships.c
    rows = connection.execute(select(memberships).order_by(table.scope, table.kind, table.name)).all()
    return tuple(record_of(MembershipRecord, row) for row in rows)
