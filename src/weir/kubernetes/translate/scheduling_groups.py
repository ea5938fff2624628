"""Pod groups of `scheduling.k8s.io`: the group that a pod names, and the policy that its object states.

Kubernetes 1.35 has groups inside a `Workload` (`v1alpha1`), which pods name in `spec.workloadRef`. From 1.36
on a group is a `PodGroup` (`v1alpha2`, then `v1alpha3` and `v1beta1`), which pods name in
`spec.schedulingGroup`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from weir.kubernetes.api.objects import PodSpec, SchedulingGroupObject

GROUP = "scheduling.k8s.io"
POD_GROUP, WORKLOAD = "PodGroup", "Workload"
NAME_MAX = 253
MIN_COUNT_MAX = 1_000_000
GROUPS_MAX = 64
"""Pod groups of one `Workload` that are read; the API server allows 8."""
_PRIORITY_MAX = 1 << 31


@dataclass(frozen=True, slots=True)
class GroupReference:
    """The group that a pod names. Pods with the same reference in one namespace are scheduled together."""

    kind: str  # PodGroup or Workload
    name: str
    group: str = ""  # group name inside a Workload
    replica: str = ""  # replica of that group

    @property
    def gang(self) -> str:
        """Return the gang among those of the named object; empty where the object is one gang."""
        return f"{self.group}.{self.replica}" if self.replica else self.group

    def __str__(self) -> str:
        named = f"{self.kind} {self.name}"
        return f"pod group {self.group} of its {named}" if self.group else named


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """Rules of a group: how many pods start together, where, and how they are disrupted."""

    api_version: str
    kind: str
    name: str
    uid: str
    created: str | None
    min_count: int | None = None  # None: its pods need not start together
    topology_key: str = ""  # node label with one value for all pods
    priority: int | None = None
    stops_whole: bool = False  # True: its pods are disrupted together or not at all
    can_preempt: bool = True
    parent: str = ""  # CompositePodGroup above it


def reference_of(spec: PodSpec) -> GroupReference | None:
    """Return the group that a pod names; None if it names none."""
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return GroupReference(POD_GROUP, spec.scheduling_group.pod_group_name[:NAME_MAX])
    named = spec.workload_ref
    if named is None or not named.name:
        return None
    texts = (named.name, named.pod_group, named.pod_group_replica_key)
    return GroupReference(WORKLOAD, *(text[:NAME_MAX] for text in texts))


def policy_of_pod_group(group_object: SchedulingGroupObject) -> GroupPolicy:
    """Return the policy of a `PodGroup`, in any of its versions.

    Raises:
        ValueError: it can't be read; the sentence says which field.
    """
    spec, meta = group_object.spec, group_object.metadata
    return GroupPolicy(
        group_object.api_version,
        POD_GROUP,
        meta.name,
        meta.uid,
        meta.creation_timestamp,
        min_count=_min_count(_mapping(spec, "schedulingPolicy"), "spec.schedulingPolicy"),
        topology_key=_topology_key(_mapping(spec, "schedulingConstraints")),
        priority=_priority(spec),
        stops_whole=_stops_whole(spec.get("disruptionMode")),
        can_preempt=spec.get("preemptionPolicy") != "Never",
        parent=_text(spec.get("parentCompositePodGroupName")),
    )


def policies_of_workload(group_object: SchedulingGroupObject) -> dict[str, GroupPolicy]:
    """Return the policies of the pod groups that a `Workload` of Kubernetes 1.35 lists, by their names.

    Raises:
        ValueError: they can't be read; the sentence says which field.
    """
    meta = group_object.metadata
    return {
        name: GroupPolicy(
            group_object.api_version,
            WORKLOAD,
            meta.name,
            meta.uid,
            meta.creation_timestamp,
            min_count=_min_count(_mapping(group, "policy"), f"spec.podGroups of {name}, policy"),
        )
        for name, group in _groups(group_object.spec)
    }


def _groups(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    listed = spec.get("podGroups")
    for group in (listed if isinstance(listed, list) else [])[:GROUPS_MAX]:
        if isinstance(group, Mapping) and _text(group.get("name")):
            yield _text(group.get("name")), group


def _mapping(above: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = above.get(field)
    return value if isinstance(value, Mapping) else {}


def _text(written: object) -> str:
    return written[:NAME_MAX] if isinstance(written, str) else ""


def _min_count(policy: Mapping[str, Any], path: str) -> int | None:
    """Return the pods that start together; None for the basic policy."""
    gang = policy.get("gang")
    if gang is None:
        return None
    count = gang.get("minCount") if isinstance(gang, Mapping) else None
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MIN_COUNT_MAX:
        raise ValueError(f"{path}.gang.minCount: write a number from 1 to {MIN_COUNT_MAX}")
    return count


def _topology_key(constraints: Mapping[str, Any]) -> str:
    """Return the node label whose value all pods share; empty without one."""
    listed = constraints.get("topology")
    first = listed[0] if isinstance(listed, list) and listed else None
    return _text(first.get("key")) if isinstance(first, Mapping) else ""


def _priority(spec: Mapping[str, Any]) -> int | None:
    """Return the priority of a group; None without a class: the API server then writes 0."""
    written = spec.get("priority")
    if not isinstance(written, int) or isinstance(written, bool) or abs(written) > _PRIORITY_MAX:
        return None
    return written if written or spec.get("priorityClassName") else None


def _stops_whole(mode: object) -> bool:
    """Return True for `PodGroup` (1.36) and `all` (from 1.37 on)."""
    return mode == "PodGroup" or (isinstance(mode, Mapping) and mode.get("all") is not None)
