"""Swap: only work that is borrowed as a whole goes, and what comes stays within its limits."""

from dataclasses import replace

import pytest

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.model.nodes import Node, Topology
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, TopologyRequest, Workload
from weir.state.cluster import Cluster
from weir.state.events import (
    Checkpointed,
    NodeSet,
    Placement,
    PodAssigned,
    PodKey,
    QueuesSet,
    TopologiesSet,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
)
from weir.state.reduce import reduce


def _workload(name: str, project: str, devices: int, at_s: float) -> Workload:
    return Workload(name, project, (PodGroup("0", Request(devices=devices), 1, 1),), 1, at_s)


def _cluster(quota: int = 0, long: int = 1, model: str | None = None, **limit: int) -> Cluster:
    """Long workloads that have just saved their state, each on its node, and two short ones that wait.

    `limit` is that of the project of the short ones.
    """
    cluster = Cluster()
    amounts = {"cpu": 64_000, "memory": 64 << 30, "pods": 99}
    for index in range(long):
        reduce(cluster, NodeSet(Node(f"node{index}", 9, 16 << 30, amounts, gpu_model=model)))
    lends, comes = Queue("lends", quota={"gpu": quota * 1000}), Queue("comes", quota={"gpu": 0}, limit=limit)
    reduce(cluster, QueuesSet((lends, comes)))
    for index in range(20):
        for project, run_s in (("lends", 100_000.0), ("comes", 10.0)):
            ended = _workload(f"{project}-ended-{index}", project, 8, 0.0)
            reduce(cluster, WorkloadSubmitted(ended, 0.0))
            reduce(cluster, WorkloadEnded(ended.name, WorkloadOutcome.SUCCEEDED, 0.0, run_s))
    for index in range(long):
        reduce(cluster, WorkloadSubmitted(_workload(f"long{index}", "lends", 8, 0.0), 0.0))
        placement = Placement(PodKey(f"long{index}", 0, 0), f"node{index}", tuple(range(8)))
        reduce(cluster, PodAssigned(placement, 0.0))
    for name, priority in (("short", 60), ("shorter", 50)):
        reduce(cluster, WorkloadSubmitted(replace(_workload(name, "comes", 8, 1.0), priority=priority), 1.0))
    for index in range(long):
        reduce(cluster, Checkpointed(f"long{index}", 3600.0))
    return cluster


def _stopped(cluster: Cluster) -> list[str]:
    plan = decide(cluster, Policy(preset="throughput"), 3600.0, EngineCache())
    return [eviction.pod.workload for eviction in plan.evictions]


@pytest.mark.parametrize(("quota", "goes"), [(0, True), (7, False), (8, False)])
def test_only_what_is_borrowed_as_a_whole_changes_places(quota: int, goes: bool) -> None:
    assert _stopped(_cluster(quota)) == (["long0"] if goes else [])


@pytest.mark.parametrize(("limit", "swaps"), [(7_999, 0), (8_000, 1), (15_999, 1), (16_000, 2)])
def test_swaps_of_one_cycle_stay_within_a_limit_together(limit: int, swaps: int) -> None:
    assert len(_stopped(_cluster(long=2, gpu=limit))) == swaps


@pytest.mark.parametrize(("limit", "goes"), [(0, False), (7_999, False), (8_000, True)])
def test_a_swap_respects_the_limit_of_a_model_that_the_request_doesnt_name(limit: int, goes: bool) -> None:
    cluster = _cluster(model="H100", **{"gpu.H100": limit})
    assert _stopped(cluster) == (["long0"] if goes else [])


def test_a_swap_respects_the_quota_of_a_model_for_work_that_isnt_preemptible() -> None:
    for quota, goes in ((0, False), (8_000, True)):
        cluster = _cluster(model="H100")
        comes = Queue("comes", quota={"gpu": 8_000, "gpu.H100": quota})
        reduce(cluster, QueuesSet((Queue("lends", quota={"gpu": 0}), comes)))
        for name in ("short", "shorter"):
            reduce(cluster, WorkloadEnded(name, WorkloadOutcome.STOPPED, 2.0))
        fixed = replace(_workload("fixed", "comes", 8, 2.0), preemptible=False)
        reduce(cluster, WorkloadSubmitted(fixed, 2.0))
        assert bool(_stopped(cluster)) is goes


def _gang(name: str, project: str, at_s: float, topology: TopologyRequest | None = None) -> Workload:
    groups = (PodGroup("0", Request(devices=8), 2, 2),)
    return Workload(name, project, groups, 2, at_s, topology=topology)


def _racks(second: str, topology: str = "network", nodes: int = 1) -> Cluster:
    """A long gang on nodes in racks `a` and `second` has just saved its state; a short one prefers one rack.

    With two nodes in `second`, work that can't be stopped runs on the other.
    """
    cluster = Cluster()
    for name, rack in (("x", "a"), ("y", second), ("z", second))[: 1 + nodes]:
        amounts = {"cpu": 64_000, "memory": 64 << 30, "pods": 99}
        reduce(cluster, NodeSet(Node(name, 9, 16 << 30, amounts, labels={"rack": rack})))
    reduce(cluster, TopologiesSet((Topology("network", ("rack",)),)))
    reduce(cluster, QueuesSet((Queue("lends", quota={"gpu": 0}), Queue("comes", quota={"gpu": 0}))))
    for index in range(20):
        for project, run_s in (("lends", 100_000.0), ("comes", 10.0)):
            ended = _gang(f"{project}-ended-{index}", project, 0.0)
            reduce(cluster, WorkloadSubmitted(ended, 0.0))
            reduce(cluster, WorkloadEnded(ended.name, WorkloadOutcome.SUCCEEDED, 0.0, run_s))
    reduce(cluster, WorkloadSubmitted(_gang("long", "lends", 0.0), 0.0))
    for index, node in enumerate(("x", "y")):
        reduce(cluster, PodAssigned(Placement(PodKey("long", 0, index), node, tuple(range(8))), 0.0))
    if nodes > 1:
        reduce(
            cluster, WorkloadSubmitted(replace(_workload("fixed", "lends", 9, 0.0), preemptible=False), 0.0)
        )
        reduce(cluster, PodAssigned(Placement(PodKey("fixed", 0, 0), "z", tuple(range(9))), 0.0))
    asks = TopologyRequest(topology, preferred="rack")
    reduce(cluster, WorkloadSubmitted(_gang("short", "comes", 1.0, asks), 1.0))
    reduce(cluster, Checkpointed("long", 3600.0))
    return cluster


@pytest.mark.parametrize(
    ("second", "nodes", "patience", "goes"),
    [
        ("a", 1, "2h", True),
        ("b", 2, "2h", False),
        ("b", 2, "10m", True),
        ("b", 1, "2h", True),  # no rack could ever hold the gang, so it doesn't wait for one
    ],
)
def test_a_gang_that_waits_for_one_domain_doesnt_come_to_several(
    second: str, nodes: int, patience: str, goes: bool
) -> None:
    policy = Policy.model_validate({"preset": "throughput", "topology": {"patience": patience}})
    plan = decide(_racks(second, nodes=nodes), policy, 3600.0, EngineCache())
    assert {eviction.pod.workload for eviction in plan.evictions} == ({"long"} if goes else set())


def test_a_gang_with_an_unknown_topology_is_never_swapped() -> None:
    plan = decide(_racks("a", topology="nowhere"), Policy(preset="throughput"), 3600.0, EngineCache())
    assert not plan.evictions
