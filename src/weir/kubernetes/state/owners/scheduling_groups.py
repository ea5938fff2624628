"""Pod groups of `scheduling.k8s.io`: their policies, the pods that name them, and their workloads.

A pod that names a group belongs to the workload of that group, and not to that of its owner: the group has
precedence over the table of kinds and over `weir.dev/min-pods`. A pod whose group isn't known waits. The pods
that have a node when their group is deleted stay one workload, without the minimum of the group: no other pod
could start for it. Its `Workload` is deleted with it. The other pods belong to workloads by their owners
until the group exists again. Of a deleted group only its name, which its pods state, has an effect, so a
restart of Weir changes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.api.objects import PodSpec, SchedulingGroupObject
from weir.kubernetes.state.keyed_members import count_down, drop
from weir.kubernetes.state.owners.pod_info import PodInfo
from weir.kubernetes.translate.annotations import PREFIX, Annotations
from weir.kubernetes.translate.gates import OWNER_MISSING, REFUSED
from weir.kubernetes.translate.kinds import DerivedWorkload, GangKey, GroupMembership
from weir.kubernetes.translate.scheduling_groups import (
    GROUP,
    POD_GROUP,
    GroupPolicy,
    GroupReference,
    policies_of_workload,
    policy_of_pod_group,
    reference_of,
)
from weir.model.nodes import Topology
from weir.model.workloads import TopologyRequest

NODE_LABELS_MAX = 16
"""Limit of node labels that groups use for topology at a time; each is a topology of the engine."""
GONE_MAX = 10_000
"""Limit of remembered deleted groups; workloads of older ones end a minute after their last pod."""
MADE_MAX = 100_000
"""Limit of remembered owners of groups' pods, such as Jobs; the latest are kept."""
LABEL_TOPOLOGY = "node-label/"
Key = tuple[str, GroupReference]
_Object = tuple[str, str, str]  # namespace, kind and name


@dataclass(slots=True)
class _Members:
    """Pods that name one group, and the objects that make them."""

    pods: set[str] = field(default_factory=set)
    owner_of: dict[str, GangKey] = field(default_factory=dict)
    owners: Counter[GangKey] = field(default_factory=Counter)
    maker: GangKey | None = None

    def note_owner(self, key: str, owner: GangKey | None) -> bool:
        """Record the owner of a pod; return True if that changes the owner of the group."""
        before = self.owner_of.pop(key, None)
        if before == owner and before is not None:
            self.owner_of[key] = before
            return False
        if before is not None:
            count_down(self.owners, before)
        if owner is not None:
            self.owner_of[key] = owner
            self.owners[owner] += 1
        if not self.owners:
            return False  # the last maker stays until pods with other owners come
        only = next(iter(self.owners)) if len(self.owners) == 1 else None
        maker = None if only is None or only.kind == "Pod" else only
        changed, self.maker = maker != self.maker, maker
        return changed


class SchedulingGroups:
    """Relates pods to the pod groups that they name."""

    def __init__(self, stale: set[str]) -> None:
        """Create an empty index. It adds the keys of pods that must be read again to the set `stale`."""
        self._stale = stale
        self.named: Counter[str] = Counter()  # number of pods by the kind of their group
        self._policies: dict[_Object, Mapping[str, GroupPolicy]] = {}  # policies by object and group name
        self._gone: dict[Key, GroupPolicy] = {}  # policies of deleted groups that still have pods
        self._refused: dict[_Object, str] = {}  # reasons by unreadable object
        self._unserved: Mapping[str, str] = {}
        self._reference: dict[str, Key] = {}
        self._members: dict[Key, _Members] = {}
        self._by_object: dict[_Object, set[str]] = {}  # pods by their object
        self._maker_of: dict[str, str] = {}  # uid of the maker of a group's pods, by uid of the group
        self._groups_of: dict[str, set[str]] = {}  # uids of groups by uid of the maker
        self._labels: Counter[str] = Counter()  # number of groups by their topology label
        self._gone_uids: dict[str, None] = {}  # uids of the last deleted groups
        self._news: set[str] = set()  # the part of these that wasn't handled yet

    # Observations

    def see_pod_group(self, key: str, group_object: SchedulingGroupObject | None) -> None:
        """Process a changed or deleted (None) `PodGroup`.

        Raises:
            ValueError: it can't be read. Its pods wait and say why.
        """
        self._see(POD_GROUP, key, group_object)

    def see_workload(self, key: str, group_object: SchedulingGroupObject | None) -> None:
        """Process a changed or deleted (None) `Workload` of Kubernetes 1.35.

        Raises:
            ValueError: it can't be read. Its pods wait and say why.
        """
        self._see("Workload", key, group_object)

    def _see(self, kind: str, key: str, group_object: SchedulingGroupObject | None) -> None:
        namespace, _, name = key.partition("/")
        object_key = namespace, kind, name
        self._refused.pop(object_key, None)
        policies: Mapping[str, GroupPolicy] = {}
        try:
            if group_object is None:
                self._note_gone({policy.uid for policy in self._policies.get(object_key, {}).values()})
            else:
                # The group may have been read in another API version
                self._gone_uids.pop(group_object.metadata.uid, None)
                is_group = kind == POD_GROUP
                policies = (
                    {"": policy_of_pod_group(group_object)}
                    if is_group
                    else policies_of_workload(group_object)
                )
        except ValueError as error:
            self._refused[object_key] = str(error)
            raise
        finally:
            self._replace(object_key, policies)

    def _replace(self, object_key: _Object, policies: Mapping[str, GroupPolicy]) -> None:
        """Replace the policies of an object."""
        pods, before = self._by_object.get(object_key, set()), self._policies.pop(object_key, {})
        if policies:
            self._policies[object_key] = policies
        self._labels.update(policy.topology_key for policy in policies.values() if policy.topology_key)
        for label in [policy.topology_key for policy in before.values() if policy.topology_key]:
            count_down(self._labels, label)
        for named in {self._reference[key] for key in pods}:
            group = named[1].group
            if group in policies:
                self._gone.pop(named, None)
            elif group in before:
                self._gone[named] = _named_alone(named[1], before[group])
        self._stale |= pods

    def _policy(self, group_key: Key) -> GroupPolicy | None:
        namespace, named = group_key
        return self._policies.get((namespace, named.kind, named.name), {}).get(named.group)

    def set_unserved(self, kinds: Mapping[str, str]) -> None:
        """Set the kinds of groups that can't be read, and why in a sentence without a full stop."""
        changed = {kind for kind in ("PodGroup", "Workload") if kinds.get(kind) != self._unserved.get(kind)}
        self._unserved = dict(kinds)
        self._stale.update(key for key, (_, named) in self._reference.items() if named.kind in changed)

    def note(self, key: str, namespace: str, spec: PodSpec) -> None:
        """Record the group that a pod names."""
        reference = reference_of(spec)
        if reference is None:
            if key in self._reference:
                self.forget(key)
            return
        group_key = namespace, reference
        if self._reference.get(key) == group_key:
            return
        self.forget(key)
        self._reference[key] = group_key
        self._members.setdefault(group_key, _Members()).pods.add(key)
        self._by_object.setdefault((namespace, reference.kind, reference.name), set()).add(key)
        self.named[reference.kind] += 1

    def forget(self, key: str) -> None:
        """Forget a pod."""
        group_key = self._reference.pop(key, None)
        if group_key is None:
            return
        namespace, reference = group_key
        self.named = self.named - Counter([reference.kind])
        drop(self._by_object, (namespace, reference.kind, reference.name), key)
        members = self._members[group_key]
        members.pods.discard(key)
        if members.note_owner(key, None):
            self._stale |= members.pods
        if not members.pods:
            del self._members[group_key]
            self._gone.pop(group_key, None)

    # Results

    def take_gone(self) -> set[str]:
        """Return the uids of groups that were deleted since the last call."""
        gone, self._news = self._news, set()
        return gone

    def is_gone(self, uid: str) -> bool:
        """Return True if a group was deleted; groups deleted long ago are forgotten."""
        return not uid or uid in self._gone_uids

    def _note_gone(self, uids: set[str]) -> None:
        self._news |= uids
        self._gone_uids.update(dict.fromkeys(uids))
        for uid in uids:
            self._forget_maker(uid)
        while len(self._gone_uids) > GONE_MAX:
            del self._gone_uids[next(iter(self._gone_uids))]

    @property
    def topologies(self) -> tuple[Topology, ...]:
        """Return a topology for each node label that groups use."""
        labels = sorted(islice(self._labels, NODE_LABELS_MAX))
        return tuple([Topology(f"{LABEL_TOPOLOGY}{label}", (label,)) for label in labels])

    def made_by(self, uids: Iterable[str]) -> set[str]:
        """Return the uids of groups whose pods these objects make."""
        return {group for uid in uids for group in self._groups_of.get(uid, ())}

    def uids(self, named: Iterable[Key]) -> Iterator[str]:
        """Yield the uids of these groups, as far as they are known."""
        for group_key in named:
            policy = self._policy(group_key) or self._gone.get(group_key)
            if policy is not None:
                yield policy.uid

    def regrouped(self, key: str, info: PodInfo, *, bound: bool, assumed: bool) -> PodInfo:
        """Return the facts of a pod as a member of the group that it names."""
        group_key = self._reference.get(key)
        if group_key is None:
            return info
        namespace, reference = group_key
        members = self._members[group_key]
        if members.note_owner(key, replace(info.gang, gang="")):
            self._stale |= members.pods - {key}
        policy = self._policy(group_key)
        waits = ("", "") if bound or info.wait else self._wait(namespace, reference, policy)
        if waits[0]:
            info = replace(info, wait=waits[0], wait_why=waits[1])
        counts = policy
        if policy is None and (bound or assumed):
            counts = self._gone.setdefault(group_key, _named_alone(reference))
        if counts is None:
            return info
        if counts.topology_key and not self._is_taken(counts.topology_key):
            counts = replace(counts, topology_key="")
        if members.maker is not None and policy is not None:
            self._note_maker(members.maker.uid, counts.uid)
        member = _member_of(info, counts, reference, members.maker)
        return member if policy is not None else _left(member, info)

    def _note_maker(self, maker: str, group: str) -> None:
        self._forget_maker(group)  # moves it to the end of the order
        self._maker_of[group] = maker
        self._groups_of.setdefault(maker, set()).add(group)
        if len(self._maker_of) > MADE_MAX:
            self._forget_maker(next(iter(self._maker_of)))

    def _forget_maker(self, group: str) -> None:
        maker = self._maker_of.pop(group, None)
        if maker is not None:
            drop(self._groups_of, maker, group)

    def _is_taken(self, label: str) -> bool:
        """Return True if groups may use a node label for topology."""
        return label in islice(self._labels, NODE_LABELS_MAX)

    def _wait(self, namespace: str, named: GroupReference, policy: GroupPolicy | None) -> tuple[str, str]:
        """Return why a pod waits for its group, and the code of this reason."""
        if policy is None:
            refused = self._refused.get((namespace, named.kind, named.name))
            if refused:
                return f"Its {named} can't be read: {refused}.", REFUSED
            why = self._unserved.get(named.kind)
            text = f"Its {named} can't be read: {why}." if why else f"Its {named} isn't there."
            return text, OWNER_MISSING
        if policy.parent:
            part = f"Its {named} is part of the CompositePodGroup {policy.parent}, which Weir doesn't place"
            return f"{part}: make the group without parentCompositePodGroupName.", REFUSED
        label = policy.topology_key
        if label and not self._is_taken(label):
            full = f"{NODE_LABELS_MAX} other node labels keep groups together already"
            return f"Its {named} keeps to one value of {label}, and {full}.", REFUSED
        return "", ""


def _named_alone(named: GroupReference, deleted: GroupPolicy | None = None) -> GroupPolicy:
    """Return the group that pods on nodes name, without its policy; without a uid if only pods know it."""
    if deleted is None:
        return GroupPolicy(GROUP, named.kind, named.name, uid="", created=None)
    return GroupPolicy(deleted.api_version, named.kind, named.name, deleted.uid, created=None)


def _member_of(info: PodInfo, policy: GroupPolicy, named: GroupReference, maker: GangKey | None) -> PodInfo:
    """Return the facts of a pod with its scheduling group in place of the gang that its owners imply."""
    derived, annotations = info.derived, info.annotations
    least = policy.min_count or 1
    key = GangKey(info.gang.namespace, policy.api_version, policy.kind, policy.name, policy.uid, named.gang)
    native = GroupMembership(
        maker, policy.stops_whole, _differences(derived, annotations, policy, named, maker)
    )
    asked = annotations
    if annotations.min_pods is not None or policy.topology_key:
        label = policy.topology_key
        keeps = TopologyRequest(f"{LABEL_TOPOLOGY}{label}", label) if label else annotations.topology
        asked = replace(annotations, min_pods=None, topology=keeps)
    pod_request = info.pod_request
    if pod_request.can_preempt and not policy.can_preempt:
        pod_request = replace(pod_request, can_preempt=False)
    return replace(
        info,
        derived=replace(
            derived,
            key=key,
            min_pods=least,
            minima={},
            pods=None,
            total=max(least, derived.total or 0) if maker is not None else least,
            done=derived.done if maker is not None else 0,
            over=derived.over if maker is not None else None,
            over_s=derived.over_s if maker is not None else 0.0,
            stated_suspension=derived.stated_suspension if maker is not None else None,
            suspension=derived.suspension if maker is not None else None,
            remedy=derived.remedy if maker is not None else "",
            restarts=derived.restarts and maker is not None,
            native=native,
        ),
        annotations=asked,
        pod_request=pod_request,
        priority=info.priority if policy.priority is None else policy.priority,
        submitted_s=seconds_of(policy.created) or info.submitted_s,
    )


def _left(member: PodInfo, by_owners: PodInfo) -> PodInfo:
    """Return the facts of a member of a deleted group: only its owner decides how many pods it needs."""
    derived, native = by_owners.derived, member.derived.native
    assert native is not None
    least, minima, total = derived.min_pods, derived.minima, derived.total
    if native.maker is None:
        least, minima, total = 1, {}, None
    left = replace(
        member.derived,
        min_pods=least,
        minima=minima,
        total=total,
        native=replace(native, stops_whole=False, differences=""),
    )
    return replace(member, derived=left, annotations=by_owners.annotations)


def _differences(
    derived: DerivedWorkload,
    annotations: Annotations,
    policy: GroupPolicy,
    named: GroupReference,
    maker: GangKey | None,
) -> str:
    """Return the gang settings that the group overrides, in a sentence; empty if none differs."""
    least = policy.min_count or 1
    others = []
    if annotations.min_pods is not None and annotations.min_pods != least:
        others.append(f"{PREFIX}min-pods: {annotations.min_pods}")
    elif annotations.min_pods is None and maker is not None and derived.min_pods != least:
        others.append(f"{derived.min_pods} by its {maker.kind}")
    if annotations.topology is not None and policy.topology_key:
        others.append(f"{PREFIX}topology")
    if not others:
        return ""
    together = f"{least} of its pods start together" if policy.min_count else "its pods start one by one"
    return f"Its {named} counts ({together}), not {' and '.join(others)}."


def is_native(api_version: str) -> bool:
    """Return True if a workload is a group of `scheduling.k8s.io`."""
    return api_version.partition("/")[0] == GROUP
