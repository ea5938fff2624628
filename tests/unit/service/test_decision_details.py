"""Details of a decision name the node that is chosen, and as eligible every victim that is taken."""

from weir.api.decision import DecisionAnswer
from weir.cli.output.terminal import Screen
from weir.cli.workloads.decision import decision_lines
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.scenario_io.reading import parse_scenario
from weir.service.decision_details import explain_decision
from weir.service.decision_state import DecisionState
from weir.simulation.initial_events import build_cluster
from weir.state.events import Nominated, PodStopping
from weir.state.reduce import reduce

FULL = """
cluster: {nodes: [{name: "n[0-1]", gpus: 4, cpu: 64, memory: 64Gi}]}
projects: [{name: owner, quota: {gpu: 4}}, {name: lender, quota: {gpu: 0}}]
workloads:
- {name: short, project: lender, preemptible: true, pods: [{gpus: 2, placed: [{node: n0}]}]}
- {name: fixed, project: owner, preemptible: false, pods: [{gpus: 2, placed: [{node: n0}]}]}
- {name: long, project: lender, preemptible: true, pods: [{gpus: 4, placed: [{node: n1}]}]}
- {name: asks, project: owner, pods: [{gpus: 2}]}
"""
FREE = """
cluster: {nodes: [{name: empty, gpus: 4, cpu: 64, memory: 64Gi}, {name: started, gpus: 4, cpu: 64, memory: 64Gi}]}
projects: [{name: owner, quota: {gpu: 4}}]
workloads:
- {name: runs, project: owner, pods: [{gpus: 2, placed: [{node: started}]}]}
- {name: asks, project: owner, pods: [{gpus: 2}]}
"""


def explained(text: str, name: str) -> DecisionAnswer:
    scenario = parse_scenario(text, "world")
    state = DecisionState(build_cluster(scenario), EngineCache(), scenario.policy, 0.0)
    decision = explain_decision(state, name)
    assert decision is not None
    return decision


def planned(text: str) -> Plan:
    scenario = parse_scenario(text, "world")
    return decide(build_cluster(scenario), scenario.policy, 0.0, EngineCache())


def test_first_node_of_a_ranking_is_the_node_of_the_plan() -> None:
    (ranking,) = explained(FREE, "asks").rankings
    (place,) = planned(FREE).binds
    assert [row.node for row in ranking.nodes] == ["started", "empty"]
    assert (place.pod.workload, place.node) == ("asks", ranking.nodes[0].node)
    assert (ranking.fitting, [row.free_gpus for row in ranking.nodes]) == (2, [2, 4])


def test_victims_of_the_plan_are_eligible_and_others_say_what_protects_them() -> None:
    decision = explained(FULL, "asks")
    assert [ranking.fitting for ranking in decision.rankings] == [0]
    rows = {row.workload: row for row in decision.victims}
    stopped = {eviction.pod.workload for eviction in planned(FULL).evictions}
    assert stopped
    assert stopped <= {name for name, row in rows.items() if not row.protected}
    assert rows["short"].rule == "reclaim_quota"
    assert rows["short"].price is not None
    assert rows["fixed"].protected == "it is non-preemptible"
    assert (decision.eligible, decision.protected) == (2, 1)


def test_columns_may_be_wider_than_the_number_of_nodes() -> None:
    """Columns grow by half, so that five nodes have six."""
    for name in ("asks", "runs"):
        assert explained(FREE.replace("{name: empty,", '{name: "empty[0-3]",'), name).rankings[0].fitting == 5


def test_running_workload_is_explained_as_if_it_were_placed_again() -> None:
    decision = explained(FREE, "runs")
    assert decision.again
    assert decision.rankings[0].fitting == 2
    assert "If it had to be placed now, this would be the decision" in "\n".join(
        decision_lines(decision, Screen(None, None, colour=False))
    )


def test_node_has_the_free_gpus_beside_capacity_that_is_being_freed() -> None:
    """A nomination on devices that others still hold takes none of the free ones."""
    text = """
cluster: {nodes: [{name: n0, gpus: 4, cpu: 64, memory: 64Gi}]}
projects: [{name: owner, quota: {gpu: 2}}, {name: lender, quota: {gpu: 2}}]
workloads:
- {name: lent, project: lender, pods: [{gpus: 3, placed: [{node: n0}]}]}
- {name: runs, project: owner, pods: [{gpus: 1, placed: [{node: n0}]}]}
- {name: asks, project: owner, pods: [{gpus: 1}]}
"""
    scenario = parse_scenario(text, "world")
    cluster, cache = build_cluster(scenario), EngineCache()
    plan = decide(cluster, scenario.policy, 0.0, cache)
    for eviction in plan.evictions:
        reduce(cluster, PodStopping(eviction.pod, 0.0, eviction.cause))
    for nominated in plan.nominations:
        reduce(cluster, Nominated(nominated.workload, nominated.places, 0.0, nominated.freed_by))
    decision = explain_decision(DecisionState(cluster, cache, scenario.policy, 0.0), "runs")
    assert decision is not None
    (ranking,) = decision.rankings
    assert [(row.node, row.free_gpus) for row in ranking.nodes] == [("n0", 1)]


def test_terminal_marks_the_chosen_node_and_the_protected_victim() -> None:
    screen = Screen(None, None, colour=False)
    lines = "\n".join(decision_lines(explained(FREE, "asks"), screen))
    assert "best first (2 nodes have the capacity)" in lines
    assert [line.split()[0] for line in lines.splitlines() if line.endswith("chosen")] == ["started"]
    lines = "\n".join(decision_lines(explained(FULL, "asks"), screen))
    assert "No node has the capacity for its next pod now" in lines
    assert "protected: it is non-preemptible" in lines
    print(lines)
