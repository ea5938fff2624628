"""Simulated cluster: nodes and processes on virtual time, behind the backend port.

It has one queue of timed events. `advance_to` processes all events of one instant; facts for control wait
in the inbox. This module makes no decisions, and control never learns a job's duration from it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from weir.control.port import (
    Effect,
    EndWorkload,
    Fact,
    PodExit,
    PodExited,
    PodRunning,
    ReleaseNomination,
    ReserveNomination,
    SaveProgress,
    StartPod,
    StatusRecovered,
    StopPod,
    UtilizationSampled,
)
from weir.model.nodes import Node
from weir.model.scenario import Scenario
from weir.model.workloads import WHOLE_MILLI, Request
from weir.simulation.job_progress import JobProgress, SimulatedPod
from weir.simulation.job_trace import JobTrace
from weir.state.events import (
    Checkpointed,
    NodeSet,
    Nominated,
    PodKey,
    QueuesSet,
    TopologiesSet,
    WorkloadSubmitted,
)

_ENDS, _SAVES, _OTHER, _SUBMITS = range(4)
"""Order of events at one instant."""
NOTICED_AFTER_S = 1.0
"""Delay until the pods of a node that is gone are known not to run."""


class SimulatedCluster:
    """Simulates nodes, pods and time behind the port of backends."""

    def __init__(
        self, scenario: Scenario, job_traces: Iterable[JobTrace], *, measured_every_s: float = 0.0
    ) -> None:
        """Create a cluster; `measured_every_s` is the interval of utilization samples, 0 for none."""
        self.now_s = 0.0
        self.measured_every_s = measured_every_s
        self.nodes: dict[str, Node] = {node.name: node for node in scenario.nodes}
        self.runs: dict[str, JobProgress] = {}
        self.lost_gpu_s = 0.0  # run time that had to be repeated
        self._scenario = scenario
        self._coming = sorted(
            job_traces, key=lambda job_trace: (job_trace.workload.submitted_s, job_trace.workload.name)
        )
        self._submitted = 0
        self._kept: dict[str, Nominated] = {}
        self._queue: list[tuple[float, int, int, Callable[[Any], None], Any]] = []
        self._numbers = count()
        self._inbox: list[Fact] = []
        self._does: dict[type, Callable[[Any], None]] = {
            StartPod: self._start,
            StopPod: self._stop,
            ReserveNomination: self._keep,
            ReleaseNomination: self._leave,
            SaveProgress: self._set_status,
            EndWorkload: self._end,
        }
        self._changed_speed: dict[str, JobProgress] = {}
        self._await_next()
        if measured_every_s:
            self.schedule(measured_every_s, self._measure, None)
        self.connect()

    # Time

    def next_s(self) -> float | None:
        """Return the time of the next event; None if there is none."""
        return self._queue[0][0] if self._queue else None

    def advance_to(self, now_s: float) -> None:
        """Run all events up to and at this time."""
        queue = self._queue
        while queue and queue[0][0] <= now_s:
            at_s, _, _, do, argument = heappop(queue)
            self.now_s = at_s
            do(argument)
        self.now_s = now_s
        if self._changed_speed:
            self._plan_ahead()

    def clock(self) -> float:
        """Return the virtual time."""
        return self.now_s

    @property
    def has_news(self) -> bool:
        """Return True if there are facts for control."""
        return bool(self._inbox)

    def schedule(self, at_s: float, do: Callable[[Any], None], argument: Any, order: int = _OTHER) -> None:
        """Schedule an event."""
        heappush(self._queue, (at_s, order, next(self._numbers), do, argument))

    # The backend port

    def events(self) -> Iterable[Fact]:
        """Return the facts that control doesn't know yet."""
        facts, self._inbox = self._inbox, []
        return facts

    def apply(self, effects: Sequence[Effect]) -> None:
        """Carry effects out."""
        does = self._does
        for effect in effects:
            does[type(effect)](effect)
        if self._changed_speed:
            self._plan_ahead()

    def connect(self) -> None:
        """Connect a control: the whole state replaces all facts not yet delivered."""
        for run in self.runs.values():
            # Report pods on missing nodes at once: they never ran.
            for pod in [pod for pod, alive in run.alive.items() if alive.place.node not in self.nodes]:
                self.exit(pod, PodExit.LOST)
        facts: list[Fact] = [TopologiesSet(tuple(self._scenario.topologies))]
        facts += [NodeSet(node) for node in self.nodes.values()]
        facts.append(QueuesSet(tuple(self._scenario.queues)))
        for name, run in self.runs.items():
            workload, status = run.job_trace.workload, run.status
            facts.append(WorkloadSubmitted(workload, workload.submitted_s, status.ran_s))
            if run.starts:
                facts.append(StatusRecovered(name, replace(status, starts=run.starts)))
            facts += self._pods_of(run)
            if run.saved_s is not None:
                facts.append(Checkpointed(name, run.saved_s))
        facts += self._kept.values()
        self._inbox = facts

    def _pods_of(self, run: JobProgress) -> list[Fact]:
        """Return all starts before the first exit: control needs the whole gang to judge an exit."""
        started = [alive for alive, _, _ in run.exits.values()] + list(run.alive.values())
        started.sort(key=lambda alive: alive.start)
        facts: list[Fact] = [
            PodRunning(alive.place, alive.start, alive.at_s, alive.stopping) for alive in started
        ]
        facts += [PodExited(pod, alive.start, how, at_s) for pod, (alive, how, at_s) in run.exits.items()]
        return facts

    def tell(self, fact: Fact) -> None:
        """Queue a fact for control."""
        self._inbox.append(fact)

    # Effects

    def _start(self, effect: StartPod) -> None:
        place = effect.place
        pod = place.pod
        run = self.runs[pod.workload]
        if effect.start <= run.starts:
            return  # the order was carried out before
        assert pod not in run.alive, f"{pod} runs already"
        run.starts = effect.start
        run.exits.pop(pod, None)
        self._placed(pod)
        node = self.nodes.get(place.node)
        alive = run.alive[pod] = SimulatedPod(place, effect.start, self.now_s)
        if node is None:
            self.schedule(self.now_s + NOTICED_AFTER_S, self._exits, (pod, effect.start, PodExit.LOST))
            return
        alive.ran = True
        alive.gpus = gpus_of(run.job_trace.workload.groups[pod.group].request, node)
        run.counts[pod.group] += 1
        self._changed_speed[pod.workload] = run
        if run.exits and run.is_done():
            # Its gang has just finished
            self.schedule(self.now_s, self._exits, (pod, effect.start, PodExit.DONE))
            return
        self.started(effect)

    def started(self, effect: StartPod) -> None:
        """Start a pod; a subclass may inject faults here."""

    def _stop(self, effect: StopPod) -> None:
        alive = self.current(effect.pod, effect.start)
        if alive is None or alive.stopping:
            return
        takes_s = self.stop_takes_s(effect)
        if takes_s <= 0:
            self.exit(effect.pod, PodExit.STOPPED)
            return
        alive.stopping = True
        self.schedule(self.now_s + takes_s, self._exits, (effect.pod, effect.start, PodExit.STOPPED))

    def stop_takes_s(self, effect: StopPod) -> float:  # noqa: ARG002 - faults read it
        """Return the time a pod takes to stop: 0, unless faults are injected."""
        return 0.0

    def _exits(self, planned: tuple[PodKey, int, PodExit]) -> None:
        """End a pod, if this start of it isn't over yet."""
        pod, start, how = planned
        if self.current(pod, start) is not None:
            self.exit(pod, how)

    def current(self, pod: PodKey, start: int) -> SimulatedPod | None:
        """Return the pod if this start is still current; None if it is over."""
        run = self.runs.get(pod.workload)
        alive = run.alive.get(pod) if run is not None else None
        return alive if alive is not None and alive.start == start else None

    def exit(self, pod: PodKey, how: PodExit) -> None:
        """End a pod; its gang may break."""
        run = self.runs[pod.workload]
        alive = run.alive.pop(pod)
        run.exits[pod] = (alive, how, self.now_s)
        if alive.ran:
            run.counts[pod.group] -= 1
            self._changed_speed[pod.workload] = run
        self.tell(PodExited(pod, alive.start, how, self.now_s))

    def _keep(self, effect: ReserveNomination) -> None:
        self._kept[effect.nomination.workload] = effect.nomination

    def _leave(self, effect: ReleaseNomination) -> None:
        self._kept.pop(effect.workload, None)

    def _placed(self, pod: PodKey) -> None:
        """Remove a started pod from its nomination."""
        kept = self._kept.get(pod.workload)
        if kept is None:
            return
        rest = tuple(place for place in kept.places if place.pod != pod)
        if rest:
            self._kept[pod.workload] = Nominated(kept.workload, rest, kept.at_s, kept.freed_by)
        else:
            del self._kept[pod.workload]

    def _set_status(self, effect: SaveProgress) -> None:
        run = self.runs[effect.workload]
        run.status = effect.status
        settled = effect.status.settled
        run.exits = {pod: exit_ for pod, exit_ in run.exits.items() if exit_[0].start > settled}

    def _end(self, effect: EndWorkload) -> None:
        run = self.runs.pop(effect.workload, None)
        assert run is None or not run.alive, f"{effect.workload} is ended while it runs"
        self._kept.pop(effect.workload, None)

    # Timed events

    def _await_next(self) -> None:
        if self._submitted < len(self._coming):
            job_trace = self._coming[self._submitted]
            self._submitted += 1
            self.schedule(job_trace.workload.submitted_s, self._submit, job_trace, _SUBMITS)

    def _submit(self, job_trace: JobTrace) -> None:
        workload = job_trace.workload
        self.runs[workload.name] = JobProgress(job_trace)
        self.tell(WorkloadSubmitted(workload, workload.submitted_s))
        self._await_next()

    def _measure(self, _: None) -> None:
        """Report utilization, as long as there are or will be running jobs."""
        for name, run in self.runs.items():
            if run.started_s is not None:
                used = 0.0 if self.now_s >= run.started_s + run.job_trace.idle_after_s else 1.0
                self.tell(UtilizationSampled(name, used, self.now_s))
        if self.runs or self._queue:
            self.schedule(self.now_s + self.measured_every_s, self._measure, None)

    def _plan_ahead(self) -> None:
        """Update the speed of jobs whose pods have just started, stopped or failed."""
        for run in self._changed_speed.values():
            at_stake = run.lost_s(self.now_s) * run.gpus
            if run.pace(self.now_s):
                if not run.speed:
                    self.lost_gpu_s += at_stake
                self._plan_next(run)
        self._changed_speed.clear()

    def _plan_next(self, run: JobProgress) -> None:
        ends_s, saves_s = run.ends_s(), run.next_save_s()
        if saves_s < ends_s:
            self.schedule(saves_s, self._saves, (run, run.version), _SAVES)
        elif ends_s < inf:
            self.schedule(ends_s, self._ends, (run, run.version), _ENDS)

    def _saves(self, planned: tuple[JobProgress, int]) -> None:
        run, version = planned
        if run.version == version:
            run.saves(self.now_s)
            self.tell(Checkpointed(run.name, self.now_s))
            self._plan_next(run)

    def _ends(self, planned: tuple[JobProgress, int]) -> None:
        run, version = planned
        if run.version != version:
            return
        run.advance(self.now_s)
        run.left_s = run.saved_left_s = 0.0
        run.speed = 0.0
        run.version += 1
        ended = sorted(run.alive.items(), key=_by_index)
        run.alive.clear()
        for pod, alive in ended:
            run.counts[pod.group] -= alive.ran
            run.exits[pod] = (alive, PodExit.DONE, self.now_s)
            self.tell(PodExited(pod, alive.start, PodExit.DONE, self.now_s))


def _by_index(started: tuple[PodKey, SimulatedPod]) -> tuple[int, int]:
    pod = started[0]
    return pod.group, pod.index


def gpus_of(request: Request, node: Node) -> float:
    """Return the devices that a pod holds on a node; a share counts as a fraction."""
    if not request.gpu_memory:
        return request.devices * request.share_milli / WHOLE_MILLI
    return request.devices * min(1.0, request.gpu_memory / node.gpu_memory) if node.gpu_memory else 0.0
