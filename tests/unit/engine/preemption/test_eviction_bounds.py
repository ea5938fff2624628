"""No victims are gathered for a request that all evictable work together could not help."""

import pytest
from tests.unit.engine.spying import needs_sources

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.engine.victims.victim_candidates import EligibleVictims
from weir.scenario_io.reading import parse_scenario
from weir.simulation.initial_events import build_cluster
from weir.state.jobs import Job

FULL = """
cluster: {nodes: [{name: n0, gpus: 2}, {name: n1, gpus: 2}]}
projects: [{name: owner, quota: {gpu: 4}}, {name: other, quota: {gpu: OTHER}}]
policy: {consolidation: {enabled: false}MORE}
budgets: [{name: b, allowed: ALLOWED}]
workloads:
- {name: w0, project: other, submitted: -1h, pods: [{count: 2, gpus: 1, budgets: [b], placed: [{node: n0}, {node: n0}]}]}
- {name: w1, project: other, submitted: -1h, pods: [{count: 2, gpus: 1, budgets: [b], placed: [{node: n1}, {node: n1}]}]}
- {name: asks, project: owner, pods: [{gpus: 2}]}
"""


def full(allowed: int = 9, other: int = 0, settings: str = "") -> str:
    """Return two full nodes of another project, and an owner that asks for one of them."""
    return FULL.replace("ALLOWED", str(allowed)).replace("OTHER", str(other)).replace("MORE", settings)


def planned(world: str, *, bounds: bool = True) -> Plan:
    scenario = parse_scenario(world, "world")
    return decide(build_cluster(scenario), scenario.policy, 0.0, EngineCache(bounds=bounds))


def searches(world: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the number of times that victims were gathered in one cycle that does nothing."""
    count = 0
    find = EligibleVictims.find

    def counted(victims: EligibleVictims) -> dict[Job, bool]:
        nonlocal count
        count += 1
        return find(victims)

    monkeypatch.setattr(EligibleVictims, "find", counted)
    assert not planned(world).acts
    return count


def victims(plan: Plan) -> list[str]:
    return sorted(eviction.pod.workload for eviction in plan.evictions)


PREEMPTS = full(allowed=0).replace("project: other", "project: owner, priority: 10")


@needs_sources
@pytest.mark.parametrize(
    "world",
    [
        pytest.param(full(allowed=0), id="budgets that allow nothing"),
        pytest.param(full(allowed=1), id="a budget that allows less than a gang"),
        pytest.param(full(settings=", min_runtime: {train: 10h}"), id="minimum run times"),
        pytest.param(PREEMPTS, id="budgets of the project's own work"),
    ],
)
def test_no_victims_are_gathered_where_all_work_is_protected(
    world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert searches(world, monkeypatch) == 0


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(full(), id="nothing protects it"),
        pytest.param(full(allowed=2), id="a budget that allows one gang"),
        pytest.param(full(settings=", min_runtime: {build: 10h}"), id="a minimum run time of another type"),
        pytest.param(
            full(allowed=9).replace("project: other", "project: owner, priority: 10"), id="own work"
        ),
        pytest.param(full(allowed=0, settings=", budgets: {borrowed: override, grace: 0}"), id="override"),
        pytest.param(full(allowed=0).replace("gpus: 1, budgets: [b]", "gpus: 1", 1), id="one gang is free"),
    ],
)
def test_a_gang_is_evicted_where_its_protection_allows_it(world: str) -> None:
    plan = planned(world)
    assert len(set(victims(plan))) == 1
    assert len(plan.evictions) == 2
    assert plan.evictions == planned(world, bounds=False).evictions


def test_an_elastic_workload_gives_the_pods_that_its_budget_allows() -> None:
    world = full(allowed=1).replace("count: 2, gpus: 1", "count: 2, min: 1, gpus: 1")
    plan = planned(world.replace("pods: [{gpus: 2}]", "pods: [{gpus: 1}]"))
    assert len(plan.evictions) == 1
    assert (
        plan.evictions
        == planned(world.replace("pods: [{gpus: 2}]", "pods: [{gpus: 1}]"), bounds=False).evictions
    )


def test_a_gang_that_a_budget_protects_as_a_whole_moves_pod_by_pod() -> None:
    world = """
cluster: {nodes: [{name: n0, gpus: 2}, {name: n1, gpus: 2}, {name: n2, gpus: 1}]}
projects: [{name: owner, quota: {gpu: 3}}, {name: third, quota: {gpu: 2}}, {name: other, quota: {gpu: 0}}]
policy: {consolidation: {budget: 1e9}}
budgets: [{name: b, allowed: 1}]
workloads:
- name: gang
  project: third
  submitted: -1h
  pods: [{count: 2, gpus: 1, budgets: [b], placed: [{node: n0}, {node: n1}]}]
- {name: stays, project: owner, preemptible: false, pods: [{gpus: 1, placed: [{node: n0}]}]}
- {name: borrows, project: other, submitted: -1h, pods: [{gpus: 1, placed: [{node: n1}]}]}
- {name: asks, project: owner, pods: [{gpus: 2}]}
"""
    plan = planned(world)
    assert [(eviction.pod.workload, eviction.moves) for eviction in plan.evictions if eviction.moves] == [
        ("gang", True)
    ]
    assert victims(plan) == ["borrows", "gang"]
    assert plan.evictions == planned(world, bounds=False).evictions
