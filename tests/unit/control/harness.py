"""A backend that does nothing by itself: tests tell the facts, and look at the effects."""

from collections.abc import Iterable, Sequence
from typing import Any

from weir.control.loop import Control
from weir.control.port import Effect, Fact, PodExit, PodExited, StartPod
from weir.engine.cache import EngineCache
from weir.engine.plan import Plan
from weir.model.nodes import Node
from weir.model.policy import LifecyclePolicy, Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import Event, NodeSet, NoteAdded, Placement, PodKey, QueuesSet, WorkloadSubmitted

GROUND = (
    NodeSet(Node("node", 8, 16 << 30, {"cpu": 64_000, "memory": 1 << 40, "pods": 110})),
    QueuesSet((Queue("team"),)),
)


class Scene:
    """Control between a backend and an engine that both do what the test says."""

    def __init__(self, *facts: Fact, rules: LifecyclePolicy | None = None) -> None:
        self.now_s = 0.0
        self.effects: list[Effect] = []
        self.plans: list[Plan] = []
        self.notes: list[NoteAdded] = []
        self._facts: list[Fact] = [*GROUND, *facts]
        policy = Policy(life=rules or LifecyclePolicy())
        self.control = Control(self, policy, lambda: self.now_s, readers=(self,), decide=self._decide)

    def _decide(self, cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Plan:
        return self.plans.pop(0) if self.plans else Plan()

    def happened(self, event: Event) -> None:
        """Keep what people should read."""
        if isinstance(event, NoteAdded):
            self.notes.append(event)

    def decided(self, plan: Plan, now_s: float, took_s: float) -> None:
        """Plans are the test's own."""

    def events(self) -> Iterable[Fact]:
        """Yield the facts of the test."""
        facts, self._facts = self._facts, []
        return facts

    def apply(self, effects: Sequence[Effect]) -> None:
        """Remember them."""
        self.effects += effects

    def step(self, *facts: Fact, at_s: float | None = None, plan: Plan | None = None) -> list[Effect]:
        """Tell facts, have a plan decided, and see what is ordered."""
        if at_s is not None:
            self.now_s = at_s
        self._facts += facts
        if plan is not None:
            self.plans = [plan]
        self.effects = []
        self.control.step()
        return self.effects

    def starts(self, name: str, pods: int = 1) -> dict[PodKey, int]:
        """Start a workload's pods on the node; the numbers of the starts."""
        places = [Placement(PodKey(name, 0, index), "node", (index,)) for index in range(pods)]
        effects = self.step(plan=Plan(binds=places))
        return {effect.place.pod: effect.start for effect in effects if isinstance(effect, StartPod)}

    def exits(self, starts: dict[PodKey, int], how: PodExit) -> list[Fact]:
        """Facts: these starts are over."""
        return [PodExited(pod, start, how, self.now_s) for pod, start in starts.items()]

    def job_holds(self, name: str) -> str:
        """Return the reason why a workload is suspended; empty if it isn't."""
        job = self.control.cluster.jobs[name]
        return job.held_why if job.held else ""


def gang(
    name: str = "job", pods: int = 2, *, least: int | None = None, devices: int = 1, **words: Any
) -> Fact:
    """A workload of pods with one device each."""
    needed = pods if least is None else least
    group = PodGroup("worker", Request(devices=devices), pods, needed)
    return WorkloadSubmitted(Workload(name, "team", (group,), needed, 0.0, **words), 0.0)
