"""A trace replayed: the control loop on virtual time, until nothing more happens."""

import gc
import random
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter

from weir.control.loop import Control, Decide
from weir.engine.cycle import decide as engine
from weir.model.policy import Policy
from weir.model.scenario import Scenario
from weir.simulation.fairness import Fairness
from weir.simulation.job_recorder import JobRecorder
from weir.simulation.job_trace import JobTrace
from weir.simulation.metrics import Json, replay_metrics
from weir.simulation.simulated_cluster import SimulatedCluster

STEPS_AN_INSTANT_MAX = 10_000
"""Steps without progress of the clock after which a replay fails."""
IDLE_WAKES_MAX = 1_000
"""Number of wakes that the engine may request when nothing else happens."""
REPORT_EVERY = 512
"""Steps between two reports of progress."""


class ReplayNotSettling(Exception):
    """The engine keeps acting at one instant without coming to an end."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A replay that is over."""

    numbers: Json
    recorder: JobRecorder


def replay(
    scenario: Scenario,
    job_traces: Sequence[JobTrace],
    policy: Policy,
    *,
    seed: int | None = None,
    progress: Callable[[float], None] | None = None,
    decide: Decide = engine,
) -> ReplayResult:
    """Replay a trace on the cluster of a scenario; a seed reorders jobs of the same second."""
    with _collecting_seldom():
        job_traces = list(job_traces) if seed is None else jittered(job_traces, seed)
        world = SimulatedCluster(scenario, job_traces)
        recorder = JobRecorder(job_traces, scenario.topologies)
        control = Control(world, policy, world.clock, readers=(recorder,), decide=decide)
        recorder.watch(control.cluster)
        fairness = Fairness(recorder.first_s)
        started = perf_counter()
        gc.freeze()  # excludes the trace, a million objects, from garbage collection
        for steps, _ in enumerate(control_steps(world, control)):
            fairness.sample(control.cluster, world.now_s)
            if progress is not None and steps % REPORT_EVERY == 0:
                progress(recorder.ended / max(1, len(job_traces)))
    for observer in (recorder, fairness):
        observer.close(world.now_s)
    numbers = replay_metrics(
        recorder,
        fairness,
        lost_gpu_s=world.lost_gpu_s,
        end_s=world.now_s,
        wall_s=perf_counter() - started,
        peak_memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )
    return ReplayResult(numbers, recorder)


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Collect garbage seldom: a replay has hardly any cycles, and each large collection walks the trace."""
    thresholds = gc.get_threshold()
    gc.set_threshold(50_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def control_steps(world: SimulatedCluster, control: Control) -> Iterator[None]:
    """Step control whenever something happens, until nothing does any more."""
    idle = 0
    while True:
        control.step()
        yield
        steps = 0
        while world.has_news or control.wakes_s == world.now_s:
            control.step()
            yield
            steps += 1
            if steps > STEPS_AN_INSTANT_MAX:
                raise ReplayNotSettling(
                    f"the simulation doesn't settle: {steps} steps at {world.now_s} s led to further events"
                )
        world_s, wakes_s = world.next_s(), control.wakes_s
        idle = idle + 1 if world_s is None and steps == 0 else 0
        if world_s is None and (wakes_s is None or idle > IDLE_WAKES_MAX):
            return
        if wakes_s is not None and (world_s is None or wakes_s < world_s):
            if wakes_s <= world.now_s:
                raise ReplayNotSettling(f"woken at {world.now_s} s for {wakes_s} s, which is over")
            world.advance_to(wakes_s)
        else:
            assert world_s is not None
            world.advance_to(world_s)


def jittered(job_traces: Sequence[JobTrace], seed: int) -> list[JobTrace]:
    """Return the same jobs, each up to 0.9 s later, which reorders jobs submitted in the same second."""
    draw = random.Random(seed)  # noqa: S311 - chance that can be replayed
    return [
        replace(
            job_trace,
            workload=replace(
                job_trace.workload, submitted_s=job_trace.workload.submitted_s + draw.uniform(0.0, 0.9)
            ),
        )
        for job_trace in job_traces
    ]
