"""Departments, projects and topologies in effect, and the project of each pod.

An object that becomes invalid keeps its last valid state. A project that is deleted while its workloads run
keeps its quota and accepts no new work, until the last of them ends. A scheduler that starts in between finds
only the project's name on them, and no quota.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from structlog import get_logger

from weir.kubernetes.api.managed_namespaces import ALL, ManagedNamespaces
from weir.kubernetes.api.objects import FinalizedMetadata
from weir.kubernetes.crd.objects import QuotaObject
from weir.kubernetes.crd.queue_tree import QueueObject, QueueTree, topologies_of, tree_of
from weir.kubernetes.crd.without_project import IGNORE, WithoutProject
from weir.kubernetes.translate.annotations import Annotations, not_there
from weir.model.nodes import Topology
from weir.model.queues import Queue
from weir.model.resources import GPU
from weir.scenario_io.error_messages import nearest
from weir.state.events import QueuesSet, TopologiesSet

Key = tuple[str, str]
_LOG = get_logger(__name__)
NAMED_MAX = 4
"""Limit of projects that a refusal names."""
_WEAK = "project"
"""Generic label that names a project only if such a project exists."""


class QuotaObjects:
    """Turns departments, projects and topologies into the quota tree of the engine."""

    def __init__(self, without: WithoutProject = IGNORE, managed: ManagedNamespaces = ALL) -> None:
        """Create an empty tree. `without`: rule for pods in namespaces that no project lists."""
        self._without, self._managed = without, managed
        # Labels of namespaces, if namespaces without a project need them
        self._labels: dict[str, dict[str, str]] = {}
        self._objects: dict[str, dict[str, QueueObject]] = {"Department": {}, "Project": {}, "Topology": {}}
        self._sound: dict[Key, QueueObject] = {}  # last usable version of each object
        self.generations: dict[Key, int] = {}
        self.metadata: dict[Key, FinalizedMetadata] = {}
        self.version = 0  # number of changes of objects, also of those that request nothing else
        self.changes = 0  # number of changed requests and deletions
        self.tree = QueueTree()
        self.topologies: tuple[Topology, ...] = ()
        self._label_topologies: tuple[Topology, ...] = ()  # topologies of node labels in pod groups
        self.refused: dict[Key, str] = {}
        self.changed = True
        self._former_queues: dict[str, Queue] = {}  # all former queues, for deleted ones that are in use
        self._told_queues: tuple[Queue, ...] | None = None
        self._told_topologies: tuple[Topology, ...] | None = None

    def see(self, kind: str, name: str, quota_object: QuotaObject | None, created_s: float = 0.0) -> None:
        """Process a new, changed or deleted (None) object."""
        self.version += 1
        before = self._objects[kind].get(name), self.is_leaving(kind, name)
        if quota_object is None:
            self._objects[kind].pop(name, None)
            self.metadata.pop((kind, name), None)
            self._sound.pop((kind, name), None)
            self.generations.pop((kind, name), None)
        else:
            self._objects[kind][name] = QueueObject(name, quota_object.spec, created_s)
            self.generations[kind, name] = quota_object.metadata.generation
            self.metadata[kind, name] = quota_object.metadata
        if before != (self._objects[kind].get(name), self.is_leaving(kind, name)):
            self.changed = True
            self.changes += 1

    def see_namespace(self, name: str, labels: dict[str, str] | None) -> None:
        """Process a new, changed or deleted (None) namespace."""
        if not self._without.labels or self._labels.get(name) == labels:
            return
        if labels is None:
            self._labels.pop(name, None)
        else:
            self._labels[name] = labels
        self.changed = True

    def use_node_labels(self, topologies: tuple[Topology, ...]) -> None:
        """Set the topologies of node labels that pod groups name, besides Topology objects."""
        self._label_topologies = topologies

    def is_leaving(self, kind: str, name: str) -> bool:
        """Return True if an object is being deleted, and exists until its last use ends."""
        metadata = self.metadata.get((kind, name))
        return metadata is not None and metadata.deletion_timestamp is not None

    def max_priority(self, project: str | None) -> int | None:
        """Return the maximum priority in a project; None without a maximum."""
        queue = None if project is None else self._former_queues.get(project)
        return None if queue is None else queue.max_priority

    def gpu_quota_milli(self, project: str | None) -> int | None:
        """Return the quota of GPUs of a project, in thousandths; None if it has none."""
        queue = None if project is None else self._former_queues.get(project)
        return None if queue is None else queue.quota.get(GPU)

    def closing(self, project: str) -> str:
        """Return why a project accepts no new work; empty if it does."""
        if not self.is_leaving("Project", project):
            return ""
        return (
            f"Project {project} is being deleted and takes no new work: "
            "name another project, or make it again once it is gone."
        )

    def settle(self) -> None:
        """Build the tree again after changes."""
        self.changed = False
        departments, projects = self._objects["Department"], self._objects["Project"]
        try:
            tree = self._tree()
        except Exception as error:  # noqa: BLE001 - it counts as it did before, until something changes
            _LOG.error("queues_unreadable", exc_info=error)
            return
        self.refused = dict(tree.refused)
        if any(key in self._sound for key in tree.refused):  # refused objects keep their last usable version
            tree = tree_of(self._as_sound("Department", tree), self._as_sound("Project", tree))
        for kind, objects in (("Department", departments), ("Project", projects)):
            for name, queue_object in objects.items():
                if (kind, name) not in self.refused:
                    self._sound[kind, name] = queue_object
        self.tree = tree
        self._remark_unmanaged()
        self.topologies, refused = topologies_of(self._objects["Topology"].values())
        self.refused.update(refused)
        self._former_queues.update({queue.name: queue for queue in tree.queues})

    def with_spec(self, kind: str, name: str, spec: Mapping[str, Any]) -> QueueTree:
        """Return the tree with another spec of a department or project; nothing changes here."""
        sound = {
            queue_kind: {
                other: self._sound.get((queue_kind, other), queue_object)
                for other, queue_object in self._objects[queue_kind].items()
            }
            for queue_kind in ("Department", "Project")
        }
        newest_s = max(
            (queue_object.created_s for objects in sound.values() for queue_object in objects.values()),
            default=0,
        )
        before = sound[kind].get(name)
        sound[kind][name] = QueueObject(name, spec, newest_s + 1 if before is None else before.created_s)
        tree = tree_of(sound["Department"].values(), sound["Project"].values())
        present = {queue.name for queue in tree.queues}
        leaving = (queue for queue in self._told_queues or () if queue.name not in present)
        tree.queues = (*tree.queues, *leaving)
        return tree

    def _remark_unmanaged(self) -> None:
        """Note the projects that list a namespace which isn't managed."""
        for namespace, projects in self.tree.projects_of.items():
            for project in projects if namespace not in self._managed else ():
                self.tree.remarks.setdefault(
                    ("Project", project),
                    f"Weir doesn't manage the namespace {namespace}: leave it out, or have it added to the "
                    "managed namespaces of the installation; until then its pods aren't Weir's",
                )

    def _tree(self) -> QueueTree:
        """Return the tree of all objects, without those that don't fit into it."""
        departments, projects = self._objects["Department"], self._objects["Project"]
        try:
            return tree_of(departments.values(), projects.values())
        except Exception as error:  # noqa: BLE001 - whichever it is, the others have to go on
            _LOG.error("queue_unreadable", exc_info=error)
        refused = {
            (kind, queue_object.name): f"{queue_object.name} can't be read: {type(fault).__name__}: {fault}"
            for kind in ("Department", "Project")
            for queue_object in self._objects[kind].values()
            if (fault := _fault_of(kind, queue_object)) is not None
        }
        tree = tree_of(
            [
                queue_object
                for name, queue_object in departments.items()
                if ("Department", name) not in refused
            ],
            [queue_object for name, queue_object in projects.items() if ("Project", name) not in refused],
        )
        tree.refused.update(refused)
        return tree

    def _as_sound(self, kind: str, tree: QueueTree) -> Iterable[QueueObject]:
        for name, queue_object in self._objects[kind].items():
            yield (
                self._sound.get((kind, name), queue_object) if (kind, name) in tree.refused else queue_object
            )

    @property
    def projects(self) -> frozenset[str]:
        """The projects that accept workloads."""
        return frozenset(queue.name for queue in self.tree.queues if queue.is_project)

    def facts(self, used: Iterable[str]) -> list[QueuesSet | TopologiesSet]:
        """Return the changes; `used` are the projects of the workloads that control knows."""
        facts: list[QueuesSet | TopologiesSet] = []
        queues = self._with_leaving(used)
        if queues != self._told_queues:
            facts.append(QueuesSet(queues))
            self._told_queues = queues
            left = {queue.name for queue in queues}
            self._former_queues = {name: queue for name, queue in self._former_queues.items() if name in left}
        topologies = (*self.topologies, *self._label_topologies)
        if topologies != self._told_topologies:
            facts.append(TopologiesSet(topologies))
            self._told_topologies = topologies
        return facts

    def retell(self) -> None:
        """Report all queues and topologies again with the next facts."""
        self._told_queues = self._told_topologies = None

    def _with_leaving(self, used: Iterable[str]) -> tuple[Queue, ...]:
        present = {queue.name for queue in self.tree.queues}
        left = []
        for name in sorted(set(used) - present):
            queue = self._former_queues.get(name) or Queue(name, quota={GPU: 0})
            left.append(queue if queue.parent in present else replace(queue, parent=None))
        return (*self.tree.queues, *left)

    def project_left(self, name: str) -> str | None:
        """Return the project of work that was started for it; None if another kind of queue now has its name.

        The project itself may be deleted.
        """
        taken = any(queue.name == name and not queue.is_project for queue in self.tree.queues)
        return name if name and not taken else None

    def topology_missing(self, annotations: Annotations) -> str:
        """Return the missing part of a requested topology, in a sentence."""
        by_name = {topology.name: topology for topology in (*self.topologies, *self._label_topologies)}
        return next((f"{sentence}." for sentence in not_there(annotations.topology, by_name)), "")

    def project_of(self, namespace: str, annotations: Annotations) -> tuple[str | None, str]:
        """Return the project of a pod by its namespace; or None, and a sentence with the remedy."""
        projects = self.projects
        open_to, missing = self._open_to(namespace)
        pod_request = annotations.project
        if pod_request is not None and annotations.project_from == _WEAK and pod_request not in projects:
            pod_request = None
        if pod_request is not None:
            if pod_request in open_to:
                return pod_request, ""
            if pod_request not in projects:
                return None, f"There is no project {pod_request}; {nearest(pod_request, projects)}."
            remedy = f"add {namespace} to spec.namespaces of project {pod_request}"
            other = f", or write one of {_first(open_to)}" if open_to else ""
            return None, f"Project {pod_request} isn't open to namespace {namespace}: {remedy}{other}."
        if len(open_to) == 1:
            return open_to[0], ""
        if open_to:
            choice = f"Namespace {namespace} has projects {_first(open_to)}"
            return None, f"{choice}: say which in the label weir.dev/project."
        add = "add it to spec.namespaces of the one it is to use"
        return None, missing or f"Namespace {namespace} belongs to no project: {add}."

    def _open_to(self, namespace: str) -> tuple[tuple[str, ...], str]:
        """Return the projects that a namespace may use, and the error if none is the default."""
        listed = self.tree.projects_of.get(namespace, ())
        default = self._without.project_for(namespace, self._labels.get(namespace, {}))
        if listed or default is None:
            return listed, ""
        if default in self.projects:
            return (default,), ""
        return (), f"There is no project {default}, for namespaces without a project: make it."


def _first(names: Sequence[str]) -> str:
    """Return the first names as a list in words.

    Its length is bounded, and it seldom changes when a name is added.
    """
    named = ", ".join(names[:NAMED_MAX])
    return named if len(names) <= NAMED_MAX else f"{named} and others"


def _fault_of(kind: str, queue_object: QueueObject) -> Exception | None:
    """Return the error inside one queue object, apart from others; None without one."""
    try:
        tree_of(*(([queue_object], []) if kind == "Department" else ([], [queue_object])))
    except Exception as error:  # noqa: BLE001 - the status of this object shows it
        return error
    return None
