"""Attempts while devices are being released: bounds hold for the capacity after the releases."""

import pytest

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.model.reasons import EvictionCause, EvictionRule
from weir.scenario_io.reading import parse_scenario
from weir.simulation.initial_events import build_cluster
from weir.state.events import PodKey, PodStopping
from weir.state.reduce import reduce

WORLD = """
cluster: {nodes: [{name: n0, gpus: 2}, {name: n1, gpus: 1}]}
projects: [{name: owner, quota: {gpu: 2}}, {name: other, quota: {gpu: 2}}]
workloads:
- {name: moves, project: other, pods: [{gpus: 1, placed: [{node: n0}]}]}
- {name: ends, project: other, pods: [{gpus: 1, placed: [{node: n1}]}]}
- {name: asks, project: owner, pods: [{gpus: 2}]}
"""


@pytest.mark.parametrize("bounds", [True, False])
def test_work_moves_to_a_device_that_is_being_released(bounds: bool) -> None:
    scenario = parse_scenario(WORLD, "world")
    cluster = build_cluster(scenario)
    reclaimed = EvictionCause(EvictionRule.RECLAIM_QUOTA, "owner", "")
    reduce(cluster, PodStopping(PodKey("ends", 0, 0), 0.0, reclaimed))

    plan = decide(cluster, scenario.policy, 1.0, EngineCache(bounds=bounds))

    assert [(eviction.pod.workload, eviction.moves) for eviction in plan.evictions] == [("moves", True)]
