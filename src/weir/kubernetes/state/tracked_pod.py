"""A pod that is to be placed by us, and its fellows that ask for the same."""

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.state.pod_info import PodInfo, seconds_of
from weir.kubernetes.translate.annotations import PREFIX
from weir.model.workloads import Request

if TYPE_CHECKING:
    from weir.kubernetes.state.gangs import Gang

GPUS_KEY, START_KEY = f"{PREFIX}gpus", f"{PREFIX}start"
"""Annotations written with a binding: the devices, and the number of the start."""


class AllocationOrigin(Enum):
    """Source of an allocation: Weir's own decision or record, the annotation of a binding, the pod itself."""

    WEIR = "weir"
    ANNOTATION = "annotation"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class PodAllocation:
    """Node, devices and start number of a bound pod; start 0 if it isn't known."""

    node: str
    devices: tuple[int, ...]
    start: int


class TrackedPod:
    """A pod that is to be placed by us. Where it is holds once it is bound, or assumed to be."""

    __slots__ = (
        "assumed",
        "at_s",
        "back_at_s",
        "back_s",
        "bound",
        "claimed",
        "created_s",
        "deleting",
        "devices",
        "doubted_s",
        "evicted",
        "gang",
        "group",
        "index",
        "info",
        "key",
        "name",
        "node",
        "origin",
        "over",
        "phase",
        "ready",
        "settled",
        "start",
        "told",
        "told_stopping",
        "uid",
        "unreadable",
        "written_start",
    )

    def __init__(self, key: str, uid: str, name: str, created_s: float) -> None:
        self.key = key
        self.uid = uid
        self.name = name
        self.created_s = created_s
        self.phase = "Pending"
        self.ready = False
        self.over = ""  # how it ended, once it has
        self.deleting = False
        self.bound = False  # the API says so
        self.assumed = False  # we have said so
        self.evicted = False  # we have asked for it
        self.node = ""
        self.devices: tuple[int, ...] = ()
        self.claimed: PodAllocation | None = None  # by its annotations, when it was first seen bound
        self.settled = False  # its devices and its start hold
        self.origin: AllocationOrigin | None = None  # of its devices
        self.unreadable = ""  # why it can't be read
        self.start = 0
        self.written_start = (
            0  # the start that is written with its binding; control may know it by another since
        )
        self.at_s = 0.0
        self.told = 0  # the start that control takes to be alive
        self.told_stopping = False
        self.doubted_s = 0.0  # when it is taken not to have been bound, if nobody knows
        self.back_s = 0.0  # how long it was kept back last, and until when
        self.back_at_s = 0.0
        self.info: PodInfo | None = None
        self.gang: Gang | None = None
        self.group = self.index = -1

    @property
    def holds(self) -> bool:
        """True if it has a node."""
        return self.bound or self.assumed

    @property
    def stopping(self) -> bool:
        """True if it is leaving its node."""
        return self.deleting or self.evicted

    @property
    def wait(self) -> str:
        """Sentence why it isn't ready to be placed; empty if it is."""
        if self.deleting:
            return "It is being deleted."
        if self.back_at_s:
            return "Its last binding was refused, and it is tried again in a moment."
        return "" if self.info is None else self.info.wait


@dataclass(slots=True)
class PodGroupSlots:
    """Pods that are alike. Slots without a pod are None."""

    role: str
    request: Request
    slots: list[TrackedPod | None] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True if it has no pod."""
        return not any(self.slots)


def is_ready(pod: KubePod) -> bool:
    """Return True if the pod's condition Ready is true."""
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def placed_s(pod: KubePod) -> float:
    """Since when a pod has had its place, if it says so."""
    at = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    return seconds_of(at.last_transition_time) if at is not None and at.status == "True" else 0.0


def scheduled_s(pod: KubePod) -> float:
    """Since when a pod must have had its place."""
    return placed_s(pod) or seconds_of(pod.status.start_time or pod.metadata.creation_timestamp)
