"""Activity of a workload's devices, processes and users, in one word."""

from dataclasses import dataclass
from enum import StrEnum


class Activity(StrEnum):
    """States of a running workload that holds devices."""

    WORKING = "working"  # its GPUs compute
    STARVED = "starved"  # its GPUs are quiet, but its processors, disks, network or users are busy
    PARKED = "parked"  # it holds devices, and nothing moves
    LEFT = "left"  # parked, and a build workload without keys, kernels or connections
    UNKNOWN = "unknown"  # the use of its devices can't be measured


IDLE = frozenset((Activity.PARKED, Activity.LEFT))
"""States in which a workload is idle."""


class Signal(StrEnum):
    """Signs of life of a workload whose GPUs are quiet."""

    CPU = "cpu"
    DISK = "disk"
    NETWORK = "network"
    BLOCKED = "blocked"  # a process waits for a device or a file server
    USER = "user"  # keys, kernels or connections


@dataclass(frozen=True, slots=True)
class Interaction:
    """Last sign of a person in a workload: keys, a command, a request. None: none was seen.

    `open` is the number of connections at present: terminals, SSH sessions, kernels that run.
    """

    last_s: float | None = None
    open: int = 0


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """Use of one device by a workload, 0 to 1; None: it can't be measured. `name` says which it is.

    A low use is no sign of an idle workload if `is_evidence` is False: other measurements are missing.
    """

    name: str
    use: float | None
    is_evidence: bool = True


@dataclass(frozen=True, slots=True)
class ActivitySample:
    """Measurement of a workload over the time since the sample before; None: not measured.

    `cores` is processor time per second, `disk` and `network` are bytes per second, `blocked` is the number
    of processes in uninterruptible wait.
    """

    at_s: float
    devices: tuple[DeviceUse, ...]
    cores: float | None = None
    disk: float | None = None
    network: float | None = None
    blocked: int = 0
    interaction: Interaction | None = None
