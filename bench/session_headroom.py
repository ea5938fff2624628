"""Learned headroom for sessions, compared with none and a fixed one, on a generated trace.

One machine of eight GPUs. The team of the sessions owns all of them; borrowers fill what it leaves idle, and
there are always more. Sessions begin on workdays, many of them between nine and ten. Borrowers get a notice
before they are stopped. The first weeks are for learning; figures are of those after them.

    python -m bench.session_headroom [--seeds 3]
"""

import argparse
import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.tables import show
from weir.control.loop import Control
from weir.control.port import StopPod
from weir.control.session_headroom import SessionStart, learned_headroom
from weir.engine.plan import Plan
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.resources import GPU
from weir.model.scenario import Scenario
from weir.model.workloads import WHOLE_MILLI, PodGroup, Request, Workload, WorkloadType
from weir.simulation.job_recorder import JobRecorder
from weir.simulation.job_trace import JobTrace
from weir.simulation.replay import control_steps
from weir.simulation.simulated_cluster import SimulatedCluster
from weir.state.events import Event, PodAssigned, PodKey, PodStopped, WorkloadEnded

GPUS = 8
WEEKS, LEARNING_WEEKS = 7, 4
LOOK_S = 300.0
HOUR_S, DAY_S = 3600.0, 86400.0
SESSIONS_A_DAY = 9
AT_NINE = 0.5
"""Part of a day's sessions that begin between nine and ten."""
BORROWED_S = 3600.0
"""Median run of a borrower."""
GRACE_S = 60.0
LOAD = 1.0
"""Work of the borrowers, as a part of all GPUs."""
Rule = Callable[[Sequence[SessionStart], float], int]


@dataclass(frozen=True)
class Outcome:
    """Figures of the weeks after the learning."""

    at_once: float  # part of the sessions that started within a second
    wait_mean_s: float
    wait_p95_s: float
    evictions: float  # a week
    idle_gpu_h: float  # a week


def trace(seed: int) -> list[JobTrace]:
    """Return sessions and borrowers; time 0 is a Monday."""
    draw = random.Random(seed)
    jobs = [*_sessions(draw), *_borrowers(draw)]
    return sorted(jobs, key=lambda job: job.workload.submitted_s)


def _sessions(draw: random.Random) -> Iterator[JobTrace]:
    for day in (day for day in range(WEEKS * 7) if day % 7 < 5):
        for number in range(SESSIONS_A_DAY):
            hour = 9 + draw.random() if draw.random() < AT_NINE else draw.uniform(10, 18)
            length_s = min(4 * HOUR_S, draw.lognormvariate(math.log(2400.0), 0.7))
            at_s = day * DAY_S + hour * HOUR_S
            yield _job(f"session-{day}-{number}", "team", WorkloadType.BUILD, at_s, length_s)


def _borrowers(draw: random.Random) -> Iterator[JobTrace]:
    at_s, number = 0.0, 0
    while at_s < WEEKS * 7 * DAY_S:
        length_s = min(6 * HOUR_S, draw.lognormvariate(math.log(BORROWED_S), 1.0))
        yield _job(f"batch-{number}", "batch", WorkloadType.TRAIN, at_s, length_s)
        at_s += length_s / GPUS / LOAD
        number += 1


def _job(name: str, project: str, type_: WorkloadType, at_s: float, length_s: float) -> JobTrace:
    group = PodGroup("main", Request(devices=1))
    workload = Workload(name, project, (group,), 1, at_s, type_, grace_s=GRACE_S)
    return JobTrace(workload, length_s, save_every_s=600.0)


def none(_starts: Sequence[SessionStart], _now_s: float) -> int:
    """Return no headroom."""
    return 0


def fixed(devices: int) -> Rule:
    """Return a rule for the same headroom at all times."""
    return lambda _starts, _now_s: devices


def learned(limit: int) -> Rule:
    """Return the rule of the server."""

    def rule(starts: Sequence[SessionStart], now_s: float) -> int:
        return learned_headroom(starts, now_s=now_s, known_since_s=0.0, limit=limit).devices

    return rule


class _IdleMeter:
    """Reader of the control loop that sums up idle devices after a time."""

    def __init__(self, from_s: float, until_s: float) -> None:
        self._from_s, self._until_s = from_s, until_s
        self._held: set[PodKey] = set()
        self._at_s = 0.0
        self.idle_s = 0.0
        self.evicted = 0

    def happened(self, event: Event) -> None:
        """Follow the pods."""
        if isinstance(event, PodAssigned):
            self._until(event.at_s)
            self._held.add(event.place.pod)
        elif isinstance(event, PodStopped):
            self._until(event.at_s)
            self._held.discard(event.pod)
        elif isinstance(event, WorkloadEnded):
            self._until(event.at_s)
            self._held = {pod for pod in self._held if pod.workload != event.workload}

    def decided(self, plan: Plan, now_s: float, _took_s: float) -> None:
        """Count the evictions."""
        if self._from_s <= now_s < self._until_s:
            self.evicted += len(plan.evictions)

    def _until(self, at_s: float) -> None:
        begin_s, end_s = max(self._at_s, self._from_s), min(at_s, self._until_s)
        self.idle_s += max(0.0, end_s - begin_s) * (GPUS - len(self._held))
        self._at_s = at_s


class _Cluster(SimulatedCluster):
    """A cluster whose pods use their whole notice."""

    def stop_takes_s(self, effect: StopPod) -> float:
        """Return the notice."""
        return min(GRACE_S, effect.grace_s)


def run(seed: int, rule: Rule) -> Outcome:
    """Replay the trace of a seed under a rule."""
    jobs = trace(seed)
    world = _Cluster(_scenario(), jobs)
    recorder = JobRecorder(jobs)
    begin_s, end_s = LEARNING_WEEKS * 7 * DAY_S, WEEKS * 7 * DAY_S
    meter = _IdleMeter(begin_s, end_s)
    base = Policy(reserve_fraction=0)
    control = Control(world, base, world.clock, readers=(recorder, meter))
    recorder.watch(control.cluster)
    sessions = [job.workload for job in jobs if job.workload.type is WorkloadType.BUILD]
    starts = [SessionStart(session.submitted_s, 1.0) for session in sessions]

    def look(_: object) -> None:
        begun = bisect_right(starts, world.now_s, key=lambda start: start.at_s)
        devices = rule(starts[:begun], world.now_s)
        part = (devices + 0.5) / GPUS if devices else 0.0
        if control.policy.reserve_fraction != part:
            control.policy = base.model_copy(update={"reserve_fraction": part})
        if world.now_s < end_s:
            world.schedule(world.now_s + LOOK_S, look, None)

    world.schedule(0.0, look, None)
    for _ in control_steps(world, control):
        if world.now_s > end_s:
            break
    lines = [recorder.lines[session.name] for session in sessions if begin_s <= session.submitted_s < end_s]
    waits = sorted((line.first_start_s or end_s) - line.workload.submitted_s for line in lines)
    weeks = WEEKS - LEARNING_WEEKS
    return Outcome(
        sum(wait < 1 for wait in waits) / len(waits),
        fmean(waits),
        waits[math.ceil(0.95 * len(waits)) - 1],
        meter.evicted / weeks,
        meter.idle_s / HOUR_S / weeks,
    )


def _scenario() -> Scenario:
    node = Node("box", GPUS, 80 << 30, {"cpu": 10**6, "memory": 1 << 50, "pods": 1000})
    queues = tuple(
        Queue(name, quota={GPU: quota * WHOLE_MILLI}) for name, quota in (("team", GPUS), ("batch", 0))
    )
    return Scenario("sessions", (node,), (), queues, (), Policy())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", choices=("text", "json"), default="text")
    asked = parser.parse_args()
    rules = {"none": none, "fixed, 1": fixed(1), "fixed, 2": fixed(2)}
    rules |= {f"learned, at most {most}": learned(most) for most in (1, 2, 4)}
    rows = []
    for name, rule in rules.items():
        outcomes = [run(seed, rule) for seed in range(asked.seeds)]
        rows.append(
            {
                "headroom": name,
                "sessions at once, %": round(100 * fmean(outcome.at_once for outcome in outcomes), 1),
                "wait mean, s": round(fmean(outcome.wait_mean_s for outcome in outcomes), 1),
                "wait p95, s": round(fmean(outcome.wait_p95_s for outcome in outcomes), 1),
                "evictions a week": round(fmean(outcome.evictions for outcome in outcomes), 1),
                "idle GPU-hours a week": round(fmean(outcome.idle_gpu_h for outcome in outcomes), 1),
            }
        )
    show("Headroom for sessions", rows, asked.output)


if __name__ == "__main__":
    main()
