"""Keep projects and departments while work uses them: by a finalizer, as for volume claims in use.

A deleted project stays as `Leaving` until its last workload is over, with its quota and its namespaces. So
one wrong deletion neither frees a namespace of its quota nor sends its pods to another scheduler.
"""

from collections.abc import Iterable, Mapping

from weir.kubernetes.api.objects import FinalizedMetadata
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import API_VERSION, GROUP
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.state.queues.quota_objects import Key, QuotaObjects
from weir.kubernetes.state.workloads.registry import WorkloadRegistry
from weir.kubernetes.writes.operations import PatchObject

FINALIZER = f"{GROUP}/in-use"
IDLE_S = 60.0
"""Time for which a queue without work keeps the finalizer: most queues get work again."""
AGAIN_S = 30.0
"""Time after which a write without effect is repeated."""
PLURALS = {"Department": "departments", "Project": "projects"}
NAMES_TOLD_MAX = 3


class QueueFinalizers:
    """Makes the writes that add and remove finalizers of departments and projects."""

    def __init__(self, quota_objects: QuotaObjects, registry: WorkloadRegistry) -> None:
        self._quota_objects = quota_objects
        self._registry = registry
        self._looked_at: tuple[int, int] | None = None
        self._idle_since_s: dict[Key, float] = {}
        # Requested changes: resource version, finalizers and time
        self._asked: dict[Key, tuple[str, list[str], float]] = {}
        self.due_s: float | None = 0.0  # time of the next check without a change

    @property
    def has_work(self) -> bool:
        """Return True if a change happened on which finalizers depend."""
        return self._looked_at != (self._quota_objects.version, self._registry.uses_version)

    def take(self, now_s: float) -> list[PatchObject]:
        """Return the changes of finalizers to be written now."""
        if not self.has_work and (self.due_s is None or now_s < self.due_s):
            return []
        self._looked_at = self._quota_objects.version, self._registry.uses_version
        self.due_s = None
        used = queues_used(self._quota_objects, self._registry.users)
        writes = []
        for key, metadata in self._quota_objects.metadata.items():
            if key[0] not in PLURALS:
                continue
            has, leaving = FINALIZER in metadata.finalizers, metadata.deletion_timestamp is not None
            if key in used:
                self._idle_since_s.pop(key, None)
                wanted = has or not leaving  # the API server refuses new finalizers during a deletion
            else:
                wanted = has and not leaving and not self._is_idle(key, now_s)
            if wanted == has:
                self._asked.pop(key, None)
                continue
            others = [finalizer for finalizer in metadata.finalizers if finalizer != FINALIZER]
            finalizers = [*others, FINALIZER] if wanted else others
            version, asked_for, asked_s = self._asked.get(key, ("", [], 0.0))
            if (version, asked_for) == (metadata.resource_version, finalizers) and now_s < asked_s + AGAIN_S:
                self._look_at(asked_s + AGAIN_S)
                continue
            self._asked[key] = metadata.resource_version, finalizers, now_s
            self._look_at(now_s + AGAIN_S)
            writes.append(_patch(key, metadata.resource_version, finalizers))
        self._forget_gone()
        return writes

    def _is_idle(self, key: Key, now_s: float) -> bool:
        since_s = self._idle_since_s.setdefault(key, now_s)
        if now_s < since_s + IDLE_S:
            self._look_at(since_s + IDLE_S)
            return False
        return True

    def _look_at(self, at_s: float) -> None:
        self.due_s = at_s if self.due_s is None else min(self.due_s, at_s)

    def _forget_gone(self) -> None:
        for entries in (self._idle_since_s, self._asked):
            for key in entries.keys() - self._quota_objects.metadata.keys():
                del entries[key]


def queues_used(quota_objects: QuotaObjects, users: Iterable[str]) -> set[Key]:
    """Return the queues with unfinished work, and the queues above them."""
    parents = {queue.name: queue.parent for queue in quota_objects.tree.queues}
    used: set[Key] = set()
    for project in users:
        used.add(("Project", project))
        above = parents.get(project)
        while above is not None and ("Department", above) not in used:
            used.add(("Department", above))
            above = parents.get(above)
    return used


def leaving_messages(quota_objects: QuotaObjects, users: Mapping[str, Iterable[Gang]]) -> dict[Key, str]:
    """Return a sentence for each queue that is being deleted, with the workloads that still use it."""
    messages: dict[Key, str] = {}
    parents = {queue.name: queue.parent for queue in quota_objects.tree.queues}
    for key, metadata in quota_objects.metadata.items():
        kind, name = key
        if metadata.deletion_timestamp is None or kind not in PLURALS:
            continue
        if kind == "Project":
            keeps = sorted(map(_owner, users.get(name, ())))
            end = "has ended" if len(keeps) == 1 else "have ended"
            messages[key] = _reason_to_keep(metadata, keeps, f"{end}, and takes no new work")
        else:
            below = sorted(queue_name for queue_name in users if name in _above(queue_name, parents))
            end = "has" if len(below) == 1 else "have"
            messages[key] = _reason_to_keep(metadata, below, f"{end} no work or another department")
    return messages


def _above(name: str, parents: Mapping[str, str | None]) -> list[str]:
    ancestors: list[str] = []
    ancestor = parents.get(name)
    while ancestor is not None and ancestor not in ancestors:
        ancestors.append(ancestor)
        ancestor = parents.get(ancestor)
    return ancestors


def _owner(gang: Gang) -> str:
    """Return the object to delete to end a workload: the kind, namespace and name of its owner."""
    key = gang.key
    without = "" if gang.count else ", which has no pods now"
    return f"{key.kind} {key.namespace}/{key.name}{without}"


def _reason_to_keep(metadata: FinalizedMetadata, names: list[str], until: str) -> str:
    if not names:
        others = ", ".join(finalizer for finalizer in metadata.finalizers if finalizer != FINALIZER)
        return (
            f"It is being deleted. It stays until its finalizer {others} is removed."
            if others
            else ("It is being deleted.")
        )
    listed = ", ".join(names[:NAMES_TOLD_MAX])
    if len(names) > NAMES_TOLD_MAX:
        listed += f" and {len(names) - NAMES_TOLD_MAX} more"
    return f"It is being deleted. It stays until {listed} {until}."


def _patch(key: Key, version: str, finalizers: list[str]) -> PatchObject:
    kind, name = key
    metadata = {"resourceVersion": version, "finalizers": finalizers}
    return PatchObject(path_of(API_VERSION, PLURALS[kind], "", name), {"metadata": metadata})
