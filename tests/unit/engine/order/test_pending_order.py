"""The order of pending workloads that a cache keeps is that of a cluster never decided on."""

from random import Random

import pytest
from tests.properties.budget import EFFORT

from weir.engine.allocation import allocate
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import (
    Checkpointed,
    NodeSet,
    Nominated,
    NominationReleased,
    PodAssigned,
    PodStopped,
    PodStopping,
    QueuesSet,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
)
from weir.state.reduce import reduce

PROJECTS, STEPS = 6, 100


class Stream:
    """A small cluster with more work than devices: workloads come, save, end, and change places."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.cluster = Cluster()
        self.now_s = 0.0
        self.swapped = self.count = 0
        for index in range(4):
            node = Node(f"node-{index}", 8, 16 << 30, {"cpu": 64_000, "memory": 64 << 30, "pods": 99})
            reduce(self.cluster, NodeSet(node))
        reduce(
            self.cluster,
            QueuesSet(tuple(Queue(f"p{index}", quota={"gpu": 3000}) for index in range(PROJECTS))),
        )

    def events(self) -> None:
        """Let some workloads come, end and save, a minute later."""
        chance, cluster = self.chance, self.cluster
        self.now_s += 60.0
        for _ in range(chance.randrange(1, 4)):
            group = PodGroup("0", Request(devices=chance.choice((1, 1, 2))), 1, 1)
            project = f"p{chance.randrange(PROJECTS)}"
            priority = chance.choice((50, 50, 50, 60))
            spec = Workload(
                f"job{self.count}",
                project,
                (group,),
                1,
                self.now_s,
                user=chance.choice("ab"),
                priority=priority,
            )
            self.count += 1
            reduce(cluster, WorkloadSubmitted(spec, self.now_s))
        running = sorted(name for jobs in cluster.running.values() for name in jobs)
        for name in chance.sample(running, min(3, len(running))):
            if chance.random() < 0.6:
                reduce(cluster, Checkpointed(name, self.now_s))
            elif name not in cluster.nominated:
                ran_s = chance.lognormvariate(6, 2)
                reduce(cluster, WorkloadEnded(name, WorkloadOutcome.SUCCEEDED, self.now_s, ran_s))

    def carry_out(self, plan: Plan) -> None:
        """Make a plan come true at once, or for once not at all."""
        if self.chance.random() < 0.2:
            return
        cluster, now_s = self.cluster, self.now_s
        for name in plan.drops:
            reduce(cluster, NominationReleased(name))
        for eviction in plan.evictions:
            reduce(cluster, PodStopping(eviction.pod, now_s, eviction.cause))
            self.swapped += eviction.cause.rule == "swap"
        for nominated in plan.nominations:
            reduce(cluster, Nominated(nominated.workload, nominated.places, now_s, nominated.freed_by))
        for place in plan.binds:
            reduce(cluster, PodAssigned(place, now_s))
        for eviction in plan.evictions:
            reduce(cluster, PodStopped(eviction.pod, now_s, kept_s=self.chance.choice((0.0, 30.0))))


@pytest.mark.parametrize("seed", range(2 * EFFORT))
@pytest.mark.parametrize(
    "settings", [{}, {"preset": "throughput"}, {"aging": 5.0}, {"oldest_first_in_quota": False}]
)
def test_plans_are_those_of_an_empty_cache_while_run_times_are_learned(
    settings: dict[str, object], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocate, "FEW_CLASSES", 0)
    policy = Policy.model_validate({"swap_min_gain": 0.2, **settings})
    stream, cache = Stream(seed), EngineCache()
    for _ in range(STEPS):
        stream.events()
        plan = decide(stream.cluster, policy, stream.now_s, cache)
        with monkeypatch.context() as each_time:  # put in order for this cycle alone
            each_time.setattr(allocate, "FEW_CLASSES", 1000)
            fresh = decide(stream.cluster, policy, stream.now_s, EngineCache())
        assert plan.binds == fresh.binds
        assert plan.evictions == fresh.evictions
        assert plan.nominations == fresh.nominations
        stream.carry_out(plan)
    assert stream.cluster.waiting
    assert stream.swapped
