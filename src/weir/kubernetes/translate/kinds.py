"""Workload of a pod, from its owners: identity, gang and size.

The fields of each kind that describe its pods are in a table (`kinds.yaml`), not in code. The workload
belongs to the highest object above a pod whose kind the table knows. Without such an object, a pod counts as
one of many pods of an unknown owner, and its reason names the remedy.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.api.objects import KubePod, OwnerReference
from weir.kubernetes.translate.expressions import FieldSelection, kept_at, one_at, values_at
from weir.kubernetes.translate.kind_table import KindPart, KindRule, built_in, group_of, read_table
from weir.kubernetes.translate.owner_suspensions import (
    MANAGED_BY,
    OwnerSuspension,
    StatedSuspension,
    mark_of,
    missing_remedy,
    stated_suspension,
    suspension_of,
    usable_suspension,
)
from weir.model.workloads import WorkloadType
from weir.state.events import WorkloadOutcome

BY_OWNER = "owner"
BY_POD = "pod"

_RETRIES_PER_INDEX = ("spec", "backoffLimitPerIndex")
"""Field of Jobs whose controller counts retries and pauses for each index by itself."""

_NONE: Mapping[str, int] = {}

Found = Mapping[str, Any]
"""An object of the API, decoded from JSON."""


@dataclass(frozen=True, slots=True)
class GangKey:
    """Identity of a workload: its owner, in any version of the API, and the gang of several."""

    namespace: str
    api_version: str = field(compare=False)
    kind: str
    name: str
    uid: str
    gang: str = ""  # name of the gang, if its owner has several


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """Kind of objects to watch, in the first of these versions that the API has."""

    api_versions: tuple[str, ...]
    kind: str
    resource: str


@dataclass(frozen=True, slots=True)
class GangMinimum:
    """Minimum of a gang, in total and by role."""

    min_pods: int
    minima: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class OwnerTemplate:
    """Facts about an owner from the table, for an owner without pods."""

    gang: str  # owner, pod, or the label that distinguishes its gangs
    below: bool  # True: the object below it counts its pods
    pods: int
    over: WorkloadOutcome | None
    suspension: StatedSuspension | None = None  # None: it isn't suspended
    over_s: float = 0.0  # time of its end, as its conditions state it; 0: unknown
    mark: OwnerSuspension | None = None  # mark that Weir writes when it suspends the object to restart it

    @property
    def restarts(self) -> bool:
        """Return True if Weir has suspended the owner, and will resume it."""
        return self.suspension is not None and self.mark is not None


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """Facts of a gang that is a pod group of `scheduling.k8s.io`."""

    maker: GangKey | None  # the owner of all its pods; None: several owners, or people
    stops_whole: bool = False  # True: its pods are disrupted together or not at all
    differences: str = ""  # sentence: gang settings of the owner that the group overrides


@dataclass(frozen=True, slots=True)
class DerivedWorkload:
    """Facts of the table about the workload of a pod."""

    key: GangKey
    role: str  # role of this pod
    type: WorkloadType
    min_pods: int
    minima: Mapping[str, int] = field(default_factory=dict)  # minimum by role; the sum is at most min_pods
    pods: int | None = None  # number of pods at a time; None: unknown
    total: int | None = None  # number of pods that have to succeed; None: it runs until it is stopped
    done: int = 0  # number of succeeded pods in the owner's status
    over: WorkloadOutcome | None = None
    over_s: float = 0.0  # time of the end, as the owner's conditions state it; 0: unknown
    stated_suspension: StatedSuspension | None = None  # of its owner; None: it isn't suspended
    suspension: OwnerSuspension | None = None
    remedy: str = ""  # setting that keeps the owner from failing when a pod is stopped
    restarts: bool = False  # True: Weir has suspended its owner, and will resume it
    native: GroupMembership | None = None  # pod group that replaces the table's gang

    @property
    def suspended(self) -> bool:
        """True if its owner is suspended."""
        return self.stated_suspension is not None

    def needed(self, min_pods: int | None = None, succeeded: Mapping[str, int] = _NONE) -> GangMinimum:
        """Return the gang's minimum, by people or by the table, less the pods that succeeded."""
        wanted, minima = self.min_pods if min_pods is None else min_pods, self.minima
        if self.total is not None:
            wanted = min(wanted, self.total - max(sum(succeeded.values()), self.done))
            minima = {role: max(0, least - succeeded.get(role, 0)) for role, least in minima.items()}
        return GangMinimum(max(0, wanted), _within(minima, max(0, wanted)))


class WorkloadKinds:
    """Derives the workload of a pod from the table of kinds."""

    def __init__(self, rules: Sequence[KindRule]) -> None:
        self.rules = tuple(rules)
        self._by_kind: dict[tuple[str, str], list[KindRule]] = {}
        for rule in rules:
            self._by_kind.setdefault((rule.group, rule.kind), []).append(rule)

    def knows(self, api_version: str, kind: str) -> bool:
        """Return True if the table has an entry for a kind, in any version of its API."""
        return (group_of(api_version), kind) in self._by_kind

    def telling(self, api_version: str, kind: str) -> tuple[str, ...]:
        """Return the pod labels by which the entries for a kind distinguish roles and gangs."""
        rules = self._by_kind.get((group_of(api_version), kind), ())
        labels = (label for rule in rules for label in (*(rule.role or ()), rule.gang))
        return tuple(label for label in dict.fromkeys(labels) if label not in (BY_OWNER, BY_POD))

    @cached_property
    def role_labels(self) -> tuple[str, ...]:
        """Return the pod labels by which any entry distinguishes roles and gangs."""
        labels = (label for rule in self.rules for label in (*(rule.role or ()), rule.gang))
        return tuple(label for label in dict.fromkeys(labels) if label not in (BY_OWNER, BY_POD))

    @cached_property
    def watched(self) -> tuple[WatchedKind, ...]:
        """Kinds to watch besides pods."""
        by_kind = {}
        for key, rules in self._by_kind.items():
            versions = dict.fromkeys(version for rule in rules for version in rule.api)
            if key != ("", "Pod"):
                by_kind[key] = WatchedKind(tuple(versions), rules[0].kind, rules[0].resource)
        return tuple(by_kind.values())

    @cached_property
    def suspensions(self) -> tuple[OwnerSuspension, ...]:
        """Suspensions in place of evictions, one for each resource."""
        suspensions = filter(None, map(suspension_of, self.rules))
        return tuple(
            {(suspension.group, suspension.resource): suspension for suspension in suspensions}.values()
        )

    @cached_property
    def _selections(self) -> dict[tuple[str, str], FieldSelection]:
        always = (("apiVersion",), ("kind",), _RETRIES_PER_INDEX, MANAGED_BY)
        return {
            key: kept_at([*always, *(path for rule in rules for path in rule.paths())])
            for key, rules in self._by_kind.items()
        }

    def narrow(self, body: Found) -> dict[str, Any]:
        """Return an object with only the fields that the table reads."""
        selection = self._selections.get(
            (group_of(str(body.get("apiVersion", ""))), str(body.get("kind", "")))
        )
        return {} if selection is None else {**selection.cut(body)}

    def derive(
        self, pod: KubePod, owners: Sequence[Found] = (), absent: OwnerReference | None = None
    ) -> DerivedWorkload:
        """Return the workload of a pod.

        `owners` is the chain of its controllers, lowest first, as far as known. `absent` is the topmost
        controller if it doesn't exist.
        """
        chain = [(rule, owner) for owner in owners if (rule := self._rule(owner)) and rule.workload]
        rules = [] if absent is None else self._of_workloads(absent)
        if absent is not None and rules:
            return _of_absent(pod, absent, rules, [rule for rule, _ in chain])
        if not chain:
            reference = pod.metadata.controller
            if reference is not None:
                return _unknown(_key(pod, reference))
            itself = _as_found(pod)
            rule = self._rule(itself)
            if rule is None:
                return _unknown(_key(pod, OwnerReference("v1", "Pod", pod.metadata.name, pod.metadata.uid)))
            chain = [(rule, itself)]
        top, top_owner = chain[-1]
        below = next(((rule, owner) for rule, owner in chain[::-1] if not rule.below), chain[-1])
        return _derived(pod, top, top_owner, *below)

    def _of_workloads(self, owner: OwnerReference) -> list[KindRule]:
        """Return the entries that an object may fit, except those without workloads."""
        rules = self._by_kind.get((group_of(owner.api_version), owner.kind), ())
        return [rule for rule in rules if rule.workload]

    def wants(self, body: Found) -> OwnerTemplate | None:
        """Return the template fields of an object; None if the table reads none of it."""
        rule = self._rule(body)
        if rule is None or not _reads_state(rule):
            return None
        counts, _ = _by_role(rule, body)
        pods, over, mark = sum(counts.values()), _over(rule, body), mark_of(rule, body)
        suspension, over_s = stated_suspension(rule, body), _over_s(rule, body)
        return OwnerTemplate(rule.gang, rule.below, pods, over, suspension, over_s, mark)

    def _rule(self, body: Found) -> KindRule | None:
        """Return the first entry that an object fits; None if none fits."""
        key = (group_of(str(body.get("apiVersion", ""))), str(body.get("kind", "")))
        for rule in self._by_kind.get(key, ()):
            if rule.when is None or rule.when.holds(body):
                return rule
        return None


def load_kinds(custom_kinds: str | None = None, file: str = "kinds") -> WorkloadKinds:
    """Return the built-in table of kinds, with an administrator's own entries before it.

    Raises:
        InvalidFile: with all mistakes in them.
    """
    return WorkloadKinds([*(read_table(custom_kinds, file) if custom_kinds else ()), *built_in()])


def _derived(
    pod: KubePod, top: KindRule, top_owner: Found, rule: KindRule, made_by: Found
) -> DerivedWorkload:
    """Return the workload as described by the topmost owner and by the owner that counts its pods."""
    role = _role(pod, rule.role or ())
    gang = _gang(pod, rule)
    counts, minima = _by_role(rule, made_by)
    if rule.role is not None and rule.gang in rule.role:
        counts, minima = {role: counts.get(role, 1)}, {role: minima.get(role, 1)}
    pods = sum(counts.values())
    least = rule.min.read(made_by) if rule.min is not None else None
    min_pods = sum(minima.values()) if least is None else least
    ends = top.succeeded is not None or rule.gang == BY_POD
    stated = rule.total.read(made_by) if rule.total is not None else None
    total = stated if rule.total is not None else pods if ends else None
    suspension = stated_suspension(top, top_owner) or stated_suspension(rule, made_by)
    return DerivedWorkload(
        key=_key(pod, _reference(top_owner), gang),
        role=role,
        type=top.workload_type,
        min_pods=min_pods,
        minima=_within(minima, min_pods),
        pods=pods,
        total=total,
        done=(rule.done.read(made_by) or 0) if rule.done is not None else 0,
        over=_over(top, top_owner),
        over_s=_over_s(top, top_owner),
        stated_suspension=suspension,
        suspension=usable_suspension(top, top_owner),
        remedy=missing_remedy(top, top_owner),
        restarts=suspension is not None and mark_of(top, top_owner) is not None,
    )


def _of_absent(
    pod: KubePod, owner: OwnerReference, rules: Sequence[KindRule], below: Sequence[KindRule]
) -> DerivedWorkload:
    """Return the workload of a missing owner, by the entries for its kind and for those below it."""
    top = next((rule for rule in rules if rule.when is None), rules[0])
    if top.below:
        rules = [rule for rule in below[::-1] if not rule.below][:1] or rules
    rule = next((rule for rule in rules if rule.when is None), rules[0])
    labels = [label for rule in rules for label in rule.role or ()]
    key = _key(pod, owner, _gang(pod, rule))
    return replace(_unknown(key), role=_role(pod, labels), type=top.workload_type)


def _reads_state(rule: KindRule) -> bool:
    """Return True if an entry reads how many pods an object wants, or whether it has ended."""
    counted = any(part.each is not None or any(part.count.paths()) for part in rule.pods)
    return counted or any((rule.below, rule.succeeded, rule.failed, rule.suspended))


def _by_role(rule: KindRule, body: Found) -> tuple[dict[str, int], dict[str, int]]:
    """Return the number and the minimum of pods by role."""
    counts: dict[str, int] = {}
    minima: dict[str, int] = {}
    if rule.below:  # the object below would count its pods, and doesn't exist
        return {"": 1}, {"": 1}
    for part in rule.pods:
        for role, section in _roles(part, body):
            count = part.count.read(section)
            count = 1 if count is None else count
            least = count if part.min is None else part.min.read(section) or 0
            counts[role] = counts.get(role, 0) + count
            minima[role] = minima.get(role, 0) + min(least, count)
    return counts, minima


def _roles(part: KindPart, body: Found) -> list[tuple[str, Found]]:
    """Return the roles of a part, each with the object that counts its pods."""
    if part.each is None:
        return [(part.role, body)]
    named: list[tuple[str, Found]] = []
    for several in values_at(body, part.each[:-1]):
        if isinstance(several, dict):
            entries = [(str(key), section) for key, section in sorted(several.items())]
        else:
            entries = [("", section) for section in several] if isinstance(several, list) else []
        for key, section in entries:
            if isinstance(section, dict):
                name = one_at(section, part.name) or "" if part.name is not None else key.lower()
                named.append((str(name), section))
    return named


def _role(pod: KubePod, labels: Iterable[str]) -> str:
    return next((pod.metadata.labels[label] for label in labels if label in pod.metadata.labels), "")


def _gang(pod: KubePod, rule: KindRule) -> str:
    if rule.gang == BY_OWNER:
        return ""
    return pod.metadata.name if rule.gang == BY_POD else pod.metadata.labels.get(rule.gang, "")


def _over(rule: KindRule, body: Found) -> WorkloadOutcome | None:
    if rule.succeeded is not None and rule.succeeded.holds(body):
        return WorkloadOutcome.SUCCEEDED
    return WorkloadOutcome.FAILED if rule.failed is not None and rule.failed.holds(body) else None


def _over_s(rule: KindRule, body: Found) -> float:
    """Return since when the condition holds by which an object has ended; 0 if that is unknown."""
    ends = (
        condition
        for condition in (rule.succeeded, rule.failed)
        if condition is not None and condition.holds(body)
    )
    return next((seconds_of(condition.since(body)) for condition in ends), 0.0)


def _within(minima: Mapping[str, int], most: int) -> dict[str, int]:
    """Return minima reduced to a sum of at most `most`; the first roles keep theirs."""
    kept: dict[str, int] = {}
    for role, least in minima.items():
        kept[role] = min(least, most)
        most -= kept[role]
    return kept


def _unknown(key: GangKey) -> DerivedWorkload:
    return DerivedWorkload(key, role="", type=WorkloadType.TRAIN, min_pods=1)


def _key(pod: KubePod, owner: OwnerReference, gang: str = "") -> GangKey:
    return GangKey(pod.metadata.namespace, owner.api_version, owner.kind, owner.name, owner.uid, gang)


def _reference(body: Found) -> OwnerReference:
    metadata = body.get("metadata", {})
    return OwnerReference(
        str(body.get("apiVersion", "")),
        str(body.get("kind", "")),
        str(metadata.get("name", "")),
        str(metadata.get("uid", "")),
    )


def _as_found(pod: KubePod) -> Found:
    """Return a pod without an owner as an object, in the form in which owners are read."""
    metadata = {"name": pod.metadata.name, "uid": pod.metadata.uid, "labels": pod.metadata.labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": pod.status.phase}}
