"""Progress of one workload in the simulation.

It runs while its gang is complete, at the speed of its running pods: an elastic workload with half of its
pods takes twice as long. When its gang breaks it falls back to its last checkpoint.
"""

from dataclasses import dataclass
from math import inf
from operator import ge

from weir.control.port import PodExit, WorkloadProgress
from weir.simulation.job_trace import JobTrace
from weir.state.events import Placement, PodKey


@dataclass(slots=True, eq=False)
class SimulatedPod:
    """A pod that was started: its place, the number of its start, and the devices it holds."""

    place: Placement
    start: int
    at_s: float
    gpus: float = 0.0
    ran: bool = False  # False: its node was missing
    stopping: bool = False


class JobProgress:
    """A workload that isn't over. `left_s` is the remaining run at full speed, as of `since_s`."""

    __slots__ = (
        *("alive", "counts", "exits", "gpus", "job_trace", "left_s", "name"),
        *("needed", "pods", "save_every_s", "saved_left_s", "saved_s", "since_s", "speed"),
        *("started_s", "starts", "status", "times_started", "version"),
    )

    def __init__(self, job_trace: JobTrace) -> None:
        workload = job_trace.workload
        self.job_trace = job_trace
        self.name = workload.name
        self.save_every_s = job_trace.save_every_s
        self.needed = workload.needed()
        self.pods = workload.pods
        self.alive: dict[PodKey, SimulatedPod] = {}
        # Exits that control hasn't processed
        self.exits: dict[PodKey, tuple[SimulatedPod, PodExit, float]] = {}
        self.counts = [0] * len(workload.groups)  # running pods of each group
        self.gpus = 0.0  # devices of its pods at its last change of speed
        self.left_s = self.saved_left_s = job_trace.duration_s
        self.since_s = 0.0
        self.speed = 0.0
        self.started_s: float | None = None  # last time that its gang became complete
        self.saved_s: float | None = None  # last checkpoint since then
        self.times_started = 0
        self.starts = 0  # number of starts of pods
        self.status = WorkloadProgress()
        self.version = 0  # version of its speed; events for an older version are ignored

    def advance(self, now_s: float) -> None:
        """Update the remaining run up to now."""
        if self.speed and self.left_s != inf:
            self.left_s = max(0.0, self.left_s - (now_s - self.since_s) * self.speed)
        self.since_s = now_s

    def pace(self, now_s: float) -> bool:
        """Take up the pace its pods now give it; whether it changed."""
        complete = all(map(ge, self.counts, self.needed))
        speed = sum(self.counts) / self.pods if complete else 0.0
        if speed == self.speed:
            return False
        self.advance(now_s)
        if not speed:
            self.left_s = self.saved_left_s
            self.started_s = self.saved_s = None
        elif not self.speed:
            self.started_s = now_s
            self.times_started += 1
            if self.times_started > 1:
                self.left_s += self.job_trace.restart_s
        self.speed = speed
        self.gpus = sum([alive.gpus for alive in self.alive.values()])
        self.version += 1
        return True

    def is_done(self) -> bool:
        """Return True if each group has as many successful pods as its gang needs."""
        done = [0] * len(self.needed)
        for pod, (_, how, _) in self.exits.items():
            done[pod.group] += how is PodExit.DONE
        return all(map(ge, done, self.needed))

    def saves(self, now_s: float) -> None:
        """Save the state."""
        self.advance(now_s)
        self.saved_left_s = min(self.saved_left_s, self.left_s)
        self.saved_s = now_s

    def ends_s(self) -> float:
        """Return the time of its end if nothing changes."""
        return self.since_s + self.left_s / self.speed if self.speed else inf

    def next_save_s(self) -> float:
        """Return the time of its next checkpoint if nothing changes."""
        every_s = self.save_every_s
        if not every_s or self.started_s is None:
            return inf
        return (self.saved_s if self.saved_s is not None else self.started_s) + every_s

    def lost_s(self, now_s: float) -> float:
        """Return the time since the last checkpoint, or since the start."""
        if self.started_s is None:
            return 0.0
        return now_s - (self.saved_s if self.saved_s is not None else self.started_s)
