"""The workloads the backend knows, and those starts of their pods that aren't over."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from weir.control.journal import LaunchSpec
from weir.control.port import ReleaseNomination, ReserveNomination
from weir.local.cgroups import Words
from weir.local.environment import GangRank, PortPool
from weir.model.workloads import Workload
from weir.state.events import Nominated, Placement, PodKey


@dataclass(frozen=True, slots=True)
class PodSnapshot:
    """Return the entry of a start for `LocalBackend.pods`."""

    place: Placement
    uid: int
    start: int
    directory: str
    at_s: float
    since_s: float | None
    stopping: bool


@dataclass(slots=True, eq=False)
class RunningPod:
    """One start of a pod that isn't over."""

    place: Placement
    uid: int
    start: int
    directory: str
    at_s: float  # when it was ordered
    seat: GangRank
    groups: Sequence[Words] = ()
    boot_s: float = 0.0  # what the boot clock read at `at_s`; 0: it isn't known
    boot: str = ""  # names the boot of the machine
    process: int = -1  # of its supervisor; -1 until the nursery has answered
    since_s: float | None = None  # since when its supervisor is known to be there
    stopping: bool = False
    masked_looks: int = 0  # how often its lock was held, and not by the supervisor that signed it
    noted: int = 0  # how much of its notes was read
    noted_at_s: float = -1.0  # when that was, on the monotonic clock
    notes_due: bool = False  # they are read again in a moment
    complained: bool = False  # it was said that its notes can't be read

    def now(self) -> PodSnapshot:
        """Return an immutable copy for other readers."""
        return PodSnapshot(
            self.place, self.uid, self.start, self.directory, self.at_s, self.since_s, self.stopping
        )


@dataclass(slots=True, eq=False)
class LocalWorkload:
    """A workload that isn't over."""

    workload: Workload
    launch: LaunchSpec
    promised: Nominated | None = None
    starts_of: dict[PodKey, int] = field(default_factory=dict)  # how often each pod was started
    seats: dict[PodKey, GangRank] = field(default_factory=dict)  # of pods that run
    port: int = 0

    def sit(self, pods: list[PodKey], ports: PortPool) -> dict[PodKey, GangRank]:
        """Places in the gang for pods that start together, beside those that run already."""
        if not self.seats:
            self.port = ports.take()
        taken = {seat.rank for pod, seat in self.seats.items() if pod not in pods}
        world = len(taken) + len(pods)
        ranks = (rank for rank in range(len(taken) + len(pods)) if rank not in taken)
        for pod, rank in zip(sorted(pods), ranks, strict=False):
            self.seats[pod] = GangRank(rank, world, self.port)
        return {pod: self.seats[pod] for pod in pods}

    def sits(self, pod: PodKey, seat: GangRank, ports: PortPool) -> None:
        """A pod that was found has this place."""
        self.seats[pod] = seat
        self.port = seat.port
        if seat.port:
            ports.used.add(seat.port)

    def stands(self, pod: PodKey, ports: PortPool) -> None:
        """A pod is over; the last one gives the port back."""
        if self.seats.pop(pod, None) is not None and not self.seats:
            ports.give_back(self.port)
            self.port = 0

    def placed(self, pod: PodKey) -> ReserveNomination | ReleaseNomination | None:
        """A pod starts: the room kept for it is its own now. What is to be remembered of that."""
        if self.promised is None:
            return None
        old = self.promised
        rest = tuple(place for place in old.places if place.pod != pod)
        if len(rest) == len(old.places):
            return None
        self.promised = Nominated(old.workload, rest, old.at_s, old.freed_by) if rest else None
        return (
            ReserveNomination(self.promised) if self.promised is not None else ReleaseNomination(old.workload)
        )
