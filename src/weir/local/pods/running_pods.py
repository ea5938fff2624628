"""The workloads that the backend knows, and the running starts of their pods."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from weir.control.journal import LaunchSpec, WorkloadRecord
from weir.control.port import ReleaseNomination, ReserveNomination
from weir.local.cgroups import Words
from weir.local.machine.environment import GangRank, PortPool
from weir.model.workloads import Workload
from weir.state.events import Nominated, Placement, PodKey


@dataclass(slots=True, eq=False)
class RunningPod:
    """A start of a pod that isn't over."""

    place: Placement
    uid: int
    start: int
    directory: str
    at_s: float  # time of the start's request
    gang_rank: GangRank
    groups: Sequence[Words] = ()
    boot_s: float = 0.0  # boot clock at `at_s`; 0: unknown
    boot: str = ""  # id of the machine's boot
    process: int = -1  # pid of its supervisor; -1 until the node process has answered
    since_s: float | None = None  # time since which its supervisor is known to run
    stopping: bool = False
    locked_checks: int = 0  # consecutive checks at which another process had the lock
    noted: int = 0  # position in its messages
    noted_at_s: float = -1.0  # monotonic time of the last read of messages
    notes_due: bool = False  # True: a read of messages is scheduled
    complained: bool = False  # True: unreadable messages were reported
    fetches: bool = False  # True: the pull of its image was reported


@dataclass(slots=True, eq=False)
class LocalWorkload:
    """Keeps the ranks, the port and the nomination of a workload until it is over."""

    workload: Workload
    launch: LaunchSpec
    nomination: Nominated | None = None
    starts_of: dict[PodKey, int] = field(default_factory=dict)  # number of starts by pod
    ranks: dict[PodKey, GangRank] = field(default_factory=dict)  # ranks of running pods
    port: int = 0

    def take_over(self, record: WorkloadRecord) -> bool:
        """Apply changes of this workload; return False if the record is another workload's."""
        if record.launch.uid != self.launch.uid:
            return False
        self.workload, self.launch = record.workload, record.launch
        return True

    def assign_ranks(self, pods: list[PodKey], ports: PortPool) -> dict[PodKey, GangRank]:
        """Assign gang ranks to pods that start together, beside those that run already."""
        if not self.ranks:
            self.port = ports.take()
        taken = {gang_rank.rank for pod, gang_rank in self.ranks.items() if pod not in pods}
        world = len(taken) + len(pods)
        ranks = (rank for rank in range(len(taken) + len(pods)) if rank not in taken)
        for pod, rank in zip(sorted(pods), ranks, strict=False):
            self.ranks[pod] = GangRank(rank, world, self.port)
        return {pod: self.ranks[pod] for pod in pods}

    def restore_rank(self, pod: PodKey, gang_rank: GangRank, ports: PortPool) -> None:
        """Restore the gang rank of a recovered pod."""
        self.ranks[pod] = gang_rank
        self.port = gang_rank.port
        if gang_rank.port:
            ports.used.add(gang_rank.port)

    def release_rank(self, pod: PodKey, ports: PortPool) -> None:
        """Release the rank of a pod that is over; the last pod of the gang releases the port."""
        if self.ranks.pop(pod, None) is not None and not self.ranks:
            ports.give_back(self.port)
            self.port = 0

    def use_nomination(self, pod: PodKey) -> ReserveNomination | ReleaseNomination | None:
        """Use the nominated place of a pod that starts; return the effect that stores the other places.

        The answer is None if it used none.
        """
        if self.nomination is None:
            return None
        old = self.nomination
        rest = tuple(place for place in old.places if place.pod != pod)
        if len(rest) == len(old.places):
            return None
        self.nomination = Nominated(old.workload, rest, old.at_s, old.freed_by) if rest else None
        return (
            ReserveNomination(self.nomination)
            if self.nomination is not None
            else ReleaseNomination(old.workload)
        )
