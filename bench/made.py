"""Made-up clusters of any size: equal nodes of 8 devices, projects by the hundred, small work everywhere."""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from cProfile import Profile
from time import thread_time
from typing import ClassVar

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import WHOLE_MILLI, PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import (
    NodeSet,
    Nominated,
    NominationReleased,
    Placement,
    PodAssigned,
    PodKey,
    PodStopped,
    PodStopping,
    QueuesSet,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
)
from weir.state.reduce import reduce

NODE_GPUS = 8
_CAPACITY = {"cpu": 64_000, "memory": 512 << 30, "pods": 110}


class Made:
    """A cluster on which every plan comes true at once. With a profiler, cycles are looked into."""

    profiler: ClassVar[Profile | None] = None

    def __init__(self, nodes: int, quota_gpus: Mapping[str, int], policy: Policy) -> None:
        self.cluster = Cluster()
        self.cache = EngineCache()
        self.policy = policy
        self.now_s = 0.0
        self.nodes = [node(index) for index in range(nodes)]
        for made in self.nodes:
            reduce(self.cluster, NodeSet(made))
        queues = tuple(
            Queue(name, quota={"gpu": gpus * WHOLE_MILLI}, created_s=index)
            for index, (name, gpus) in enumerate(quota_gpus.items())
        )
        reduce(self.cluster, QueuesSet(queues))

    def submit(self, *specs: Workload) -> None:
        """They wait from now on."""
        for spec in specs:
            reduce(self.cluster, WorkloadSubmitted(spec, self.now_s))

    def end(self, name: str, ran_s: float = 0.0) -> None:
        """A workload is over; with a run, it succeeded."""
        reduce(
            self.cluster,
            WorkloadEnded(
                name, WorkloadOutcome.SUCCEEDED if ran_s else WorkloadOutcome.STOPPED, self.now_s, ran_s
            ),
        )

    def run(self, spec: Workload, devices: Iterable[int]) -> None:
        """A workload whose pods run on these devices, counted over all nodes, without asking the engine."""
        self.submit(spec)
        per_pod = spec.groups[0].request.devices
        held = list(devices)
        for index in range(spec.groups[0].count):
            some = held[index * per_pod : (index + 1) * per_pod]
            on = self.nodes[some[0] // NODE_GPUS].name
            place = Placement(PodKey(spec.name, 0, index), on, tuple(device % NODE_GPUS for device in some))
            reduce(self.cluster, PodAssigned(place, self.now_s))

    def decide(self) -> tuple[Plan, float]:
        """A cycle, and the seconds it took. Nothing of the plan is carried out."""
        profiler = self.profiler or nullcontext()
        with profiler:
            began = thread_time()
            plan = decide(self.cluster, self.policy, self.now_s, self.cache)
            return plan, thread_time() - began

    def carry_out(self, plan: Plan, *, at_once: bool = True) -> None:
        """Make a plan come true; what is stopped is gone, if `at_once`."""
        cluster, now_s = self.cluster, self.now_s
        for name in plan.drops:
            reduce(cluster, NominationReleased(name))
        for eviction in plan.evictions:
            reduce(cluster, PodStopping(eviction.pod, now_s, eviction.cause))
        for nominated in plan.nominations:
            reduce(cluster, Nominated(nominated.workload, nominated.places, now_s, nominated.freed_by))
        for place in plan.binds:
            reduce(cluster, PodAssigned(place, now_s))
        for eviction in plan.evictions if at_once else ():
            reduce(cluster, PodStopped(eviction.pod, now_s))

    def settle(self) -> None:
        """Cycles until no nomination is left."""
        while self.cluster.nominated:
            plan, _ = self.decide()
            self.carry_out(plan)


def node(index: int) -> Node:
    """The node of this number."""
    return Node(f"node-{index:05d}", NODE_GPUS, 80 << 30, _CAPACITY)


def project(index: int) -> str:
    """The name of the project of this number."""
    return f"project-{index:04d}"


def work(
    name: str,
    project_: str,
    submitted_s: float = 0.0,
    *,
    pods: int = 1,
    gpus: int = 1,
    milli: int = WHOLE_MILLI,
    priority: int = 50,
) -> Workload:
    """A preemptible workload of one group; all its pods are needed, each with `milli` of its devices."""
    group = PodGroup("worker", Request(devices=gpus, share_milli=milli), count=pods, min=pods)
    return Workload(name, project_, (group,), pods, submitted_s, priority=priority)
