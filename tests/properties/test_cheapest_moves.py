"""A search among few nodes finds the moves that a search among all nodes finds."""

from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.victims.victim_candidates import EligibleVictims
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import WHOLE_MILLI, PodGroup, Request, Workload
from weir.state.events import Checkpointed, Placement, PodAssigned, PodKey, WorkloadSubmitted
from weir.state.jobs import Job

from .budget import examples
from .random_cluster import GI, World, node, single
from .running import Running
from .test_policies import answer

NODES_MAX = "weir.engine.victims.move_bounds.NODES_MAX"
GPUS = 4
PARTS = (
    *(Request(devices=1, share_milli=500),) * 4,
    Request(devices=1, share_milli=250),
    Request(devices=1, share_milli=700),
    Request(devices=1, share_milli=0, gpu_memory=5 * GI),
    Request(devices=2, share_milli=500),
)
SIZES = (1, 1, 1, 2, 3)


def crowded(seed: int) -> Running:
    """Return a cluster whose nodes are nearly full, and workloads that only moves could help."""
    chance = Random(seed)
    quota = chance.choice((4, 10, 100)) * WHOLE_MILLI
    restart, budget = chance.choice(((30, 400), (30, 5000), (300, 1000)))
    policy = Policy.model_validate(
        {
            "price": {"restart": restart},
            "reserve_fraction": 0,
            "consolidation": {"budget": budget, "protect_in_quota": chance.random() < 0.5},
        }
    )
    nodes = tuple(node(f"n{index}", GPUS) for index in range(chance.randint(6, 12)))
    queues = tuple(Queue(name, quota={"gpu": quota}) for name in ("p", "q"))
    running = Running(World(nodes, queues, (), policy))
    elastic: list[Placement] = []
    for index in range(len(nodes)):
        _fill(running, chance, index, elastic)
    spread = PodGroup("0", Request(devices=1), max(1, len(elastic)), chance.choice((1, max(1, len(elastic)))))
    running.tell(WorkloadSubmitted(Workload("elastic", "p", (spread,), spread.min, 0.0), 0.0))
    for place in elastic:
        running.tell(PodAssigned(place, 0.0))
    running.now_s = 100.0
    for name in sorted(running.cluster.jobs):
        if chance.random() < 0.5:
            running.tell(Checkpointed(name, chance.choice((20.0, 50.0, 70.5, 99.0))))
    for index in range(3):
        late = single(f"late-{index}", chance.choice("pq"), chance.choice(SIZES), submitted_s=100.0)
        running.tell(WorkloadSubmitted(late, 100.0))
    return running


def _fill(running: Running, chance: Random, index: int, elastic: list[Placement]) -> None:
    """Use most devices of a node; pods of the elastic workload are placed later."""
    device = 0
    while device < GPUS:
        kind = chance.random()
        if kind < 0.1:
            device += 1
            continue
        if kind < 0.25:
            elastic.append(Placement(PodKey("elastic", 0, len(elastic)), f"n{index}", (device,)))
            device += 1
            continue
        request = chance.choice(PARTS) if kind < 0.75 else Request(devices=chance.choice(SIZES))
        if device + request.devices > GPUS:
            break
        half = request.share_milli == WHOLE_MILLI // 2
        for number in range(1 + (half and chance.random() < 0.5)):
            name = f"n{index}-{device}-{number}"
            submitted_s = chance.choice((-1.0, -2.0, -3.0))
            work = Workload(name, chance.choice("pq"), (PodGroup("0", request),), 1, submitted_s)
            running.tell(WorkloadSubmitted(work, 0.0))
            held = tuple(range(device, device + request.devices))
            running.tell(PodAssigned(Placement(PodKey(name, 0, 0), f"n{index}", held), 0.0))
        device += request.devices


@examples(400)
@given(st.integers(0, 1 << 32), st.sampled_from((1, 2, 3)))
def test_moves_are_the_same_whichever_nodes_are_searched_first(seed: int, nodes_max: int) -> None:
    running = crowded(seed)
    cluster, policy, now_s = running.cluster, running.world.policy, running.now_s
    with patch(NODES_MAX, nodes_max):
        plan = decide(cluster, policy, now_s, EngineCache())

    assert answer(plan) == answer(decide(cluster, policy, now_s, EngineCache(bounds=False)))


def test_one_pod_gathers_the_victims_of_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    gathered: list[int] = []
    find = EligibleVictims.find

    def counted(victims: EligibleVictims) -> dict[Job, bool]:
        jobs = find(victims)
        gathered.append(len(jobs))
        return jobs

    monkeypatch.setattr(EligibleVictims, "find", counted)
    nodes, half = 60, Request(devices=1, share_milli=500)
    queues = (Queue("p", quota={"gpu": nodes * WHOLE_MILLI}),)
    running = Running(World(tuple(node(f"n{index}", 1) for index in range(nodes)), queues, (), Policy()))
    for index in range(nodes):
        work = Workload(f"half-{index}", "p", (PodGroup("0", half),), 1, float(index))
        running.tell(WorkloadSubmitted(work, 0.0))
        running.tell(PodAssigned(Placement(PodKey(work.name, 0, 0), f"n{index}", (0,)), 0.0))
    running.now_s = 100.0
    running.tell(WorkloadSubmitted(single("late", "p", submitted_s=100.0), 100.0))

    plan = running.cycle()

    assert [eviction.pod.workload for eviction in plan.evictions] == [f"half-{nodes - 1}"]
    assert gathered
    assert max(gathered) <= 16
