"""A reason that can't be found leaves the capacity of the next decision as it is."""

import pytest
from tests.unit.engine.spying import needs_sources

from weir.engine.allocation.allocate import new_allocator
from weir.engine.cache import EngineCache
from weir.engine.explanation import pending_refusals
from weir.engine.explanation.pending_refusals import PendingRefusals
from weir.scenario_io.reading import parse_scenario
from weir.simulation.scenario_runner import ScenarioRunner

WORLD = """
cluster: {nodes: [{name: n0, gpus: 2}, {name: n1, gpus: 2}]}
projects: [{name: team, quota: {gpu: 4}}]
workloads:
- {name: other, project: team, pods: [{gpus: 2, placed: [{node: n1}]}]}
- name: apart
  project: team
  pods: [{count: 2, gpus: 1, marks: [m], pod_anti_affinity: [{mark: m, topology: kubernetes.io/hostname}]}]
"""


@needs_sources
def test_an_error_while_pods_are_tried_releases_them(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = ScenarioRunner(parse_scenario(WORLD, "world"))
    cluster, policy = runner.cluster, runner.scenario.policy
    allocator = new_allocator(cluster, policy, 0.0, EngineCache())
    before = allocator.capacity.columns.free.tolist()

    def fail(*_: object) -> None:
        assert allocator.capacity.columns.free.tolist() != before, "pods are tried"
        raise ZeroDivisionError

    monkeypatch.setattr(pending_refusals, "shortage_of", fail)
    refusals = PendingRefusals(cluster, policy, 0.0, allocator.cache, allocator)
    for queued in cluster.waiting.values():
        with pytest.raises(ZeroDivisionError):
            refusals.of_class(queued)
    assert allocator.capacity.columns.free.tolist() == before
