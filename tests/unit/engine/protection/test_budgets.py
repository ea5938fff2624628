"""Disruption budgets in reasons, and in the cluster state: stops that are refused, and allowances that change."""

import pytest
from tests.properties.cluster_view import differs, picture
from tests.properties.random_cluster import World, node, single
from tests.properties.running import Running

from weir.engine.explanation.pending_reasons import pending_reason
from weir.model.budgets import DisruptionBudget
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import EvictionCause, EvictionRule, Reason, ReasonCode
from weir.state.events import (
    BudgetRemoved,
    BudgetSet,
    Event,
    Nominated,
    Placement,
    PodAssigned,
    PodKey,
    PodProtected,
    PodStopping,
    StopRefused,
    WorkloadSubmitted,
)
from weir.state.jobs import Phase

QUEUES = (Queue("ta", quota={"gpu": 0}), Queue("tb", quota={"gpu": 16000}))
POLICY = Policy()
E0, E1 = PodKey("e0", 0, 0), PodKey("e1", 0, 0)


def scene(*budgets: tuple[str, int, PodKey], policy: Policy = POLICY) -> Running:
    """Two nodes that e0 and e1 of ta hold, and back of tb, which waits."""
    running = Running(World((node("n0", 8), node("n1", 8)), QUEUES, (), policy))
    for index, key in enumerate((E0, E1)):
        running.tell(WorkloadSubmitted(single(key.workload, "ta", 8), 0.0))
        running.tell(PodAssigned(Placement(key, f"n{index}", tuple(range(8))), 0.0))
    for name, allowed, key in budgets:
        running.tell(BudgetSet(DisruptionBudget(name, allowed)))
        running.tell(PodProtected(key, (name,)))
    running.tell(WorkloadSubmitted(single("back", "tb", 8), 0.0))
    return running


def why(running: Running, name: str = "back") -> Reason:
    reason = pending_reason(running.cluster, running.world.policy, running.cluster.jobs[name], running.now_s)
    assert reason is not None
    return reason


def test_reason_names_the_budget() -> None:
    running = scene(("ta/e0", 0, E0), ("ta/e1", 0, E1))
    assert not running.cycle().acts
    reported = why(running)
    assert reported.why is ReasonCode.NO_ELIGIBLE_VICTIMS
    assert reported.sentence.endswith(
        "16 GPUs are held by workloads that PodDisruptionBudgets ta/e0, ta/e1 protect"
    )
    assert reported.numbers["budgets"] == ["ta/e0", "ta/e1"]


def test_reason_of_protected_work_names_the_budget_that_keeps_it_within_its_quota() -> None:
    running = scene()
    second = single("more", "ta", 1, preemptible=False, protected=True)
    running.tell(BudgetSet(DisruptionBudget("ta/more", 0)))
    running.tell(WorkloadSubmitted(second, 0.0))
    running.tell(PodProtected(PodKey("more", 0, 0), ("ta/more",)))
    reported = why(running, "more")
    assert reported.why is ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA
    assert "PodDisruptionBudget ta/more protects it from eviction" in reported.sentence


def test_another_victim_is_chosen_in_the_cycle_after_a_refusal() -> None:
    running = scene()
    (first,) = running.cycle().evictions
    refused, other = first.pod, E1 if first.pod == E0 else E0
    running.going.clear()
    running = scene()
    running.tell(PodStopping(refused, 0.0, EvictionCause(EvictionRule.RECLAIM_QUOTA, "back", "")))
    running.tell(StopRefused(refused, 0.0, "Cannot evict pod.", "back"))
    assert [eviction.pod for eviction in running.cycle().evictions] == [other]


def test_a_refused_pod_is_asked_again_after_a_while_though_nothing_happens() -> None:
    running = scene(("ta/e1", 0, E1))
    running.tell(PodStopping(E0, 0.0, EvictionCause(EvictionRule.RECLAIM_QUOTA, "back", "")))
    running.tell(StopRefused(E0, 0.0, "denied", "back"))
    plan = running.cycle()
    assert not plan.acts
    assert plan.wake_s == 10.0
    assert "whose eviction was refused a moment ago" in why(running).sentence
    running.now_s = 10.0
    assert [eviction.pod for eviction in running.cycle().evictions] == [E0]


def test_refused_stop_leaves_the_state_as_it_was() -> None:
    running, same = scene(("ta/e0", 1, E0)), scene(("ta/e0", 1, E0))
    running.tell(PodStopping(E0, 5.0, EvictionCause(EvictionRule.RECLAIM_QUOTA, "back", "")))
    assert running.cluster.budgets["ta/e0"].allowed == 0
    running.tell(Nominated("e0", (Placement(E0, "n1", tuple(range(8))),), 5.0))
    running.tell(StopRefused(E0, 5.0, "denied", "back"))
    running.tell(StopRefused(E0, 5.0, "denied", "back"))
    assert running.cluster.jobs["e0"].pods[0][0].phase is Phase.RUNNING
    assert running.cluster.budgets["ta/e0"].allowed == 0
    assert differs(picture(running.cluster), picture(same.cluster)) == []


@pytest.mark.parametrize(
    "opens", [BudgetSet(DisruptionBudget("ta/e0", 1)), BudgetRemoved("ta/e0"), PodProtected(E0, ())]
)
def test_victim_is_taken_as_soon_as_its_budget_allows(opens: Event) -> None:
    running = scene(("ta/e0", 0, E0), ("ta/e1", 0, E1))
    assert not running.cycle().acts
    assert not running.cycle().acts
    running.tell(opens)
    assert [eviction.pod for eviction in running.cycle().evictions] == [E0]


def test_override_waits_for_the_grace_period_and_says_so_of_the_eviction() -> None:
    policy = Policy.model_validate({"budgets": {"borrowed": "override", "grace": "5m"}})
    running = scene(("ta/e0", 0, E0), ("ta/e1", 0, E1), policy=policy)
    plan = running.cycle()
    assert not plan.acts
    assert plan.wake_s == 300.0
    running.now_s = 300.0
    (eviction,) = running.cycle().evictions
    assert eviction.overrides


def test_override_applies_only_without_an_allowed_victim() -> None:
    policy = Policy.model_validate({"budgets": {"borrowed": "override", "grace": 0}})
    running = scene(("ta/e0", 0, E0), policy=policy)
    (eviction,) = running.cycle().evictions
    assert eviction.pod == E1
    assert not eviction.overrides


def test_several_budgets_of_a_pod_all_have_to_allow_it() -> None:
    running = scene(("a", 1, E0), ("b", 0, E1))
    running.tell(PodProtected(E0, ("a", "b")))
    assert not running.cycle().acts
    running.tell(BudgetSet(DisruptionBudget("b", 1)))
    assert len(running.cycle().evictions) == 1
