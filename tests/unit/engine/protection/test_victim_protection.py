"""Reasons name the real protection of a victim, and details of a decision name the same."""

import pytest
from tests.properties.random_cluster import World, node, single
from tests.properties.running import Running

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.explanation.pending_reasons import pending_reason
from weir.engine.explanation.pending_refusals import PendingRefusals
from weir.engine.refusals.refusals import RefusalSentences
from weir.model.nodes import Outage
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import ReasonCode
from weir.model.workloads import PodGroup, Request, Workload
from weir.scenario_io.reading import parse_scenario
from weir.service.decision_details import explain_decision
from weir.service.decision_state import DecisionState
from weir.simulation.initial_events import build_cluster
from weir.state.events import Placement, PodAssigned, PodKey, WorkloadSubmitted

FULL = """
cluster: {{nodes: [{{name: node0, gpus: 4}}]}}
projects: [{{name: team}}, {{name: fixed, quota: {{gpu: 3}}}}]
workloads:
- {{name: stays, project: fixed, preemptible: false, pods: [{{gpus: 3, placed: [{{node: node0}}]}}]}}
- {{name: low, project: team, priority: {priority}, pods: [{{gpus: 1, placed: [{{node: node0}}]}}]}}
- {{name: asks, project: team, priority: 50, submitted: -2h, pods: [{{gpus: 4}}]}}
policy: {policy}
"""


def reported(priority: int, policy: str) -> tuple[ReasonCode, str]:
    scenario = parse_scenario(FULL.format(priority=priority, policy=policy), "world")
    cluster = build_cluster(scenario)
    reason = pending_reason(cluster, scenario.policy, cluster.jobs["asks"], 0.0)
    assert reason is not None
    return reason.why, reason.sentence


def test_workload_without_a_claim_may_stop_work_of_lower_priority_and_has_a_reason_that_counts_it() -> None:
    code, sentence = reported(10, "{}")
    assert code is ReasonCode.NO_ELIGIBLE_VICTIMS
    assert "the eligible victims (1 GPU) don't free enough" in sentence
    assert "it may only use free capacity" not in sentence


def test_priority_gained_by_waiting_counts() -> None:
    assert reported(60, "{}")[0] is ReasonCode.INSUFFICIENT_CAPACITY
    code, sentence = reported(60, "{aging: 20}")
    assert code is ReasonCode.NO_ELIGIBLE_VICTIMS
    assert "the eligible victims (1 GPU)" in sentence


def test_work_of_the_own_project_within_its_minimum_run_time_is_named() -> None:
    code, sentence = reported(10, "{min_runtime: {train: 1h}}")
    assert code is ReasonCode.NO_ELIGIBLE_VICTIMS
    assert "1 GPU is held by work of team within its minimum run time" in sentence


def test_gang_that_a_budget_protects_as_a_whole_names_the_budget() -> None:
    scenario = parse_scenario(
        """
cluster: {nodes: [{name: node0, gpus: 4}]}
projects: [{name: borrows}, {name: owns, quota: {gpu: 4}}]
budgets: [{name: borrows/half, allowed: 1}]
workloads:
- name: gang
  project: borrows
  pods: [{count: 2, gpus: 2, budgets: [borrows/half], placed: [{node: node0}, {node: node0}]}]
- {name: asks, project: owns, pods: [{gpus: 4}]}
""",
        "world",
    )
    state = DecisionState(build_cluster(scenario), EngineCache(), scenario.policy, 0.0)
    decision = explain_decision(state, "asks")
    assert decision is not None
    assert [row.protected for row in decision.victims] == ["PodDisruptionBudget borrows/half protects it"]


def test_pod_that_needs_parts_of_two_gpus_does_not_fit_one_with_as_much_free() -> None:
    running = Running(World((node("n0", 2),), (Queue("p0"),), ()))
    running.tell(WorkloadSubmitted(single("whole", "p0", priority=90), 0.0))
    running.tell(PodAssigned(Placement(PodKey("whole", 0, 0), "n0", (0,)), 0.0))
    group = PodGroup("0", Request(devices=2, share_milli=300))
    running.tell(WorkloadSubmitted(Workload("parts", "p0", (group,), 1, 0.0), 0.0))
    reason = pending_reason(running.cluster, Policy(), running.cluster.jobs["parts"], 1.0)
    assert reason is not None
    assert reason.why is ReasonCode.NO_ELIGIBLE_VICTIMS  # and not that each pod fits, but not all at once
    assert reason.numbers["short"] == {"gpu": 1}


def test_refusal_stays_the_same_object_until_time_changes_it() -> None:
    policy, outage = Policy(), Outage(from_s=86_400.0, until_s=90_000.0)
    queues = (Queue("owner", quota={"gpu": 4000}), Queue("lender", quota={"gpu": 4000}))
    running = Running(World((node("n0", 4, outages=(outage,)),), queues, (), policy))
    running.tell(WorkloadSubmitted(single("holds", "lender", 4, max_runtime_s=3600.0), 0.0))
    running.tell(PodAssigned(Placement(PodKey("holds", 0, 0), "n0", (0, 1, 2, 3)), 0.0))
    running.tell(WorkloadSubmitted(single("asks", "owner", 4, max_runtime_s=3600.0), 0.0))
    queued, cache, changed_s = running.cluster.jobs["asks"].waiting, EngineCache(), []
    assert queued is not None
    before = None
    for now_s in (1.0, 2.0, 599.0, 600.0, 601.0, 86_399.0, 86_400.0, 86_401.0):
        refusal = PendingRefusals(running.cluster, policy, now_s, cache).of_class(queued)
        if refusal is not before:
            changed_s.append(now_s)
        before = refusal
    assert changed_s == [1.0, 86_400.0]


def test_work_over_quota_beside_a_node_with_an_outage_has_the_reason_of_the_headroom() -> None:
    outage = Outage(from_s=600.0, until_s=900.0)
    nodes = (node("n0", 4), node("n1", 4, outages=(outage,)))
    policy = Policy(reserve_fraction=0.5)
    running = Running(World(nodes, (Queue("p0", quota={"gpu": 0}),), (), policy))
    running.tell(WorkloadSubmitted(single("asks", "p0", 4, max_runtime_s=3600.0), 0.0))
    running.tell(WorkloadSubmitted(single("more", "p0", 1, max_runtime_s=3600.0), 0.0))
    running.tell(PodAssigned(Placement(PodKey("more", 0, 0), "n1", (0,)), 0.0))
    reason = pending_reason(running.cluster, policy, running.cluster.jobs["asks"], 1.0)
    assert reason is not None
    assert reason.why is ReasonCode.CAPACITY_RESERVED
    assert "kept for owners" in reason.sentence


def test_work_over_quota_that_no_reservation_binds_has_the_reason_of_the_headroom_beside_an_outage() -> None:
    outage = Outage(from_s=600.0, until_s=900.0)
    nodes = (node("n0", 4), node("n1", 4, outages=(outage,)))
    queues = (Queue("p0", quota={"gpu": 0}), Queue("owner", quota={"gpu": 8000}))
    policy = Policy(reserve_fraction=0.5)
    running = Running(World(nodes, queues, (), policy))
    running.tell(WorkloadSubmitted(single("more", "p0", 1, max_runtime_s=3600.0), 0.0))
    running.tell(PodAssigned(Placement(PodKey("more", 0, 0), "n1", (0,)), 0.0))
    group, waited_s = PodGroup("0", Request(devices=4), 2, 2), 10 * policy.reserve_after
    gang = Workload("gang", "owner", (group,), 2, -waited_s, preemptible=False, max_runtime_s=300.0)
    running.tell(WorkloadSubmitted(gang, -waited_s))
    running.tell(WorkloadSubmitted(single("asks", "p0", 4, max_runtime_s=3600.0), 0.0))
    reason = pending_reason(running.cluster, policy, running.cluster.jobs["asks"], 1.0)
    assert reason is not None
    assert "kept for owners" in reason.sentence


SEVERAL = """
cluster: {nodes: [{name: "n[0-1]", gpus: 2, cpu: 64}]}
departments: [{name: lab}]
projects: [{name: holds, department: lab, quota: {gpu: 3}}, {name: asks, department: lab, quota: {gpu: 2}}]
workloads:
- {name: a, project: holds, pods: [{gpus: 1, placed: [{node: n0}]}]}
- {name: b, project: holds, pods: [{gpus: 1, placed: [{node: n0}]}]}
- {name: c, project: holds, pods: [{gpus: 1, placed: [{node: n1}]}]}
- {name: d, project: holds, pods: [{gpus: 1, placed: [{node: n1}]}]}
- {name: waits, project: asks, pods: [{gpus: 2}]}
"""


@pytest.mark.parametrize(
    ("search_steps", "sentence"),
    [(1000, "don't free enough"), (1, "weren't tried in every combination: the search is bounded")],
)
def test_plan_says_that_the_search_for_victims_ended_at_its_bound(search_steps: int, sentence: str) -> None:
    scenario = parse_scenario(SEVERAL, "world")
    cluster = build_cluster(scenario)
    policy = scenario.policy.model_copy(update={"search_steps": search_steps})
    plan = decide(cluster, policy, 0.0, EngineCache())
    assert not plan.acts
    queued = cluster.jobs["waits"].waiting
    assert queued is not None
    assert plan.refusals is not None
    reason = RefusalSentences(cluster, 0.0).reason_of(plan.refusals.of_class(queued))
    assert reason.why is ReasonCode.NO_ELIGIBLE_VICTIMS
    assert f"the eligible victims (4 GPUs) {sentence}" in reason.sentence
