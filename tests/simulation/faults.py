"""Fault injection: a cluster in which things go wrong, reproducibly for a seed.

Nodes go and come back, pods fail, stops take time, facts come late, twice and in another order, and the
scheduler dies between any two effects. Facts about one object stay in order, as the port promises.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weir.control.port import (
    CancelRequested,
    Effect,
    Fact,
    PodExit,
    PodExited,
    PodRunning,
    StartPod,
    StatusRecovered,
    StopPod,
    UtilizationSampled,
)
from weir.model.nodes import Node
from weir.model.scenario import Scenario
from weir.simulation.job_trace import JobTrace
from weir.simulation.simulated_cluster import SimulatedCluster
from weir.state.events import Checkpointed, NodeLost, NodeSet, PodKey, WorkloadSubmitted, WorkloadSuspended


class InjectedCrash(Exception):
    """The scheduler died while its effects were carried out."""


@dataclass(frozen=True, slots=True)
class FaultRates:
    """Rates of faults. Probabilities from 0 to 1, times in seconds; no new fault after `until_s`."""

    seed: int
    until_s: float = 0.0
    node_lost_every_s: float = 0.0  # on average, of all nodes together; 0 = never
    node_back_after_s: float = 60.0
    pod_fails: float = 0.0  # of starts
    pod_fails_after_s: float = 60.0
    stop_slow: float = 0.0
    stop_slow_s: float = 30.0
    fact_late: float = 0.0
    fact_late_s: float = 5.0
    fact_twice: float = 0.0
    crash: float = 0.0  # of calls of apply


class FaultyCluster(SimulatedCluster):
    """Delays facts, fails starts and crashes the scheduler by chance, from a seed."""

    def __init__(
        self,
        scenario: Scenario,
        job_traces: Iterable[JobTrace],
        faults: FaultRates,
        *,
        measured_every_s: float = 0.0,
    ) -> None:
        self._faults = faults
        self._draw = random.Random(faults.seed)
        self._connection = 0
        self._due_s: dict[str, float] = {}  # when the last fact about an object is delivered
        super().__init__(scenario, job_traces, measured_every_s=measured_every_s)
        self._await_loss()

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self.now_s < self._faults.until_s and self._draw.random() < probability

    # The scheduler

    def apply(self, effects: Sequence[Effect]) -> None:
        """Carry effects out, and sometimes only some of them.

        Raises:
            Crashed: the scheduler died; connect a new one.
        """
        if not self._happens(self._faults.crash):
            super().apply(effects)
            return
        reached = self._draw.randint(0, len(effects))
        super().apply(effects[:reached])
        raise InjectedCrash

    def connect(self) -> None:
        """Connect a new scheduler; facts on their way to the old one are lost."""
        self._connection += 1
        self._due_s.clear()
        super().connect()

    # Facts

    def tell(self, fact: Fact) -> None:
        """Report an event to control, sometimes late and sometimes twice."""
        about = _about(fact)
        for _ in range(2 if self._happens(self._faults.fact_twice) else 1):
            late_s = (
                self._draw.uniform(0, self._faults.fact_late_s)
                if self._happens(self._faults.fact_late)
                else 0.0
            )
            due_s = max(self.now_s + late_s, self._due_s.get(about, 0.0))
            if due_s <= self.now_s:
                super().tell(fact)
            else:
                self._due_s[about] = due_s
                self.schedule(due_s, self._deliver, (self._connection, fact))

    def _deliver(self, sent: tuple[int, Fact]) -> None:
        connection, fact = sent
        if connection == self._connection:
            super().tell(fact)

    # Pods

    def stop_takes_s(self, effect: StopPod) -> float:
        """Return the time a pod takes to stop; some are slow."""
        if not self._happens(self._faults.stop_slow):
            return 0.0
        return min(effect.grace_s, self._draw.uniform(0, self._faults.stop_slow_s))

    def started(self, effect: StartPod) -> None:
        """Let some pods fail after their start."""
        if self._happens(self._faults.pod_fails):
            after_s = self._draw.expovariate(1 / self._faults.pod_fails_after_s)
            self.schedule(self.now_s + after_s, self._fails, (effect.place.pod, effect.start))

    def _fails(self, planned: tuple[PodKey, int]) -> None:
        pod, start = planned
        alive = self.current(pod, start)
        if alive is not None:
            self.exit(pod, PodExit.STOPPED if alive.stopping else PodExit.FAILED)

    # Nodes

    def _await_loss(self) -> None:
        every_s = self._faults.node_lost_every_s
        if every_s > 0 and self.now_s < self._faults.until_s:
            self.schedule(self.now_s + self._draw.expovariate(1 / every_s), self._lose, None)

    def _lose(self, _: None) -> None:
        if self.nodes and self.now_s < self._faults.until_s:
            name = self._draw.choice(sorted(self.nodes))
            node = self.nodes.pop(name)
            self.tell(NodeLost(name))
            for run in self.runs.values():
                for pod in [pod for pod, alive in run.alive.items() if alive.place.node == name]:
                    self.exit(pod, PodExit.LOST)
            back_s = self.now_s + self._draw.expovariate(1 / self._faults.node_back_after_s)
            self.schedule(back_s, self._back, node)
        self._await_loss()

    def _back(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.tell(NodeSet(node))


def _about(fact: Fact) -> str:
    """Return the object that a fact is about: only facts of different objects may be reordered."""
    match fact:
        case NodeSet():
            about = f"node {fact.node.name}"
        case NodeLost():
            about = f"node {fact.name}"
        case WorkloadSubmitted():
            about = f"workload {fact.workload.name}"
        case PodRunning():
            about = f"workload {fact.place.pod.workload}"
        case PodExited():
            about = f"workload {fact.pod.workload}"
        case (
            StatusRecovered()
            | Checkpointed()
            | WorkloadSuspended()
            | UtilizationSampled()
            | CancelRequested()
        ):
            about = f"workload {fact.workload}"
        case _:
            about = "queues"
    return about
