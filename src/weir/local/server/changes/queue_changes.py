"""Changes of departments and projects, checked completely against the quota tree."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from weir.api.answers import QueueDeleted, QueueRow, TokenRow
from weir.api.queue_versions import version_refusal
from weir.local.server.access.authorization import Person
from weir.local.server.changes.delegated_quotas import check_scope, check_within
from weir.local.server.http.problem_details import FieldErrors, RequestRefused
from weir.local.server.state.pool_inventory import PoolInventory, check_name, pool_inventory
from weir.local.server.state.pool_state import PoolState
from weir.local.server.state.queue_lookup import no_such_queue
from weir.local.server.submissions.project_secrets import ProjectSecrets
from weir.model.queues import Queue
from weir.model.resources import GPU, GPU_MODEL_PREFIX, UNLIMITED
from weir.scenario_io.build import queues_of
from weir.scenario_io.checks import check_queue
from weir.scenario_io.error_messages import suggest
from weir.scenario_io.scalars import Written
from weir.scenario_io.specs import DepartmentEntry, ProjectEntry, QueueEntry
from weir.service.queue_rows import bare_queue_row, queue_detail
from weir.state.events import QueuesSet


class QueueChanges:
    """Changes of a pool's departments and projects, one at a time. Belongs to the event loop."""

    def __init__(
        self,
        pool: PoolState,
        secrets: ProjectSecrets,
        queue_rows: Callable[[], Awaitable[Mapping[str, QueueRow]]],
    ) -> None:
        self._pool = pool
        self._secrets = secrets
        self._queue_rows = queue_rows
        self._lock = asyncio.Lock()

    async def set(
        self, entry: DepartmentEntry | ProjectEntry, name: str, person: Person, version: str | None = None
    ) -> tuple[bool, QueueRow]:
        """Create or change a department or project; return True if it is new, and its row.

        `version`: the version that the person has read, which must still hold; None skips this check.
        """
        pool = self._pool
        async with self._lock:
            inventory = pool.inventory
            before = inventory.queues_by_name.get(name)
            parent = entry.department if isinstance(entry, ProjectEntry) else entry.parent
            check_scope(person, {parent, *(() if before is None else (before.parent,))})
            queue = checked_queue(entry, name=name, now_s=pool.clock(), inventory=inventory)
            _check_version(queue, before, version)
            check_within(person, before, queue, inventory.queues)
            new = name not in inventory.queues_by_name
            if new:  # left by an incomplete deletion of a project of this name
                await asyncio.to_thread(self._secrets.forget, name)
            followed = following_departments(queue, name, inventory)
            self._apply(await asyncio.to_thread(pool.store.set_queue, queue, followed=followed))
        noun = "project" if queue.is_project else "department"
        self._add_event(f"{person.user} {'creates' if new else 'changes'} {noun} {name}.", queue, person)
        rows = await self._queue_rows()
        return new, rows.get(name) or bare_queue_row(queue)  # another request may have deleted it meanwhile

    async def delete(self, name: str, is_project: bool, person: Person) -> QueueDeleted:
        """Delete an empty department or project; return everything that was deleted with it."""
        pool = self._pool
        noun = "project" if is_project else "department"
        async with self._lock:
            inventory = pool.inventory
            queue = inventory.queues_by_name.get(name)
            check_scope(person, [None if queue is None else queue.parent])
            if queue is None or queue.is_project != is_project:
                raise no_such_queue(noun, name)
            followed = following_departments(None, name, inventory)
            stored = [row for row in pool.store.tokens.all() if is_project and name in row.projects]
            queues = await asyncio.to_thread(pool.store.delete_queue, name, followed)
            secrets = await asyncio.to_thread(self._secrets.forget, name) if is_project else []
            self._apply(queues)
        self._add_event(f"{person.user} deletes {noun} {name}.", queue, person)
        fields = TokenRow.model_fields
        tokens = [TokenRow(**{key: getattr(row, key) for key in fields}) for row in stored]
        return QueueDeleted(name=name, tokens=tokens, secrets=secrets)

    def _apply(self, queues: tuple[Queue, ...]) -> None:
        pool = self._pool
        pool.backend.tell(QueuesSet(queues))
        pool.inventory = pool_inventory(pool.inventory.nodes, pool.inventory.topologies, queues)

    def _add_event(self, sentence: str, queue: Queue, person: Person) -> None:
        project = queue.name if queue.is_project else None
        self._pool.add_pool_event("queue", sentence, project=project, user=person.user)


def checked_queue(
    entry: DepartmentEntry | ProjectEntry, *, name: str, now_s: float, inventory: PoolInventory
) -> Queue:
    """Return the department or project that a request describes. It keeps the age of the existing one.

    Raises:
        RequestRefused: the description has mistakes; the answer has all of them.
    """
    is_project = isinstance(entry, ProjectEntry)
    noun = "project" if is_project else "department"
    fields = FieldErrors(f"The {noun}")
    check_name(name, fields)
    if entry.name != name:
        fields.add(("name",), f"name: is {entry.name[:80]!r}, the address says {name[:80]!r}; write the same")
    if entry.created is not None:
        fields.add(("created",), "created: the pool knows when it was made; leave it out")
    _check_amounts(entry, inventory, fields)
    before = inventory.queues_by_name.get(name)
    if before is not None and before.is_project != is_project:
        other = "project" if before.is_project else "department"
        fields.add(("name",), f"name: there is a {other} {name} already; write another name")
    parent = entry.department if isinstance(entry, ProjectEntry) else entry.parent
    _check_parent(name, parent, "department" if is_project else "parent", inventory, fields)
    fields.refuse_if_any()
    made = replace(_queue(entry, parent), created_s=now_s if before is None else before.created_s)
    if is_project or GPU in entry.quota:
        return made
    return replace(made, quota={**made.quota, **_gpus(_below(name, inventory.queues))}, follows=True)


def _check_version(queue: Queue, before: Queue | None, version: str | None) -> None:
    """Check that the settings still have the version that the person has read; None skips the check.

    Raises:
        RequestRefused: the settings have another version.
    """
    noun = "project" if queue.is_project else "department"
    now = None if before is None else queue_detail(bare_queue_row(before)).version
    if (sentence := version_refusal(noun, queue.name, now, version)) is not None:
        raise RequestRefused(409, sentence)


def following_departments(queue: Queue | None, name: str, inventory: PoolInventory) -> list[Queue]:
    """Return departments whose quota follows their children, as of `name` being set or deleted."""
    queues = {stored_queue.name: stored_queue for stored_queue in inventory.queues}
    followed = []
    before = inventory.queues_by_name.get(name)
    parents = {
        version.parent for version in (before, queue) if version is not None and version.parent is not None
    }
    if queue is None:
        queues.pop(name, None)
    else:
        queues[name] = queue
    for parent in sorted(parents):
        ancestor: str | None = parent
        while ancestor is not None:
            department = inventory.queues_by_name[ancestor]
            if not department.follows:
                break
            total = _below(ancestor, tuple(queues.values()))
            if total != department.quota.get(GPU):
                others = {key: value for key, value in department.quota.items() if key != GPU}
                queues[ancestor] = replace(department, quota={**others, **_gpus(total)})
                followed.append(queues[ancestor])
            ancestor = department.parent
    return followed


def _gpus(quota: int) -> dict[str, int]:
    return {GPU: quota} if quota < UNLIMITED else {}


def _below(name: str, queues: tuple[Queue, ...]) -> int:
    """Return the sum of the GPU quotas right below a department."""
    return min(UNLIMITED, sum(queue.quota.get(GPU, UNLIMITED) for queue in queues if queue.parent == name))


def _queue(entry: DepartmentEntry | ProjectEntry, parent: str | None) -> Queue:
    bare = entry.model_copy(update={"department" if isinstance(entry, ProjectEntry) else "parent": None})
    if isinstance(bare, ProjectEntry):
        (made,) = queues_of((), (bare,))
    else:
        (made,) = queues_of((bare,), ())
        if GPU not in entry.quota:
            made = replace(made, quota={key: value for key, value in made.quota.items() if key != GPU})
    return replace(made, parent=parent)


def _check_amounts(entry: QueueEntry, inventory: PoolInventory, fields: FieldErrors) -> None:
    check_queue(entry, (), fields)
    resources = sorted(inventory.resources())
    for key in ("quota", "limit", "weight"):
        stated: Mapping[str, Written] = getattr(entry, key)
        for resource in stated:
            if resource not in resources and not resource.startswith(GPU_MODEL_PREFIX):
                text = f"{key}: nothing has a resource {resource}; {suggest(resource, resources, fields)}"
                fields.add((key, resource), text)


def _check_parent(
    name: str, parent: str | None, key: str, inventory: PoolInventory, fields: FieldErrors
) -> None:
    departments = [queue.name for queue in inventory.queues if not queue.is_project]
    ancestor = parent
    while ancestor is not None:
        department = inventory.queues_by_name.get(ancestor)
        if department is None or department.is_project:
            fields.add(
                (key,), f"{key}: there is no department {ancestor}; {suggest(ancestor, departments, fields)}"
            )
            return
        if ancestor == name:
            fields.add((key,), f"{key}: {name} would be below itself; write another department, or none")
            return
        ancestor = department.parent
