"""Bounds hold where the cluster has changed since work was placed: nodes, outages, and pods that don't exist."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.nodes import Outage
from weir.model.workloads import PodGroup, Request
from weir.scenario_io.reading import parse_scenario
from weir.simulation.initial_events import build_cluster
from weir.state.cluster import Cluster
from weir.state.events import Event, NodeSet, PodKey, WorkloadChanged
from weir.state.reduce import reduce

PART = """
cluster: {nodes: [{name: n0, gpus: 1, gpu_memory: 80Gi}]}
projects: [{name: owner, quota: {gpu: 1}}, {name: other, quota: {gpu: 0}}]
policy: {consolidation: {enabled: false}}
workloads:
- {name: part, project: other, submitted: -1h, pods: [{gpu_memory: 8Gi, placed: [{node: n0, gpus: [0]}]}]}
- {name: asks, project: owner, priority: 90, pods: [{gpus: 1}]}
"""
OUTAGE = """
cluster: {nodes: [{name: n0, gpus: 4}, {name: n1, gpus: 2}, {name: n2, gpus: 1}, {name: n3, gpus: 1}]}
projects: [{name: owner, quota: {gpu: 9}}, {name: third, quota: {gpu: 1}}, {name: other, quota: {gpu: 0}}]
policy: {consolidation: {budget: 10000}}
workloads:
- {name: borrows, project: other, submitted: -1h, pods: [{gpus: 4, placed: [{node: n0}]}]}
- {name: moves, project: third, submitted: -1h, pods: [{gpus: 1, placed: [{node: n1}]}]}
- {name: first, project: owner, priority: 90, pods: [{gpus: 4}]}
- {name: long, project: owner, priority: 60, max_runtime: 2h, pods: [{gpus: 2}]}
- {name: short, project: owner, max_runtime: 30m, pods: [{gpus: 2}]}
"""
ABSENT = """
cluster: {nodes: [{name: n0, gpus: 2}, {name: n1, gpus: 1}]}
projects: [{name: owner, quota: {gpu: 2}}, {name: other, quota: {gpu: 2}}]
policy: {consolidation: {budget: 2000}, price: {restart: 0}}
workloads:
- {name: moves, project: other, pods: [{gpus: 1, placed: [{node: n0}]}]}
- {name: asks, project: owner, pods: [{gpus: 2}]}
"""


def planned(world: str, changes: Iterable[Event], now_s: float = 0.0, *, bounds: bool) -> Plan:
    """Return the plan of one cycle after these changes."""
    scenario = parse_scenario(world, "world")
    cluster = build_cluster(scenario)
    for event in changes:
        reduce(cluster, event)
    return decide(cluster, scenario.policy, now_s, EngineCache(bounds=bounds))


def initial(world: str) -> Cluster:
    return build_cluster(parse_scenario(world, "world"))


def evicted(plan: Plan) -> list[tuple[str, bool]]:
    """Return the evicted workloads, with True for each that moves."""
    return [(eviction.pod.workload, eviction.moves) for eviction in plan.evictions]


@pytest.mark.parametrize("bounds", [True, False])
@pytest.mark.parametrize("project", ["other", "owner"])
def test_a_pod_frees_the_part_of_a_device_that_it_has_after_the_memory_was_corrected(
    project: str, bounds: bool
) -> None:
    world = PART.replace("part, project: other", f"part, project: {project}")
    node = initial(world).nodes[0]
    assert node is not None
    smaller = NodeSet(replace(node, gpu_memory=16 << 30))

    assert evicted(planned(world, [smaller], bounds=bounds)) == [("part", False)]


@pytest.mark.parametrize("bounds", [True, False])
def test_work_moves_for_a_short_run_before_an_outage_that_keeps_off_a_long_one(bounds: bool) -> None:
    node = initial(OUTAGE).nodes[1]
    assert node is not None
    free = ({0, 1} - set(initial(OUTAGE).jobs["moves"].pods[0][0].devices)).pop()
    outage = NodeSet(replace(node, outages=(Outage(3600.0, None, (free,)),)))

    plan = planned(OUTAGE, [outage], bounds=bounds)

    assert evicted(plan) == [("borrows", False), ("moves", True)]
    assert [nominated.workload for nominated in plan.nominations] == ["first", "moves", "short"]


@pytest.mark.parametrize("bounds", [True, False])
def test_a_gang_without_its_large_pods_moves_at_the_price_of_its_small_ones(bounds: bool) -> None:
    spec = initial(ABSENT).jobs["moves"].spec
    small = replace(spec.groups[0], min=0)
    large = PodGroup("large", Request(devices=4), count=1, min=0, order=1)
    changed = replace(spec, groups=(small, large), min_pods=1)
    absent = WorkloadChanged(changed, 0.0, frozenset({PodKey("moves", 1, 0)}))

    assert evicted(planned(ABSENT, [absent], 1000.0, bounds=bounds)) == [("moves", True)]
