"""Department and Project objects become the quota tree.

Nothing here refuses the whole for the fault of one. The webhook may have been away when an object came, or
a parent may have been deleted under its children. Running work has to go on. What can't be used is left
out, what can be used otherwise than it says is used so, and each says it in its status.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from weir.kubernetes.crd.schemas import InvalidObject, department_of, project_of, topology_of
from weir.model.nodes import Topology
from weir.model.queues import Queue
from weir.model.resources import amount
from weir.scenario_io.build import queues_of
from weir.scenario_io.error_messages import nearest
from weir.scenario_io.scalars import Written
from weir.scenario_io.specs import DepartmentEntry, ProjectEntry, QueueEntry

Key = tuple[str, str]
"""A kind and a name."""
Any_ = TypeVar("Any_", bound=QueueEntry)


@dataclass(frozen=True, slots=True)
class QueueObject:
    """Name, creation and unparsed spec of a Department, a Project or a Topology."""

    name: str
    spec: Mapping[str, Any]
    created_s: float = 0.0


@dataclass(slots=True)
class QueueTree:
    """The tree, parents before children, and the conditions of its objects."""

    queues: tuple[Queue, ...] = ()
    projects_of: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by namespace
    refused: dict[Key, str] = field(default_factory=dict)  # reasons of refused objects
    # Objects in use that have no full effect, with the reason
    remarks: dict[Key, str] = field(default_factory=dict)


def tree_of(departments: Iterable[QueueObject], projects: Iterable[QueueObject]) -> QueueTree:
    """Return the quota tree of these objects."""
    tree = QueueTree()
    rows: dict[str, tuple[float, str, DepartmentEntry | ProjectEntry, tuple[str, ...]]] = {}
    for kind, objects in (("Department", departments), ("Project", projects)):
        for queue_object in objects:
            read = _read(kind, queue_object, tree)
            if read is None:
                continue
            before = rows.get(queue_object.name)
            if before is not None:
                older, newer = ((before[0], before[1]), (queue_object.created_s, kind))
                if newer < older:
                    older, newer = newer, older
                tree.refused[newer[1], queue_object.name] = _taken(queue_object.name, older[1])
                if newer[1] == kind:
                    continue
            rows[queue_object.name] = (queue_object.created_s, kind, *read)
    made = [row for _, row in sorted(rows.items(), key=lambda named_row: (named_row[1][0], named_row[0]))]
    above = {row[2].name: row[2] for row in made if isinstance(row[2], DepartmentEntry)}
    above = {name: _placed(entry, above, tree) for name, entry in above.items()}
    _cut_circles(above, rows, tree)
    below = [_placed(row[2], above, tree) for row in made if isinstance(row[2], ProjectEntry)]
    tree.queues = queues_of(
        [_within_limit("Department", entry, tree) for entry in above.values()],
        [_within_limit("Project", entry, tree) for entry in below],
    )
    for _, _, written, namespaces in made:
        for namespace in namespaces:
            tree.projects_of[namespace] = (*tree.projects_of.get(namespace, ()), written.name)
    return tree


def topologies_of(objects: Iterable[QueueObject]) -> tuple[tuple[Topology, ...], dict[Key, str]]:
    """Return the topologies of these objects, and the mistake of each that can't be used."""
    topologies, refused = [], {}
    for topology_object in sorted(objects, key=lambda topology_object: topology_object.name):
        try:
            written = topology_of(topology_object.name, topology_object.spec)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one, the others count
            refused["Topology", topology_object.name] = _sentence(topology_object.name, error)
        else:
            topologies.append(Topology(written.name, tuple(written.levels)))
    return tuple(topologies), refused


def _read(
    kind: str, queue_object: QueueObject, tree: QueueTree
) -> tuple[DepartmentEntry | ProjectEntry, tuple[str, ...]] | None:
    try:
        if kind == "Project":
            return project_of(queue_object.name, queue_object.spec, queue_object.created_s)
        return department_of(queue_object.name, queue_object.spec, queue_object.created_s), ()
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one, the others count
        tree.refused[kind, queue_object.name] = _sentence(queue_object.name, error)
        return None


def _sentence(name: str, error: Exception) -> str:
    """Return the fault of an object, or a sentence that it is unreadable."""
    return (
        str(error)
        if isinstance(error, InvalidObject)
        else f"{name} can't be read: {type(error).__name__}: {error}"
    )


def _taken(name: str, kind: str) -> str:
    return (
        f"{name} is the name of a {kind.lower()} already, and departments and projects have one "
        "name space: choose another name"
    )


def _placed(entry: Any_, above: Mapping[str, DepartmentEntry], tree: QueueTree) -> Any_:
    """Return the queue at the root, with a remark, if its parent doesn't exist."""
    link = "department" if isinstance(entry, ProjectEntry) else "parent"
    parent = getattr(entry, link)
    if parent is None or parent in above:
        return entry
    kind = "Project" if isinstance(entry, ProjectEntry) else "Department"
    suggestion = nearest(parent, above)
    tree.remarks[kind, entry.name] = (
        f"there is no department {parent}; {suggestion}; until it is there, {entry.name} stands at the root"
    )
    return entry.model_copy(update={link: None})


def circle_from(name: str, parents: Mapping[str, str | None]) -> list[str]:
    """Return the departments of the cycle above a department; empty without one."""
    tracked: list[str] = []
    current: str | None = name
    while current is not None and current not in tracked:
        tracked.append(current)
        current = parents.get(current)
    return [] if current is None else tracked[tracked.index(current) :]


def _cut_circles(
    above: dict[str, DepartmentEntry], rows: Mapping[str, tuple[float, Any, Any, Any]], tree: QueueTree
) -> None:
    """Put the newest department of each cycle of parents at the root."""
    for name in list(above):
        circle = circle_from(name, {entry.name: entry.parent for entry in above.values()})
        if not circle:
            continue
        newest = max(circle, key=lambda member: (rows[member][0], member))
        path = " in ".join([*circle, circle[0]])
        tree.remarks["Department", newest] = (
            f"{path} is a circle: leave out the parent of one of them; until then {newest} stands at the root"
        )
        above[newest] = above[newest].model_copy(update={"parent": None})


def _within_limit(kind: str, entry: Any_, tree: QueueTree) -> Any_:
    """Return the queue with its quota cut to its limit, with a remark, if the quota is above."""
    low = [name for name in entry.quota if name in entry.limit and _is_below(name, entry)]
    if not low:
        return entry
    tree.remarks.setdefault(
        (kind, entry.name),
        f"the limit of {', '.join(low)} is below its quota: raise it, or lower the quota; "
        "until then the limit counts",
    )
    quota: dict[str, Written] = {**entry.quota, **{name: entry.limit[name] for name in low}}
    return entry.model_copy(update={"quota": quota})


def _is_below(name: str, entry: QueueEntry) -> bool:
    return amount(name, entry.limit[name]) < amount(name, entry.quota[name])
