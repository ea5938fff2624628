"""Running sums of one node's, device's or project's usage between two samples."""

from dataclasses import dataclass

from weir.model.activity import Activity

MILLI = 1000.0
STATES = (Activity.WORKING, Activity.STARVED, Activity.PARKED, Activity.LEFT)
"""States whose time is summed up, in the order of the sums."""


Group = tuple[str, str, str, str]
"""Project, department, user, type."""


@dataclass(slots=True, eq=False)
class ProjectCounter:
    """Usage of a project, and the time that each preemptible thousandth of a device was over quota."""

    since_s: float
    milli: int = 0
    preemptible_milli: int = 0
    over_s: float = 0.0

    def advance(self, at_s: float, quota: int) -> None:
        """Add the usage up to this time."""
        passed_s = at_s - self.since_s
        if passed_s <= 0:
            return
        self.since_s = at_s
        if self.preemptible_milli:
            over = min(max(0, self.milli - quota), self.preemptible_milli)
            self.over_s += passed_s * over / self.preemptible_milli


@dataclass(slots=True, eq=False)
class MeteredWorkload:
    """A workload that isn't over."""

    uid: int | None
    group: Group
    preemptible: bool
    pods: int = 0
    inactive: bool = False  # True: suspended or ended
    waits: bool = False
    preempted: bool = False  # True: its present run was preempted


class NodeCounter:
    """Usage of a workload on one node. Sums in thousandths of a device, times seconds."""

    __slots__ = (
        *("allocated", "mark_s", "milli", "node", "over", "preempted", "seen"),
        *("seen_s", "since_s", "states", "used", "workload"),
    )

    def __init__(self, workload: MeteredWorkload, node: str, at_s: float) -> None:
        self.workload = workload
        self.node = node
        self.milli = 0
        self.since_s = self.seen_s = at_s
        self.mark_s = 0.0  # `over_s` of its project at `since_s`
        self.clear()

    def clear(self) -> None:
        """Begin a new sample."""
        self.allocated = self.seen = self.used = self.over = 0.0
        self.states: dict[Activity, float] = {}
        self.preempted = 0

    def advance(self, at_s: float, over_s: float) -> None:
        """Add the usage up to this time."""
        if at_s > self.since_s:
            self.allocated += self.milli * (at_s - self.since_s)
            self.since_s = at_s
        if self.workload.preemptible:
            self.over += self.milli * (over_s - self.mark_s)
        self.mark_s = over_s


class DeviceCounter:
    """Sums up the usage of one device between two samples."""

    __slots__ = ("allocated", "memory_max", "milli", "seen", "seen_s", "since_s", "used")

    def __init__(self, at_s: float) -> None:
        self.milli = 0.0
        self.since_s = self.seen_s = at_s
        self.clear()

    def clear(self) -> None:
        """Begin a new sample."""
        self.allocated = self.seen = self.used = 0.0
        self.memory_max = 0

    def advance(self, at_s: float) -> None:
        """Add the usage up to this time."""
        if at_s > self.since_s:
            self.allocated += self.milli * (at_s - self.since_s)
            self.since_s = at_s


@dataclass(slots=True, eq=False)
class PendingTimer:
    """Number of pending workloads of a group, and their total pending time."""

    since_s: float
    count: int = 0
    waited_s: float = 0.0

    def advance(self, at_s: float) -> None:
        """Add the usage up to this time."""
        if at_s > self.since_s:
            self.waited_s += self.count * (at_s - self.since_s)
            self.since_s = at_s
