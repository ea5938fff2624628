"""Pods that other schedulers place, as members of the workloads that Weir schedules.

A gang has such members if pods were created while the webhook was unavailable, or if people name another
scheduler. A member on a node counts as present: the rest of its gang doesn't wait for it.

Such a pod may also own Weir's pods, as the leader of a group or a driver does.

Objects arrive in any order. So a pod is only recorded here; its owners are looked up once its namespace has a
workload.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weir.kubernetes.api.objects import KubePod, Metadata, OwnerReference, PodSpec, PodStatus
from weir.kubernetes.state.keyed_members import count_down, drop
from weir.kubernetes.state.owners.chain import Body
from weir.kubernetes.state.owners.index import Owners, pod_body
from weir.kubernetes.translate.kinds import GangKey, GangMinimum
from weir.kubernetes.translate.scheduling_groups import GroupReference, reference_of

_NEVER_OWNERS = ("DaemonSet", "Node")
"""Kinds of owners with pods on every node: these pods own nothing and belong to no gang."""
_SHARED_MAX = 50_000
"""Distinct labels, specs and statuses that are shared between pods."""
_NO_ANNOTATIONS: dict[str, str] = {}
_ANY_NODE = "any"
"""Placeholder for the name of a node: only the fact that the pod has a node matters."""


@dataclass(frozen=True, slots=True)
class ForeignMembers:
    """Counts the members of one workload that other schedulers place."""

    placed: Mapping[str, int] = field(default_factory=dict)  # by role
    running: int = 0
    pending: int = 0
    succeeded: Mapping[str, int] = field(default_factory=dict)  # by role
    next_pending: tuple[str, str] | None = None  # the first pending pod, and its scheduler

    @property
    def count(self) -> int:
        """Return the number of members that haven't ended."""
        return sum(self.placed.values()) + self.pending

    def left_of(self, needed: GangMinimum) -> GangMinimum:
        """Return the number of pods that the gang still needs besides the placed members."""
        if not self.placed:
            return needed
        minima = {role: max(0, least - self.placed.get(role, 0)) for role, least in needed.minima.items()}
        least = needed.min_pods - sum(self.placed.values())
        return GangMinimum(max(least, sum(minima.values())), minima)


NO_MEMBERS = ForeignMembers()


class ForeignPods:
    """Pods of other schedulers that may be members of workloads or owners of pods."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._telling = owners.kinds.role_labels
        self._pods: dict[str, KubePod] = {}  # with the fields that are read
        self._shared: dict[object, Any] = {}
        self._in: dict[str, int] = {}  # number of owned pods by namespace
        self._grouped: dict[tuple[str, str, str, str], set[str]] = {}  # pods by their pod group
        self._touched_groups: set[tuple[str, GroupReference]] = set()
        self._unsettled: dict[str, set[str]] = {}  # pods whose owners have to be looked up, by namespace

    def see(self, key: str, pod: KubePod) -> bool:
        """Process a new or changed pod. Return True if any relevant fact changed."""
        owner = pod.metadata.controller
        if owner is not None and owner.kind in _NEVER_OWNERS:
            return False
        before, shrunk = self._pods.get(key), self._shrunk(pod)
        if shrunk == before:
            return False
        if before is not None and _identity(before) != _identity(shrunk):
            self.forget(key)
            before = None
        self._pods[key] = shrunk
        namespace, group = shrunk.metadata.namespace, reference_of(shrunk.spec)
        if group is not None:
            self._grouped.setdefault(_gang_of(namespace, group), set()).add(key)
            self._touched_groups.add((namespace, group))
        if shrunk.metadata.controller is not None:
            if before is None:
                self._in[namespace] = self._in.get(namespace, 0) + 1
            self._unsettled.setdefault(namespace, set()).add(key)
        return True

    def forget(self, key: str) -> str:
        """Forget a pod; return its uid, or an empty text if it is unknown."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return ""
        namespace, group = pod.metadata.namespace, reference_of(pod.spec)
        if group is not None:
            drop(self._grouped, _gang_of(namespace, group), key)
            self._touched_groups.add((namespace, group))
        if pod.metadata.controller is not None:
            count_down(self._in, namespace)
            drop(self._unsettled, namespace, key)
            self._owners.leave(key)
        return pod.metadata.uid

    def look_again(self, keys: Iterable[str]) -> None:
        """Read the owners of these pods again."""
        for key in keys:
            if key in self._pods:
                self._unsettled.setdefault(key.partition("/")[0], set()).add(key)

    def settle(self, namespaces: Iterable[str]) -> set[str]:
        """Look up the owners of pods in these namespaces; return the uids of all of them."""
        touched: set[str] = set()
        for namespace in self._unsettled.keys() & set(namespaces):
            for key in self._unsettled.pop(namespace):
                controller = self._pods[key].metadata.controller
                touched.update(self._owners.above(key, namespace, controller).uids)
        return touched

    def body(self, key: str, uid: str) -> Body | None:
        """Return a foreign pod with this name and uid as an object of the API; None if it isn't kept.

        The answer is None if it isn't kept.
        """
        pod = self._pods.get(key)
        if pod is None or pod.metadata.uid != uid:
            return None
        return pod_body(pod.metadata, pod.status.phase)

    def members(self, namespace: str, uid: str, gang: str) -> ForeignMembers:
        """Return the members of a workload, by its topmost owner and its gang."""
        if namespace not in self._in:
            return NO_MEMBERS
        members: list[tuple[str, KubePod]] = []
        for key in self._owners.pods_below(uid):
            pod = self._pods.get(key)
            if pod is None or pod.metadata.namespace != namespace:
                continue
            chain = self._owners.above(key, namespace, pod.metadata.controller)
            derived = chain.derived(pod, self._owners.kinds)
            if (derived.key.uid, derived.key.gang) == (uid, gang):
                members.append((derived.role, pod))
        return _members(members)

    def take_groups(self) -> set[tuple[str, GroupReference]]:
        """Return the pod groups whose pods have changed since the last call."""
        touched, self._touched_groups = self._touched_groups, set()
        return touched

    def members_of_group(self, gang: GangKey) -> ForeignMembers:
        """Return the members of a pod group's workload."""
        keys = self._grouped.get((gang.namespace, gang.kind, gang.name, gang.gang))
        return _members(("", self._pods[key]) for key in sorted(keys)) if keys else NO_MEMBERS

    def _shrunk(self, pod: KubePod) -> KubePod:
        """Return a pod with the fields that are read; equal parts are one object."""
        meta, spec, owner = pod.metadata, pod.spec, pod.metadata.controller
        is_known = owner is not None and self._owners.kinds.knows(owner.api_version, owner.kind)
        if len(self._shared) > _SHARED_MAX:
            self._shared.clear()
        once = self._shared.setdefault
        labels = {name: meta.labels[name] for name in self._telling if name in meta.labels}
        metadata = Metadata(
            meta.name,
            meta.uid,
            meta.namespace,
            deletion_timestamp=meta.deletion_timestamp,
            labels=once(tuple(labels.items()), labels),
            annotations=_NO_ANNOTATIONS,
            owner_references=[self._owners.shared(owner)] if owner is not None and is_known else [],
        )
        node = _ANY_NODE if spec.node_name else ""
        read = PodSpec(
            spec.scheduler_name,
            node,
            scheduling_group=spec.scheduling_group,
            workload_ref=spec.workload_ref,
        )
        shared = once((spec.scheduler_name, node, reference_of(spec)), read)
        return KubePod(metadata, shared, once(pod.status.phase, PodStatus(pod.status.phase)))


def _gang_of(namespace: str, named: GroupReference) -> tuple[str, str, str, str]:
    return namespace, named.kind, named.name, named.gang


def _identity(pod: KubePod) -> tuple[str, OwnerReference | None]:
    return pod.metadata.uid, pod.metadata.controller


def _members(pods: Iterable[tuple[str, KubePod]]) -> ForeignMembers:
    """Return these pods, each with its role, as members of one workload."""
    placed: dict[str, int] = {}
    succeeded: dict[str, int] = {}
    running = 0
    pending: list[tuple[str, str]] = []
    for role, pod in pods:
        phase, is_bound = pod.status.phase, bool(pod.spec.node_name)
        if is_bound and phase in ("Pending", "Running"):
            placed[role] = placed.get(role, 0) + 1
            running += phase == "Running"
        elif phase == "Succeeded":
            succeeded[role] = succeeded.get(role, 0) + 1
        elif phase == "Pending" and pod.metadata.deletion_timestamp is None:
            pending.append((pod.metadata.name, pod.spec.scheduler_name))
    return ForeignMembers(placed, running, len(pending), succeeded, min(pending, default=None))
