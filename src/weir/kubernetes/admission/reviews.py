"""Answers to admission reviews: patches and refusals. Pure, one review at a time.

Pods that ask for GPUs in a namespace bound to a project come to Weir by themselves. Jobs get a rule by which
a preemption is no failure. A mistake is refused on admission, with its correction: later it would only wait.
Everything here is a courtesy. The scheduler reads the same labels with the same functions. So an object that
slips past a webhook that was away is not placed wrongly, only refused later.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from weir.kubernetes.admission.job_defaults import job_defaults
from weir.kubernetes.admission.shared_devices import claimed_share_changes, debugging_changes, share_changes
from weir.kubernetes.api.objects import KubePod, Metadata
from weir.kubernetes.crd.queue_tree import QueueObject, QueueTree, topologies_of, tree_of
from weir.kubernetes.crd.scheduler_config import settings_of
from weir.kubernetes.crd.scheduler_settings import SchedulerSettings
from weir.kubernetes.crd.schemas import InvalidObject
from weir.kubernetes.crd.without_project import IGNORE, WithoutProject
from weir.kubernetes.translate.annotations import (
    PREFIX,
    VALUE_CHARACTERS_MAX,
    WRITTEN_BY_WEIR,
    Annotations,
    near,
    not_there,
    read,
)
from weir.model.nodes import Topology
from weir.model.policy import Policy

DEFAULT_SCHEDULER = "default-scheduler"
FOREIGN_KEYS = ("kai.scheduler/queue", "runai/queue", "gpu-fraction", "gpu-memory")
"""Keys with which other tools request GPUs or shares of them."""
TEMPLATED = ("Job", "Deployment", "StatefulSet")
"""Kinds whose pods' template is read before there are pods."""
_NAMES_TOLD_MAX = 6
SPEC_VALUES_MAX = 10_000
"""Keys and list entries of a spec that is judged; pods that run have some hundreds."""
_NEWEST_S = 1e10
"""A creation time later than that of any object."""

Object = Mapping[str, Any]


@dataclass(frozen=True)
class QuotaTree:
    """Holds the departments, projects and topologies of a cluster, for reviews to look up."""

    departments: Mapping[str, QueueObject] = field(default_factory=dict)
    projects: Mapping[str, QueueObject] = field(default_factory=dict)
    topologies: Mapping[str, QueueObject] = field(default_factory=dict)
    without_project: WithoutProject = IGNORE
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # labels, if read

    @cached_property
    def tree(self) -> QueueTree:
        """The quota tree they make."""
        return tree_of(self.departments.values(), self.projects.values())

    @cached_property
    def levels(self) -> Mapping[str, Topology]:
        """The topologies by name."""
        return {topology.name: topology for topology in topologies_of(self.topologies.values())[0]}

    def projects_of(self, namespace: str) -> tuple[str, ...]:
        """Return the projects a namespace may use."""
        listed = self.tree.projects_of.get(namespace, ())
        if listed:
            return listed
        default = self.without_project.project_for(namespace, self.namespaces.get(namespace, {}))
        return () if default is None else (default,)

    def refuses_gpus(self, namespace: str) -> bool:
        """Return True if pods of a namespace may not ask for GPUs, because no project lists it."""
        rule = self.without_project
        covered = rule.action == "refuse" and rule.covers(namespace, self.namespaces.get(namespace, {}))
        return covered and not self.tree.projects_of.get(namespace)


@dataclass(frozen=True, slots=True)
class PodRules:
    """Rules by which reviews read pods: Weir's scheduler name, the device resources, the checks."""

    scheduler: str
    is_device: Callable[[str], bool]
    refusals: Callable[[KubePod, Annotations], Sequence[str]] = lambda _pod, _annotations: ()
    share_resource: Callable[[], str] = lambda: ""


# Changes


def defaulting_patch(request: Object, quota_tree: QuotaTree, reading: PodRules) -> list[dict[str, Any]]:
    """Return the JSON patch of a new object or ephemeral container; empty if it needs no change."""
    kind, new = request["kind"]["kind"], request.get("object") or {}
    if request.get("subResource"):
        return list(debugging_changes(new, request.get("oldObject") or {}))
    namespace = request.get("namespace", "")
    if kind == "Pod" and _is_ours(new, namespace, quota_tree, reading):
        return [*_of_pod(new, namespace, quota_tree, reading), *_of_person(new, request)]
    if kind == "Job" and _template_is_ours(new, namespace, quota_tree, reading):
        added = job_defaults(new["spec"]).items()
        ops = [{"op": "add", "path": f"/spec/{field}", "value": value} for field, value in added]
        return [*ops, *_of_person(new, request)]
    return []


def _of_person(new: Object, request: Object) -> list[dict[str, Any]]:
    """Return the patch that names the creator of an object; none for the objects of a controller."""
    name = str((request.get("userInfo") or {}).get("username") or "")
    metadata = new.get("metadata") or {}
    if not name or len(name) > VALUE_CHARACTERS_MAX or _controller(new):
        return []
    ops: list[dict[str, Any]] = []
    if not metadata.get("annotations"):
        ops.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    return [*ops, {"op": "add", "path": "/metadata/annotations/" + _pointer(f"{PREFIX}user"), "value": name}]


def lacks_project(request: Object, quota_tree: QuotaTree, reading: PodRules) -> bool:
    """Return True if a new pod or Job would be Weir's, but for a project that lists its namespace."""
    kind, new, namespace = request["kind"]["kind"], request.get("object") or {}, request.get("namespace", "")
    if kind not in ("Pod", "Job") or quota_tree.projects_of(namespace):
        return False
    listed = QuotaTree(projects={"any": QueueObject("any", {"namespaces": [namespace]}, 0.0)})
    is_ours = _is_ours if kind == "Pod" else _template_is_ours
    return is_ours(new, namespace, listed, reading) and not is_ours(new, namespace, quota_tree, reading)


def _of_pod(new: Object, namespace: str, quota_tree: QuotaTree, reading: PodRules) -> list[dict[str, Any]]:
    ops: list[dict[str, Any]] = []
    if new["spec"].get("schedulerName") != reading.scheduler:
        ops.append({"op": "add", "path": "/spec/schedulerName", "value": reading.scheduler})
    projects, (annotations, _) = quota_tree.projects_of(namespace), _read(new)
    if (annotations.fraction_milli or annotations.gpu_memory) and not _asks_for_devices(new["spec"], reading):
        resource = reading.share_resource() if annotations.fraction_milli else ""
        ops += claimed_share_changes(new, resource) if resource else share_changes(new)
    if len(projects) == 1 and not _controller(new) and _project(annotations, quota_tree) is None:
        metadata = new.get("metadata") or {}
        if not metadata.get("labels"):
            ops.append({"op": "add", "path": "/metadata/labels", "value": {}})
        path = "/metadata/labels/" + _pointer(f"{PREFIX}project")
        ops.append({"op": "add", "path": path, "value": projects[0]})
    return ops


def _pointer(key: str) -> str:
    """Return a key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _is_ours(pod: Object, namespace: str, quota_tree: QuotaTree, reading: PodRules) -> bool:
    """Return True if Weir schedules a pod: it names Weir, or requests GPUs in a project's namespace.

    A pod of a DaemonSet has its node already, and so has one that names it.
    """
    spec = pod.get("spec") or {}
    scheduler = spec.get("schedulerName") or DEFAULT_SCHEDULER
    if scheduler == reading.scheduler:
        return True
    if scheduler != DEFAULT_SCHEDULER or spec.get("nodeName") or not quota_tree.projects_of(namespace):
        return False
    if _controller(pod) == "DaemonSet":
        return False
    return _says_something(pod) or _asks_for_devices(spec, reading)


def _template_is_ours(owner: Object, namespace: str, quota_tree: QuotaTree, reading: PodRules) -> bool:
    template = (owner.get("spec") or {}).get("template") or {}
    if _is_ours(template, namespace, quota_tree, reading):
        return True
    scheduler = (template.get("spec") or {}).get("schedulerName") or DEFAULT_SCHEDULER
    return (
        scheduler == DEFAULT_SCHEDULER and bool(quota_tree.projects_of(namespace)) and _says_something(owner)
    )


def _controller(pod: Object) -> str:
    """Return the kind of the pod's controller; empty without one."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(owner.get("kind", "")) for owner in owners if owner.get("controller")), "")


def _says_something(manifest: Object) -> bool:
    metadata = manifest.get("metadata") or {}
    annotations = [*(metadata.get("labels") or ()), *(metadata.get("annotations") or ())]
    return any(key.startswith(PREFIX) or key in FOREIGN_KEYS for key in annotations)


def _asks_for_devices(spec: Object, reading: PodRules) -> bool:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    stated = [(container.get("resources") or {}) for container in containers]
    return any(
        reading.is_device(name)
        for resources in stated
        for part in ("requests", "limits")
        for name in resources.get(part) or ()
    )


# Mistakes


def review_errors(request: Object, quota_tree: QuotaTree, reading: PodRules) -> list[str]:
    """Return the mistakes of an object, each a sentence with a valid form.

    A change is refused for what it makes wrong, never for what was wrong before.
    """
    kind, namespace = request["kind"]["kind"], request.get("namespace", "")
    new, old = request.get("object") or {}, request.get("oldObject") or {}
    if kind == "SchedulerConfig":
        return _of_config(new)
    if kind in ("Department", "Project"):
        return _size(new) or _of_queue(request, quota_tree)
    errors = _of_object(kind, new, namespace, quota_tree, reading)
    if request.get("operation") == "UPDATE":
        before = set(_of_object(kind, old, namespace, quota_tree, reading))
        errors = [error for error in errors if error not in before]
    return errors


def _of_config(new: Object) -> list[str]:
    try:
        settings_of(new.get("spec") or {}, SchedulerSettings(Policy()))
    except InvalidObject as error:
        return [str(error)]
    return []


def _of_object(
    kind: str, manifest: Object, namespace: str, quota_tree: QuotaTree, reading: PodRules
) -> list[str]:
    owners: list[Object] = []
    pod = manifest
    if kind in TEMPLATED:
        owners, pod = [manifest], (manifest.get("spec") or {}).get("template") or {}
        is_managed = _template_is_ours(manifest, namespace, quota_tree, reading)
    else:
        is_managed = _is_ours(manifest, namespace, quota_tree, reading)
    annotations, errors = _read(pod, owners)
    if not is_managed:
        sentences = [error for error in errors if error.startswith(PREFIX)]
        if quota_tree.refuses_gpus(namespace) and _asks_for_devices(pod.get("spec") or {}, reading):
            sentences.append(_outside(namespace))
        return sentences
    too_large = _size(manifest)
    if too_large:
        return errors + too_large
    errors += [
        f"{PREFIX}{word} is written by Weir alone: leave it out of the pods' template"
        for word in WRITTEN_BY_WEIR
        if kind in TEMPLATED and _has_key(pod, PREFIX + word)
    ]
    errors += _of_project(
        annotations, namespace, quota_tree, is_owned=kind == "Pod" and bool(_controller(manifest))
    )
    errors += not_there(annotations.topology, quota_tree.levels)
    errors += reading.refusals(_pod(pod), annotations)
    return list(dict.fromkeys(errors))


def _outside(namespace: str) -> str:
    return (
        f"the namespace {namespace} belongs to no project, and GPUs are given through projects alone: "
        "have it added to spec.namespaces of one"
    )


def _read(pod: Object, owners: Iterable[Object] = ()) -> tuple[Annotations, list[str]]:
    annotations, errors = read(_metadata(pod), [_metadata(owner) for owner in owners])
    return annotations, list(errors)


def _metadata(manifest: Object) -> Metadata:
    """Return the metadata of an object that may have no name yet."""
    return msgspec.convert({"name": "", **_without_nothing(manifest.get("metadata"))}, Metadata)


def _pod(manifest: Object) -> KubePod:
    metadata = {"name": "", **_without_nothing(manifest.get("metadata"))}
    return msgspec.convert({**manifest, "metadata": metadata}, KubePod)


def _size(manifest: Object) -> list[str]:
    """Return a sentence if a spec has more values than are judged: the work for one object is bounded."""
    left, count = [manifest.get("spec")], 0
    while left:
        value = left.pop()
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        count += len(inside)
        if count > SPEC_VALUES_MAX:
            return [f"the spec has more than {SPEC_VALUES_MAX} keys and list entries: make it smaller"]
        left.extend(inside)
    return []


def _has_key(manifest: Object, key: str) -> bool:
    metadata = manifest.get("metadata") or {}
    return any(key in (metadata.get(part) or ()) for part in ("labels", "annotations"))


def _without_nothing(values: Object | None) -> dict[str, Any]:
    return {key: value for key, value in (values or {}).items() if value is not None}


def _project(annotations: Annotations, quota_tree: QuotaTree) -> str | None:
    """Return the project that an object names; the plain key `project` counts only if it names one."""
    if annotations.project_from == "project" and annotations.project not in quota_tree.projects:
        return None
    return annotations.project


def _of_project(
    annotations: Annotations, namespace: str, quota_tree: QuotaTree, *, is_owned: bool
) -> list[str]:
    named, allowed = _project(annotations, quota_tree), quota_tree.projects_of(namespace)
    key = f"{PREFIX}project"
    if named is not None:
        if named in allowed:
            return []
        if named not in quota_tree.projects:
            return [
                f"{annotations.project_from}: there is no project {named}; {near(named, quota_tree.projects)}"
            ]
        instead = f"write {key}: {_one_of(allowed)}, or " if allowed else ""
        refused = f"the namespace {namespace} may not use the project {named}"
        return [
            f"{annotations.project_from}: {refused}; {instead}have {namespace} added to its spec.namespaces"
        ]
    if len(allowed) == 1 or is_owned:  # a controller's pods take the project that their owner names
        return []
    if not allowed:
        instead = "have it added to spec.namespaces of one, or leave schedulerName out"
        return [f"the namespace {namespace} belongs to no project: {instead}"]
    return [f"the namespace {namespace} may use several projects: write the label {key}: {_one_of(allowed)}"]


def _one_of(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    listed = ", ".join(names[:_NAMES_TOLD_MAX])
    return f"one of {listed}" + (", ..." if len(names) > _NAMES_TOLD_MAX else "")


def _of_queue(request: Object, quota_tree: QuotaTree) -> list[str]:
    """Return the mistakes of a department or project among the others."""
    kind, name = request["kind"]["kind"], request["name"]
    objects = {"Department": dict(quota_tree.departments), "Project": dict(quota_tree.projects)}
    before = objects[kind].pop(name, None)
    if request.get("operation") == "DELETE":
        return _of_deletion(kind, name, quota_tree)
    new = request.get("object") or {}
    # Created last: of two conflicting objects the later one is refused, so this one gets the refusal.
    made = QueueObject(name, new.get("spec") or {}, _NEWEST_S if before is None else before.created_s)
    tree = tree_of(
        *({**by_name, **({name: made} if key == kind else {})}.values() for key, by_name in objects.items())
    )
    sentences = [
        messages[kind, name] for messages in (tree.refused, tree.remarks) if (kind, name) in messages
    ]
    if before is not None:  # a cycle may be reported at another member
        new_remarks = tree.remarks.keys() - quota_tree.tree.remarks.keys()
        sentences += [tree.remarks[key] for key in new_remarks if key != (kind, name)]
    return [sentence.partition("; until ")[0] for sentence in sentences]


def _of_deletion(kind: str, name: str, quota_tree: QuotaTree) -> list[str]:
    if kind != "Department":
        return []
    below = [queue.name for queue in quota_tree.tree.queues if queue.parent == name]
    if not below:
        return []
    listed = ", ".join(below[:_NAMES_TOLD_MAX]) + (", ..." if len(below) > _NAMES_TOLD_MAX else "")
    return [f"the department {name} isn't empty: move or delete {listed} first"]
