"""The thorough search for victims under disruption budgets: its effort is bounded at any size."""

import pytest
from tests.properties.random_cluster import World, node, single
from tests.properties.running import Running
from tests.unit.engine.spying import needs_sources

from weir.engine.victims.legal_order import LegalOrder
from weir.engine.victims.victim_sets import Victim
from weir.model.budgets import DisruptionBudget
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import EvictionCause, EvictionRule
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.events import (
    BudgetSet,
    Placement,
    PodAssigned,
    PodKey,
    PodProtected,
    PodStopping,
    StopRefused,
    WorkloadSubmitted,
)

NODES, GPUS, PARTLY_FREE = 60, 8, 4
HALF = NODES * GPUS // 2 * 1000


def scene() -> Running:
    """A gang asks for half of a cluster, and exactly as much may be reclaimed with the free GPUs of four nodes.

    The gang would need all of these four, and a pod on one of them was just refused.
    """
    queues = (Queue("owner", quota={"gpu": HALF}), Queue("borrower", quota={"gpu": HALF}))
    running = Running(World(tuple(node(f"n{index}", GPUS) for index in range(NODES)), queues, (), Policy()))
    for index in range(NODES):
        for device in range(GPUS - (index < PARTLY_FREE)):
            pod = PodKey(f"one-{index}-{device}", 0, 0)
            running.tell(WorkloadSubmitted(single(pod.workload, "borrower"), 0.0))
            running.tell(PodAssigned(Placement(pod, f"n{index}", (device,)), 0.0))
    gang = PodGroup("0", Request(devices=GPUS), NODES // 2)
    running.tell(WorkloadSubmitted(Workload("all", "owner", (gang,), NODES // 2, submitted_s=0.0), 0.0))
    running.now_s = 600.0
    running.tell(BudgetSet(DisruptionBudget("borrower/few", 1)))
    running.tell(PodProtected(PodKey("one-9-0", 0, 0), ("borrower/few",)))
    refused = PodKey("one-0-0", 0, 0)
    running.tell(PodStopping(refused, 600.0, EvictionCause(EvictionRule.RECLAIM_QUOTA, "all", "")))
    running.tell(StopRefused(refused, 600.0, "denied", "all"))
    return running


@needs_sources
def test_a_gang_that_finds_no_victims_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    rule = LegalOrder.rule

    def counted(order: LegalOrder, victim: Victim) -> EvictionRule | None:
        nonlocal asked
        asked += 1
        return rule(order, victim)

    monkeypatch.setattr(LegalOrder, "rule", counted)
    assert not scene().cycle().evictions
    assert 0 < asked < 100_000


def test_a_gang_of_one_project_s_gpus_keeps_the_allowance_for_the_pod_that_needs_it() -> None:
    """The cheaper borrower on the first node uses up the allowance that the second node needs."""
    nodes = (node("n0", 2, gpu_model="A100"), node("n1", 1, gpu_model="H100"))
    queues = (Queue("owner", quota={"gpu": 3000}), Queue("borrower", quota={"gpu": 0}))
    running = Running(World(nodes, queues, (), Policy.model_validate({"consolidation": {"enabled": False}})))
    running.tell(BudgetSet(DisruptionBudget("borrower/few", 1)))
    for name, on, device, at_s in (("dear", "n0", 0, 0.0), ("cheap", "n0", 1, 500.0), ("last", "n1", 0, 0.0)):
        pod = PodKey(name, 0, 0)
        running.tell(WorkloadSubmitted(single(name, "borrower"), at_s))
        running.tell(PodAssigned(Placement(pod, on, (device,)), at_s))
        if name != "dear":
            running.tell(PodProtected(pod, ("borrower/few",)))
    groups = tuple(PodGroup(model, Request(devices=1, gpu_models=(model,))) for model in ("A100", "H100"))
    running.tell(WorkloadSubmitted(Workload("all", "owner", groups, 2, submitted_s=0.0), 0.0))
    running.now_s = 600.0
    assert {eviction.pod.workload for eviction in running.cycle().evictions} == {"dear", "last"}


def test_the_second_attempt_of_a_gang_bounds_nodes_by_what_its_first_pod_leaves() -> None:
    """The first pod takes the free GPUs of n0, where both attempts then need a victim of the higher tier."""
    queues = (Queue("owner", quota={"gpu": 6000}), Queue("borrower", quota={"gpu": 0}))
    world = World((node("n0", 4), node("n1", 2)), queues, (), Policy())
    running = Running(world)
    running.tell(BudgetSet(DisruptionBudget("borrower/few", 1)))
    for name, on, priority in (("dear", "n0", 60), ("cheap", "n1", 50)):
        pod = PodKey(name, 0, 0)
        group = PodGroup("0", Request(devices=2))
        running.tell(WorkloadSubmitted(Workload(name, "borrower", (group,), 1, 0.0, priority=priority), 0.0))
        running.tell(PodAssigned(Placement(pod, on, (0, 1)), 0.0))
        running.tell(PodProtected(pod, ("borrower/few",)))
    gang = PodGroup("0", Request(devices=2), 3)
    running.tell(WorkloadSubmitted(Workload("all", "owner", (gang,), 3, submitted_s=0.0), 0.0))
    running.now_s = 600.0
    assert not running.cycle().evictions
    running.tell(BudgetSet(DisruptionBudget("borrower/few", 2)))
    assert {eviction.pod.workload for eviction in running.cycle().evictions} == {"dear", "cheap"}
