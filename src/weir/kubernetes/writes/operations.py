"""Operations on the API server, and their outcomes.

`about` belongs to the requester of the write: it comes back with the outcome, untouched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, Literal

from weir.kubernetes.api.client import Patch
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.claims.extended_resources import SpecialClaim
from weir.kubernetes.translate.owner_suspensions import RESTARTS


class Urgency(IntEnum):
    """Order of operations that can't all be sent at once."""

    PODS = 0  # placements and evictions, which people wait for
    OBJECTS = 1
    STATUSES = 2


@dataclass(frozen=True, slots=True)
class EventSubject:
    """The object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """An event for people to read. It may be dropped if there are too many.

    Events about pending work (`waits`) are sent before all others.
    """

    regarding: EventSubject
    reason: str  # one word in camel case, such as "Scheduled"
    note: str
    action: str = "Scheduling"
    type: Literal["Normal", "Warning"] = "Normal"
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Preparation:
    """A merge patch of another object, to be sent before a pod is bound."""

    path: str
    patch: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class AllocateClaim:
    """Devices of a resource claim, to be written before its pod is bound; None: the claim has devices.

    The special claim for the pod's extended resources is created if it doesn't exist.
    """

    path: str
    uid: str
    pod_name: str
    pod_uid: str
    allocation: Mapping[str, object] | None = None
    special: SpecialClaim | None = None

    @property
    def pod_path(self) -> str:
        """Return the path of the pod, which is in the namespace of its claim."""
        return path_of("v1", "pods", self.path.split("/")[-3], self.pod_name)


@dataclass(frozen=True, slots=True)
class PodCondition:
    """A condition of a pod that is true."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _OfPod:
    """Operation on one pod by its uid, without effect on another pod of the name."""

    urgency: ClassVar[Urgency] = Urgency.PODS

    namespace: str
    name: str
    uid: str

    @property
    def object_path(self) -> str:
        """Return the path of the object that is written to."""
        return path_of("v1", "pods", self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Bind(_OfPod):
    """Bind a pod to a node; its annotations are written in the same request."""

    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    about: object = None
    # Writes before the binding; a refusal of one refuses the binding
    before: tuple[Preparation | AllocateClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class Evict(_OfPod):
    """Stop a pod, as far as its disruption budget allows.

    The event `because` is sent before the eviction, or after it if there are many.

    With `insists` the eviction is tried until the budget allows it; otherwise the first refusal ends it. With
    `overrides` the pod is deleted if its budget refuses. `needed_by` is the workload that needs the capacity.
    """

    grace_s: int | None = None  # None: the pod's own grace period
    because: EmitEvent | None = None
    about: object = None
    ends: PodCondition | None = None  # condition written first, so that the owner makes no replacement
    insists: bool = False
    overrides: bool = False
    needed_by: str = ""


@dataclass(frozen=True, slots=True)
class _OfPath:
    """Operation on the object, or the collection, at a path."""

    path: str

    @property
    def object_path(self) -> str:
        """Return the path of the object that is written to."""
        return self.path

    @property
    def urgency(self) -> Urgency:
        """Return its urgency."""
        return Urgency.OBJECTS


@dataclass(frozen=True, slots=True)
class UpsertWorkload(_OfPath):
    """Create or change an object; fields that the body doesn't name stay as they are."""

    name: str
    body: Mapping[str, object]
    exists: bool = False  # True: the object is known to exist
    about: object = None

    @property
    def object_path(self) -> str:
        """Return the path of the object that is written to."""
        return f"{self.path}/{self.name}"


@dataclass(frozen=True, slots=True)
class PatchStatus(_OfPath):
    """Change an object's status. Queued changes are merged, field by field; a list is one field.

    A status `inside` the object, not in a subresource, is merged with an `UpsertWorkload`, too. A change with
    `until_bound` is valid only for a pending pod: it is dropped once the pod is bound.
    """

    patch: Mapping[str, object]  # {"status": {...}}
    kind: Patch = Patch.MERGE
    urgent: bool = False
    about: object = None
    inside: bool = False
    until_bound: bool = False

    @property
    def urgency(self) -> Urgency:
        """Return its urgency."""
        return Urgency.OBJECTS if self.urgent else Urgency.STATUSES


@dataclass(frozen=True, slots=True)
class PatchObject(_OfPath):
    """Change an object. A patch that names a version is without effect if the object has changed since."""

    patch: Mapping[str, object]  # {"metadata": {"resourceVersion": ..., ...}, ...}
    about: object = None


@dataclass(frozen=True, slots=True)
class SuspendOwner(_OfPath):
    """Suspend the owner of a workload, or resume it; another object of its name is left alone.

    With a scheduler, the suspension marks the owner, and the resumption removes the mark. A copy of the owner
    has another uid, so its mark says nothing. `needed_by` needs its capacity.
    """

    uid: str
    about: object = None
    field: tuple[str, ...] = ("spec", "suspend")
    suspends: bool = True
    scheduler: str = ""
    needed_by: str = ""

    @property
    def restarts(self) -> bool:
        """Return True if the owner is suspended in place of evictions, or resumed after that."""
        return bool(self.scheduler)

    @property
    def patch(self) -> Mapping[str, object]:
        """Return the merge patch."""
        value: object = self.suspends
        for key in self.field[:0:-1]:
            value = {key: value}
        mark = f"{self.uid} {self.scheduler}" if self.suspends else None
        annotations = {"annotations": {RESTARTS: mark}} if self.restarts else {}
        return {"metadata": {"uid": self.uid, **annotations}, self.field[0]: value}

    @property
    def urgency(self) -> Urgency:
        """Return its urgency: it stops pods."""
        return Urgency.PODS


@dataclass(frozen=True, slots=True)
class ApplyObject(_OfPath):
    """Apply fields of an object, and remove fields that Weir applied before and that aren't given now."""

    body: Mapping[str, object]
    about: object = None


Write = Bind | Evict | SuspendOwner | UpsertWorkload | PatchStatus | PatchObject | ApplyObject


# Outcomes of a write: exactly one of these. Any number of `WriteDelayed` may come before


@dataclass(frozen=True, slots=True)
class WriteDone:
    """The write was applied. For an eviction, the pod stops or is gone."""


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """The API server refused the write for good."""

    status: int
    sentence: str


@dataclass(frozen=True, slots=True)
class WriteUnknown:
    """The outcome of the write is unknown; the watches will show it."""

    sentence: str


@dataclass(frozen=True, slots=True)
class WriteNotSent:
    """The write wasn't sent: the last check refused it, or this replica no longer leads."""

    sentence: str


@dataclass(frozen=True, slots=True)
class WriteSuperseded:
    """A status that a later one has swallowed."""


@dataclass(frozen=True, slots=True)
class WriteDelayed:
    """A disruption budget allows no eviction, or devices are being prepared. It is tried again and again."""

    sentence: str


Outcome = WriteDone | WriteRefused | WriteUnknown | WriteNotSent | WriteSuperseded | WriteDelayed


def merged(earlier: Mapping[str, object], later: Mapping[str, object]) -> dict[str, object]:
    """Return one merge patch with the effect of two after one another."""
    both = dict(earlier)
    for key, value in later.items():
        before = both.get(key)
        both[key] = (
            merged(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
        )
    return both


def stated(patch: Mapping[str, object]) -> dict[str, object]:
    """Return the object that results from a merge patch of an empty object: the patch without its nulls."""
    return {
        key: stated(value) if isinstance(value, Mapping) else value
        for key, value in patch.items()
        if value is not None
    }


def is_of_leaving(refusal: WriteRefused) -> bool:
    """Return True if the object is gone, is another one, or its namespace is being deleted."""
    return refusal.status in (404, 409) or (
        refusal.status == 403 and refusal.sentence.endswith("because it is being terminated")
    )
