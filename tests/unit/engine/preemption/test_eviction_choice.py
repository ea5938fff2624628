"""An eviction says what it costs, and what the next choice of victims would have cost."""

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.scenario_io.reading import parse_scenario
from weir.simulation.initial_events import build_cluster

WORLD = """
cluster: {{nodes: [{{name: "n[0-1]", gpus: 4, cpu: 64, memory: 64Gi}}]}}
policy: {{preset: throughput, price: {{restart: 0}}}}
projects: [{{name: owner, quota: {{gpu: 8}}}}, {{name: lender, quota: {{gpu: 0}}}}]
workloads:
- {{name: long, project: lender, submitted: -5h, started: -5h, priority: {priority}, pods: [{{gpus: 4, placed: [{{node: n0}}]}}]}}
- {{name: short, project: lender, submitted: -5h, started: {short}, pods: [{{gpus: 4, placed: [{{node: n1}}]}}]}}
- {{name: asks, project: owner, pods: [{asks}]}}
"""
ONE_POD = "{gpus: 4}"
TWO_PODS = "{gpus: 4, count: 2}"


def planned(asks: str, priority: int = 50, short: str = "-2h") -> Plan:
    scenario = parse_scenario(WORLD.format(asks=asks, priority=priority, short=short), "world")
    return decide(build_cluster(scenario), scenario.policy, 0.0, EngineCache())


def test_next_node_is_named_with_the_difference_in_price() -> None:
    (eviction,) = planned(ONE_POD).evictions
    assert eviction.pod.workload == "short"
    assert eviction.cause.choice == (
        "The eviction costs 8.00 GPU-hours of work since the last checkpoint. "
        "The next choice, on n0, costs at least 12 GPU-hours more."
    )


def test_next_node_that_is_protected_by_its_priority_is_said_to_come_later() -> None:
    (eviction,) = planned(ONE_POD, priority=60).evictions
    assert eviction.cause.choice.endswith(
        "The next choice, on n0, comes later by quota, fair share or priority."
    )


def test_evictions_for_a_gang_say_what_they_cost_together() -> None:
    evictions = planned(TWO_PODS).evictions
    assert {eviction.pod.workload for eviction in evictions} == {"long", "short"}
    assert {eviction.cause.choice for eviction in evictions} == {
        "The 2 evictions cost 28 GPU-hours of work since the last checkpoints."
    }


def test_next_node_of_the_same_price_is_said_to_cost_at_least_as_much() -> None:
    (eviction,) = planned(ONE_POD, short="-5h").evictions
    assert eviction.cause.choice.endswith("costs at least as much.")


def test_other_workloads_on_the_same_node_are_the_next_choice() -> None:
    text = """
cluster: {nodes: [{name: n0, gpus: 4, cpu: 64, memory: 64Gi}]}
policy: {preset: throughput, price: {restart: 0}}
projects: [{name: owner, quota: {gpu: 4}}, {name: lender, quota: {gpu: 0}}]
workloads:
- {name: long, project: lender, submitted: -5h, started: -5h, pods: [{gpus: 2, placed: [{node: n0}]}]}
- {name: short, project: lender, submitted: -5h, started: -2h, pods: [{gpus: 2, placed: [{node: n0}]}]}
- {name: asks, project: owner, pods: [{gpus: 2}]}
"""
    scenario = parse_scenario(text, "world")
    (eviction,) = decide(build_cluster(scenario), scenario.policy, 0.0, EngineCache()).evictions
    assert eviction.pod.workload == "short"
    assert eviction.cause.choice == (
        "The eviction costs 4.00 GPU-hours of work since the last checkpoint. "
        "The next choice, to stop long instead, costs at least 6.00 GPU-hours more."
    )
