"""What control remembers of one workload that isn't over."""

from collections.abc import Sequence
from enum import StrEnum
from operator import ge

from weir.cluster.events import PodKey
from weir.cluster.jobs import Job
from weir.control.limits import Watch
from weir.control.port import LifeCause


class Hold(StrEnum):
    """Why a workload may not be started."""

    FAILING = "its other pods are being stopped after one failed"
    PAUSE = "it failed and is tried again after a pause"
    FINISHING = "some of its pods are done"
    ENDING = "it is being ended"
    SUSPENDED = "it is suspended"
    GATED = "its pods aren't ready to be started"


class Life:
    """One workload's life. `alive` are its pods whose last start, in `start_of`, hasn't exited."""

    __slots__ = (
        "alive",
        "done",
        "ending",
        "failed",
        "failures",
        "holds",
        "restarts",
        "settled",
        "start_of",
        "starts",
        "watch",
    )

    def __init__(self) -> None:
        self.starts = 0
        self.settled = 0
        self.failures = 0
        self.restarts = 0
        self.start_of: dict[PodKey, int] = {}
        self.alive: set[PodKey] = set()
        self.done: set[PodKey] = set()
        self.holds: dict[Hold, tuple[str, float | None]] = {}  # a sentence, and until when
        self.ending: LifeCause | None = None
        self.failed = ""  # how it failed last
        self.watch = Watch()

    def is_done(self, needed: Sequence[int]) -> bool:
        """Whether as many pods of each group are done as its gang needs."""
        done = [0] * len(needed)
        for pod in self.done:
            done[pod.group] += 1
        return all(map(ge, done, needed))

    def keep(self, counts: Sequence[int]) -> None:
        """There are so many pods of each group now: nothing is remembered of others."""
        gone = [pod for pod in self.start_of if pod.group >= len(counts) or pod.index >= counts[pod.group]]
        for pod in gone:
            del self.start_of[pod]
            self.alive.discard(pod)
            self.done.discard(pod)


def kept_run_s(job: Job) -> float:
    """The run of a workload that isn't lost if all of it stops now: up to its last saved state."""
    if job.started_s is None or job.saved_s is None:
        return job.ran_s
    return job.ran_s + (job.saved_s - job.started_s)
