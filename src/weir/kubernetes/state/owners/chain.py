"""The owners above a pod, as far as they are known, and the workload fields of the pods below them.

The fields are computed once for all pods of one owner with the same labels and annotations. So a workload of
a thousand pods is read as fast as one pod.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from weir.kubernetes.api.objects import KubePod, Metadata, OwnerReference
from weir.kubernetes.state.owners.stated import StatedOwner
from weir.kubernetes.translate import annotations
from weir.kubernetes.translate.annotations import PREFIX, WRITTEN_BY_WEIR, Annotations, means_something
from weir.kubernetes.translate.kinds import DerivedWorkload, WorkloadKinds

Body = Mapping[str, Any]
Words = tuple[tuple[tuple[str, str], ...], tuple[str | None, ...]]
_OURS = frozenset(f"{PREFIX}{name}" for name in WRITTEN_BY_WEIR)


class TrackedOwner:
    """An object that makes pods."""

    __slots__ = ("above", "body", "metadata")

    def __init__(self, body: Body) -> None:
        self.body = body
        self.metadata = msgspec.convert(body["metadata"], Metadata)
        self.above = self.metadata.controller

    def is_in(self, namespace: str) -> bool:
        """Return True if the owner may own objects of a namespace: its own, or any if it has none."""
        return self.metadata.namespace in ("", namespace)


@dataclass(slots=True, eq=False)
class OwnerChain:
    """The owners above a pod, lowest first, as far as they are known."""

    uids: tuple[str, ...] = ()
    pod_owners: Sequence[TrackedOwner] = ()
    missing: OwnerReference | None = None  # the first owner that should exist and wasn't found
    absent: OwnerReference | None = None  # the topmost owner, if it doesn't exist
    stated: StatedOwner | None = None  # the topmost owner in the pods' references, if one is missing
    telling: Sequence[str] = ()  # pod labels that the table of kinds reads for these owners
    readings: dict[tuple[object, ...], Any] = field(default_factory=dict)  # cached translations of its pods
    _annotations: dict[tuple[tuple[str, str], ...], tuple[Annotations, tuple[str, ...]]] = field(
        default_factory=dict
    )
    _derived: dict[tuple[str | None, ...], DerivedWorkload] = field(default_factory=dict)

    def words(self, pod: Metadata) -> Words:
        """Return the labels and annotations of a pod that affect its workload."""
        labels = pod.labels
        return meaningful(pod), tuple([labels.get(label) for label in self.telling])

    def annotations(self, pod: Metadata) -> tuple[Annotations, tuple[str, ...]]:
        """Return the annotations of the pod and its owners, and their mistakes."""
        words = meaningful(pod)
        cached = self._annotations.get(words)
        if cached is None:
            cached = self._annotations[words] = annotations.read(
                pod, [pod_owner.metadata for pod_owner in self.pod_owners]
            )
        return cached

    def derived(self, pod: KubePod, kinds: WorkloadKinds) -> DerivedWorkload:
        """Return the workload by the table of kinds."""
        words = tuple([pod.metadata.labels.get(label) for label in self.telling])
        derived = self._derived.get(words)
        if derived is None:
            derived = kinds.derive(pod, [pod_owner.body for pod_owner in self.pod_owners], self.absent)
            stated = self.stated
            if stated is not None and stated.uid == derived.key.uid:
                derived = replace(derived, key=replace(derived.key, gang=stated.gang), role=stated.role)
            if self.pod_owners and derived.key.gang != pod.metadata.name:
                self._derived[words] = derived
        return derived

    def created(self, uid: str) -> str | None:
        """Return the creation time of one of the owners; None if it isn't in the chain."""
        return next(
            (
                pod_owner.metadata.creation_timestamp
                for pod_owner in self.pod_owners
                if pod_owner.metadata.uid == uid
            ),
            None,
        )


class _NoOwner(OwnerChain):
    """Chain of a pod without an owner; the pod's annotations aren't cached."""

    def annotations(self, pod: Metadata) -> tuple[Annotations, tuple[str, ...]]:
        """Return the annotations of the pod, and their mistakes."""
        return annotations.read(pod)


NO_OWNER = _NoOwner()


def meaningful(pod: Metadata) -> tuple[tuple[str, str], ...]:
    """Return the labels and annotations of a pod that Weir reads."""
    if not pod.annotations and not pod.labels:
        return ()
    return tuple(
        [
            pair
            for written in (pod.labels, pod.annotations)
            for pair in written.items()
            if means_something(pair[0]) and pair[0] not in _OURS
        ]
    )
