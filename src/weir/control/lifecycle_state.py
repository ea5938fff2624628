"""Lifecycle state that control keeps of an unfinished workload."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import ge

from weir.control.idle_ladder import IdleTracker
from weir.control.port import LifecycleCause, PodExited, WorkloadProgress
from weir.control.time_limits import LimitTracker
from weir.model.reasons import ReasonCode
from weir.state.events import PodKey
from weir.state.jobs import Job


class SuspendReason(StrEnum):
    """Reasons for which a workload may not be started."""

    FAILING = "its other pods are being stopped after one failed"
    PAUSE = "it failed and is tried again after a pause"
    FINISHING = "some of its pods are done"
    ENDING = "it is being ended"
    SUSPENDED = "it is suspended"
    GATED = "its pods aren't ready to be started"
    BEGIN_TIME = "it begins later"
    DEPENDENCY = "it waits for another workload"
    FAULT = "the scheduler failed on this workload"


REASONS = {
    SuspendReason.BEGIN_TIME: ReasonCode.BEGIN_TIME,
    SuspendReason.DEPENDENCY: ReasonCode.DEPENDENCY,
    SuspendReason.PAUSE: ReasonCode.RETRYING,
}
"""Reason codes of suspensions that have a code of their own, instead of `suspended`."""


@dataclass(slots=True, eq=False)
class LifecycleState:
    """State of one workload. `alive` are pods whose last start, in `start_of`, hasn't ended."""

    starts: int = 0
    settled: int = 0
    failures: int = 0
    losses: int = 0  # consecutive short runs that ended by a loss
    lost: bool = False  # True if a pod of the present run was lost
    lost_why: str = ""  # sentence of the last loss
    pod_losses: int = 0  # consecutive losses of pods beside others that run on
    pod_lost_start: int = 0  # last start before the last of those losses
    pod_again_s: float = float("-inf")  # time from which the last of those may start again
    restarts: int = 0
    start_of: dict[PodKey, int] = field(default_factory=dict)
    alive: set[PodKey] = field(default_factory=set)
    done: set[PodKey] = field(default_factory=set)
    # Pods under eviction: if it is refused, they stop too
    stop_anyway: dict[PodKey, LifecycleCause] = field(default_factory=dict)
    # By reason: a sentence, and the time of the end
    holds: dict[SuspendReason, tuple[str, float | None]] = field(default_factory=dict)
    ending: LifecycleCause | None = None
    failed: str = ""  # sentence of its last failure
    exit_code: int | None = None  # exit code of the first pod that failed in its last failure
    final: bool = False  # another run would fail the same way
    wall_s: float = 0.0  # wall time of its ended runs
    first_started_s: float | None = None
    watch: LimitTracker = field(default_factory=LimitTracker)
    idle: IdleTracker = field(default_factory=IdleTracker)

    def restore(self, status: WorkloadProgress) -> None:
        """Restore the progress that a backend stored."""
        self.starts = max(self.starts, status.starts)
        self.settled, self.failures, self.restarts = status.settled, status.failures, status.restarts
        self.wall_s, self.first_started_s = status.wall_s, status.first_started_s
        self.idle.restore(status.idle)

    def status(self, ran_s: float, retry_at_s: float | None) -> WorkloadProgress:
        """Return the progress that a backend stores."""
        return WorkloadProgress(
            starts=self.starts,
            settled=self.settled,
            failures=self.failures,
            ran_s=ran_s,
            retry_at_s=retry_at_s,
            restarts=self.restarts,
            wall_s=self.wall_s,
            first_started_s=self.first_started_s,
            idle=self.idle.progress,
        )

    def begun(self, started_s: float | None) -> None:
        """Record when its first run began."""
        if self.first_started_s is None:
            self.first_started_s = started_s

    def run_over(self, at_s: float) -> None:
        """End its current run, and add its wall time; a second call changes nothing."""
        if self.starts > self.settled and self.watch.started_s is not None:
            self.wall_s += max(0.0, at_s - self.watch.started_s)
        self.settled, self.pod_losses = self.starts, 0

    def note_loss(self, why: str, *, progressed: bool) -> None:
        """Record the loss of a pod. After a run with a checkpoint, pauses begin with the first one again."""
        self.lost, self.lost_why = True, why
        if progressed:
            self.losses = min(self.losses, 1)

    def count_losses(self, at_s: float, short_s: float) -> int:
        """Return the number of lost runs in a row; a long run resets the count."""
        began_s = self.watch.started_s
        lasted = began_s is not None and at_s - began_s >= short_s
        self.losses = (1 if lasted else self.losses + 1) if self.lost else 0
        self.lost = False
        return self.losses

    def count_pod_losses(self, start: int, at_s: float, short_s: float) -> int:
        """Return the number of pod losses in a row while other pods run; a long time without any resets it.

        Pods that ran at the time of the last loss belong to that loss and don't count again.
        """
        if start <= self.pod_lost_start:
            return 0
        self.pod_losses = 1 if at_s - self.pod_again_s >= short_s else self.pod_losses + 1
        self.pod_lost_start, self.pod_again_s = self.starts, at_s
        return self.pod_losses

    def note_failure(self, exited: PodExited, *, first: bool) -> None:
        """Record the exit of the pod that failed first, and whether a retry is useless."""
        if first:
            self.exit_code, self.final = exited.code, exited.final
        else:
            self.final = self.final or exited.final

    def is_done(self, needed: Sequence[int]) -> bool:
        """Return True if as many pods of each group are done as the gang needs."""
        done = [0] * len(needed)
        for pod in self.done:
            done[pod.group] += 1
        return all(map(ge, done, needed))

    def keep(self, counts: Sequence[int]) -> None:
        """Drop pods beyond these counts of each group."""
        gone = [pod for pod in self.start_of if pod.group >= len(counts) or pod.index >= counts[pod.group]]
        for pod in gone:
            del self.start_of[pod]
            self.alive.discard(pod)
            self.done.discard(pod)
            self.stop_anyway.pop(pod, None)


def kept_runtime_s(job: Job) -> float:
    """Return the run time that a workload keeps if it stops now: up to its last checkpoint."""
    if job.started_s is None or job.saved_s is None:
        return job.ran_s
    return job.ran_s + (job.saved_s - job.started_s)
