"""The stored quota tree."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, select

from weir.model.queues import Queue
from weir.store.database.codec import QUEUE, packed
from weir.store.database.database import Database
from weir.store.database.dialects import put
from weir.store.errors import NoSuchQueue, QueueInUse, QueueUnsound
from weir.store.notifications.rules import delete_rules_of_project
from weir.store.projects.memberships import add_membership, without_scope
from weir.store.projects.templates import delete_templates_of_project
from weir.store.projects.tokens import without_project
from weir.store.records import MembershipRecord
from weir.store.tables import NOT_OVER, queues, workloads


def queues_of(connection: Connection) -> tuple[Queue, ...]:
    """Return the whole tree, parents before children, older queues first."""
    by_name = {queue.name: queue for queue in _written(connection)}
    return tuple(
        sorted(by_name.values(), key=lambda queue: (_depth(queue, by_name), queue.created_s, queue.name))
    )


def _written(connection: Connection) -> list[Queue]:
    return [QUEUE.validate_json(text) for text in connection.execute(select(queues.c.spec)).scalars()]


def _depth(queue: Queue, among: Mapping[str, Queue]) -> int:
    depth, parent = 0, queue.parent
    while parent is not None:
        depth, parent = depth + 1, among[parent].parent
    return depth


class QueueTable:
    """Stores the quota tree, and checks each change of it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> tuple[Queue, ...]:
        """Return the whole tree."""
        return self._database.read(queues_of)

    def set(
        self, queue: Queue, member: MembershipRecord | None = None, followed: Sequence[Queue] = ()
    ) -> tuple[Queue, ...]:
        """Make one, or change it. `member` is added to it in the same transaction.

        `followed`: departments above it, with the quotas that follow the change.
        """

        def work(connection: Connection) -> tuple[Queue, ...]:
            _check(connection, queue, {other.name: other for other in _written(connection)})
            for changed in (queue, *followed):
                put(connection, queues, _row(changed))
            if member is not None:
                add_membership(connection, member)
            return queues_of(connection)

        return self._database.write(work).result()

    def delete(self, name: str, followed: Sequence[Queue] = ()) -> tuple[Queue, ...]:
        """Take one out, and change the departments above it whose quotas follow."""

        def work(connection: Connection) -> tuple[Queue, ...]:
            by_name = {other.name: other for other in _written(connection)}
            if name not in by_name:
                raise NoSuchQueue(f"There is no project or department called {name}.")
            _refuse_if_used(connection, by_name[name], by_name, "can't be deleted")
            connection.execute(delete(queues).where(queues.c.name == name))
            without_project(connection, name)
            without_scope(connection, name)
            delete_rules_of_project(connection, name)
            delete_templates_of_project(connection, name)
            for changed in followed:
                put(connection, queues, _row(changed))
            return queues_of(connection)

        return self._database.write(work).result()


def _row(queue: Queue) -> dict[str, object]:
    return {
        "name": queue.name,
        "parent": queue.parent,
        "is_project": queue.is_project,
        "spec": packed(QUEUE, queue),
    }


def _check(connection: Connection, queue: Queue, by_name: Mapping[str, Queue]) -> None:
    before = by_name.get(queue.name)
    if before is not None and before.is_project != queue.is_project:
        kind = "project" if queue.is_project else "department"
        _refuse_if_used(connection, before, by_name, f"can't become a {kind}")
    parent = queue.parent
    if parent is None:
        return
    if parent not in by_name:
        raise QueueUnsound(f"There is no department {parent}: make it first.")
    if by_name[parent].is_project:
        raise QueueUnsound(f"{parent} is a project, which holds workloads and no other queues.")
    above: str | None = parent
    while above is not None:
        if above == queue.name:
            raise QueueUnsound(f"{queue.name} would be above itself.")
        above = by_name[above].parent


def _refuse_if_used(connection: Connection, queue: Queue, by_name: Mapping[str, Queue], refusal: str) -> None:
    below = sorted(other.name for other in by_name.values() if other.parent == queue.name)
    if below:
        raise QueueInUse(f"{queue.name} {refusal}: {below[0]} is in it.")
    of_project = workloads.c.project == queue.name
    live = select(workloads.c.name).where(of_project, workloads.c.state.in_(NOT_OVER))
    workload = connection.execute(live.limit(1)).scalar()
    if workload is not None:
        raise QueueInUse(f"{queue.name} {refusal}: its workload {workload} isn't over.")
