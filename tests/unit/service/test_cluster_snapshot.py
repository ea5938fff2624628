"""The live pool as a scenario, and the copies trials are made on: both decide as the pool does."""

import random
from collections.abc import Iterator

import pytest
from tests.cluster_copy import cluster_facts, copy_cluster

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.policy import Policy
from weir.model.workloads import PodGroup, Request, Workload
from weir.scenario_io.reading import parse_scenario
from weir.service.cluster_snapshot import read_cluster, snapshot
from weir.service.decision_state import DecisionState
from weir.service.what_if import WhatIf
from weir.simulation.initial_events import build_cluster
from weir.simulation.scenario_runner import ScenarioRunner
from weir.state.cluster import Cluster
from weir.state.events import (
    HistoryRestored,
    NodeLost,
    Placement,
    PodAssigned,
    PodKey,
    PodStopped,
    WorkloadChanged,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
    WorkloadSuspended,
)
from weir.state.reduce import reduce

WORLD = """
cluster:
  nodes: [{name: "node-[0-3]", gpus: 4, cpu: 32, memory: 256Gi}]
departments: [{name: lab, quota: {gpu: 12}}]
projects:
  - {name: a, department: lab, quota: {gpu: 6}}
  - {name: b, department: lab, quota: {gpu: 6}}
  - {name: c, quota: {gpu: 4}}
"""


def _workloads(dice: random.Random) -> Iterator[Workload]:
    for index in range(dice.randrange(5, 30)):
        devices = dice.choice([0, 1, 1, 2, 4])
        share = dice.choice([1000, 1000, 500]) if devices == 1 else 1000
        group = PodGroup("0", Request(devices, share), dice.choice([1, 1, 2, 3]), 1)
        yield Workload(
            f"job-{index}",
            dice.choice("abc"),
            (group,),
            dice.randrange(1, group.count + 1),
            1000.0 + index,
            priority=dice.choice([50, 60, 100]),
            preemptible=dice.random() < 0.8,
        )


def lived(seed: int) -> tuple[Cluster, EngineCache, float]:
    """A cluster something has happened in, its plans carried out at once."""
    dice = random.Random(seed)
    cluster, cache, now_s = build_cluster(parse_scenario(WORLD, "world")), EngineCache(), 1000.0
    for workload in _workloads(dice):
        reduce(cluster, WorkloadSubmitted(workload, workload.submitted_s))
        now_s = workload.submitted_s + 0.5
        if dice.random() < 0.6:
            for place in decide(cluster, Policy(), now_s, cache).binds:
                reduce(cluster, PodAssigned(place, now_s))
        if cluster.jobs and dice.random() < 0.2:
            reduce(cluster, WorkloadEnded(dice.choice(sorted(cluster.jobs)), WorkloadOutcome.STOPPED, now_s))
        if cluster.jobs and dice.random() < 0.1:
            name = dice.choice(sorted(cluster.jobs))
            if not cluster.jobs[name].is_running:
                reduce(cluster, WorkloadSuspended(name, True, "a test says so"))
    return cluster, cache, now_s + 1


def answer(plan: Plan) -> tuple[object, ...]:
    return plan.binds, plan.evictions, plan.nominations, plan.drops


@pytest.mark.parametrize("seed", range(40))
def test_a_copy_decides_alike(seed: int) -> None:
    cluster, cache, now_s = lived(seed)
    copy = copy_cluster(cluster_facts(cluster))
    assert answer(decide(copy, Policy(), now_s, EngineCache())) == answer(
        decide(cluster, Policy(), now_s, cache)
    )


def test_a_copy_has_the_same_mix_of_requests() -> None:
    """Once enough was asked for, decisions go by what is usual, with the capacity there was then."""
    cluster, now_s = build_cluster(parse_scenario(WORLD, "world")), 1000.0
    for index in range(80):
        group = PodGroup("0", Request(1 + index % 2, 1000), 1, 1)
        reduce(cluster, WorkloadSubmitted(Workload(f"job-{index}", "a", (group,), 1, now_s), now_s))
    assert cluster.mix.drawn
    reduce(cluster, NodeLost("node-1"))
    copy = copy_cluster(cluster_facts(cluster))
    assert answer(decide(copy, Policy(), now_s, EngineCache())) == answer(
        decide(cluster, Policy(), now_s, EngineCache())
    )
    state = DecisionState(cluster, EngineCache(), Policy(), now_s)
    trials = WhatIf(lambda read: read(state), "job-79")
    assert trials.tried(trials.job.spec) is None


@pytest.mark.parametrize("seed", range(40))
def test_the_first_cycle_of_a_snapshot_is_the_next_decision(seed: int) -> None:
    cluster, cache, now_s = lived(seed)
    plan = decide(cluster, Policy(), now_s, cache)
    played = ScenarioRunner(parse_scenario(snapshot(read_cluster(cluster, Policy()), now_s), "snapshot"))
    played.cycle()
    assert answer(played.plan) == answer(plan)


PROTECTED = """
cluster: {nodes: [{name: "n[0-1]", gpus: 4}]}
projects: [{name: a}, {name: b, quota: {gpu: 4}}]
budgets: [{name: never}, {name: one, allowed: 1}]
workloads:
  - {name: kept, project: a, submitted: -1h, pods: [{gpus: 4, budgets: [never], placed: [{node: n0}]}]}
  - {name: goes, project: a, submitted: -9h, pods: [{gpus: 4, budgets: [one], placed: [{node: n1}]}]}
  - {name: owner, project: b, pods: [{gpus: 4}]}
"""


def test_disruption_budgets_are_part_of_copies_and_snapshots() -> None:
    cluster = build_cluster(parse_scenario(PROTECTED, "world"))
    picture = cluster_facts(cluster)
    evicted = [
        eviction.pod.workload
        for eviction in decide(copy_cluster(picture), Policy(), 0.0, EngineCache()).evictions
    ]
    assert evicted == ["goes"]
    scenario = parse_scenario(snapshot(read_cluster(cluster, Policy()), 0.0), "snapshot")
    assert [(budget.name, budget.allowed) for budget in scenario.budgets] == [("never", 0), ("one", 1)]
    assert scenario.protected == {("kept", 0): ("never",), ("goes", 0): ("one",)}


def short_gang(missing: str) -> tuple[Cluster, float]:
    """A gang of four that has run with three pods for 20 s of its grace; the fourth waits or isn't made yet."""
    cluster = build_cluster(parse_scenario(WORLD, "world"))
    gang = Workload("gang", "a", (PodGroup("0", Request(1, 1000), 4, 4),), 4, 1000.0)
    reduce(cluster, WorkloadSubmitted(gang, 1000.0))
    for place in decide(cluster, Policy(), 1000.0, EngineCache()).binds:
        reduce(cluster, PodAssigned(place, 1000.0))
    last = PodKey("gang", 0, 3)
    reduce(cluster, PodStopped(last, 1500.0))
    if missing == "absent":
        reduce(cluster, WorkloadChanged(gang, 1500.0, frozenset((last,))))
    else:
        for index in range(4):
            if not cluster.pods_on[index]:
                reduce(cluster, NodeLost(f"node-{index}"))
        full = Workload("full", "b", (PodGroup("0", Request(1, 1000), 1, 1),), 1, 1000.0, preemptible=False)
        reduce(cluster, WorkloadSubmitted(full, 1500.0))
        reduce(cluster, PodAssigned(Placement(PodKey("full", 0, 0), "node-0", (3,)), 1500.0))
    return cluster, 1520.0


@pytest.mark.parametrize("missing", ["absent", "pending"])
@pytest.mark.parametrize("later_s", [0.0, 30.0, 60.0])
def test_a_gang_that_is_short_of_pods_keeps_its_grace_in_a_snapshot(missing: str, later_s: float) -> None:
    cluster, now_s = short_gang(missing)
    now_s += later_s
    plan = decide(cluster, Policy(), now_s, EngineCache())
    played = ScenarioRunner(parse_scenario(snapshot(read_cluster(cluster, Policy()), now_s), "snapshot"))
    played.cycle()
    assert answer(played.plan) == answer(plan)
    assert bool(plan.evictions) == (later_s == 60.0)


def test_whom_a_workload_was_stopped_for_is_in_a_snapshot() -> None:
    cluster, _, now_s = lived(3)
    waits_s, stopped_s = now_s - 8.0, now_s - 4.0
    name = next(name for name, job in cluster.jobs.items() if not job.is_running and not job.held)
    reduce(cluster, HistoryRestored(name, waits_s, None, (("job-other", stopped_s),)))
    copy = copy_cluster(cluster_facts(cluster)).jobs[name]
    assert (copy.waits_since_s, copy.stopped_for) == (waits_s, {"job-other": stopped_s})
    scenario = parse_scenario(snapshot(read_cluster(cluster, Policy()), now_s), "snapshot")
    past = scenario.past[name]
    assert (past.waits_since_s, past.stopped_for) == (-8.0, (("job-other", -4.0),))
    job = build_cluster(scenario).jobs[name]
    assert (job.waits_since_s, job.stopped_for) == (-8.0, {"job-other": -4.0})
