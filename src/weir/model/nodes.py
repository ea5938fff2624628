"""Nodes and their devices, as facts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
DRAINED = "weir/drained"
"""Key of the taint of a drained node. No toleration covers it."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint: pods that don't tolerate it avoid the node."""

    key: str
    value: str = ""
    effect: Effect = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of taints; an empty key with Exists tolerates everything."""

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Effect | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Return True if this toleration covers `taint`, by the rules of Kubernetes."""
        if taint.key == DRAINED or (self.effect is not None and self.effect != taint.effect):
            return False
        if self.key == "":
            return self.operator == "Exists"
        if self.key != taint.key:
            return False
        return self.operator == "Exists" or self.value == taint.value


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which a node, or devices of it, are out of service. Times in seconds of the timeline.

    `devices` are None for the whole node, `until_s` is None without an end. `sentence` tells people the time
    and the reason: `maintenance from 2026-12-01 18:00 UTC (new disks)`. With `keeps_running`, work that
    runs at the beginning runs on until it ends.
    """

    from_s: float
    until_s: float | None = None
    devices: tuple[int, ...] | None = None
    sentence: str = "maintenance"
    keeps_running: bool = False

    def is_over(self, at_s: float) -> bool:
        """Return True if the outage has ended."""
        return self.until_s is not None and self.until_s <= at_s

    def covers(self, devices: Iterable[int]) -> bool:
        """Return True if a pod with these devices of the node uses a part that is out of service."""
        return self.devices is None or not set(self.devices).isdisjoint(devices)


@dataclass(frozen=True, slots=True)
class Node:
    """A node.

    `capacity` holds every countable resource but the devices: `cpu` in thousandths of a core,
    `memory` in bytes, `pods` and any further one in units. `links` lists sets of device indices
    that are close to one another, in any order. A pod's devices come from the smallest set that
    holds them. `foreign_devices` are devices in use by pods that Weir doesn't schedule, and
    `foreign_marks` counts these pods by label set. `capacity` is without their other resources.
    `outages` are present and future times out of service.
    """

    name: str
    gpus: int
    gpu_memory: int  # bytes of each device
    capacity: Mapping[str, int]
    gpu_model: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    links: tuple[tuple[int, ...], ...] = ()
    foreign_devices: tuple[int, ...] = ()
    foreign_marks: Mapping[str, int] = field(default_factory=dict)
    gpu_weight_milli: int = 1000  # thousandths of a GPU that each device counts as in quotas
    outages: tuple[Outage, ...] = ()

    @property
    def own_gpus(self) -> int:
        """Return the number of devices that Weir may use."""
        return self.gpus - len(self.foreign_devices)


@dataclass(frozen=True, slots=True)
class Topology:
    """An ordered list of node labels, coarse to fine."""

    name: str
    levels: tuple[str, ...]
