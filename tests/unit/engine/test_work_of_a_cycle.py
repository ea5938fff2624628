"""The work of one cycle is bounded: a burst of preemptions goes on in the cycle that follows at once."""

from dataclasses import replace
from typing import Any

import pytest
from tests.compiled import is_compiled
from tests.properties.random_cluster import World, node, single
from tests.properties.running import Running

from weir.engine.order.queue_order import Candidate
from weir.engine.placement import outages
from weir.engine.preemption import preemption
from weir.engine.victims.cheapest_node import CheapestNode
from weir.model.nodes import Outage
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.run_limits import longest_run_s
from weir.model.workloads import PodAffinityRule, PodGroup, Request, Workload
from weir.state.events import NodeSet, Placement, PodAssigned, PodKey, WorkloadSubmitted
from weir.state.jobs import Phase

HOSTNAME = "kubernetes.io/hostname"
counts_calls = pytest.mark.skipif(
    is_compiled(str(preemption.__file__)), reason="calls within a compiled class can't be counted"
)


def borrowed(nodes: int, gpus: int) -> Running:
    """A borrower holds every device of the owner."""
    queues = (Queue("owner", quota={"gpu": nodes * gpus * 1000}), Queue("borrower", quota={"gpu": 0}))
    running = Running(World(tuple(node(f"n{index}", gpus) for index in range(nodes)), queues, (), Policy()))
    for index in range(nodes):
        for device in range(gpus):
            pod = PodKey(f"one-{index}-{device}", 0, 0)
            running.tell(WorkloadSubmitted(single(pod.workload, "borrower"), 0.0))
            running.tell(PodAssigned(Placement(pod, f"n{index}", (device,)), 0.0))
    running.now_s = 600.0
    return running


def test_a_burst_of_reclaims_is_spread_over_cycles_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "PODS_AT_ONCE_MAX", 1000)
    running = borrowed(10, 4)
    for index in range(40):
        running.tell(WorkloadSubmitted(single(f"late-{index}", "owner"), 600.0))

    first = running.cycle()

    assert 0 < len(first.nominations) < 20
    assert first.wake_s == 600.0
    for _ in range(20):
        running.cycle()
    late = [running.cluster.jobs[f"late-{index}"] for index in range(40)]
    assert all(job.pods[0][0].phase is Phase.RUNNING for job in late)


def test_one_preemption_alone_is_never_cut_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "PODS_AT_ONCE_MAX", 1)
    running = borrowed(10, 4)
    gang = PodGroup("0", Request(devices=4), 10, 10)
    running.tell(WorkloadSubmitted(Workload("all", "owner", (gang,), 10, 600.0), 600.0))

    plan = running.cycle()

    assert len(plan.evictions) == 40
    assert [len(nomination.places) for nomination in plan.nominations] == [10]


@counts_calls
@pytest.mark.parametrize("pods", [40, 41])
def test_a_gang_of_one_pod_a_node_looks_at_each_node_a_few_times(
    pods: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    look_into = CheapestNode._look_into

    def counted(search: CheapestNode, *given: object) -> bool:
        nonlocal looks
        looks += 1
        return look_into(search, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(CheapestNode, "_look_into", counted)
    running = borrowed(40, 2)
    apart = PodAffinityRule("anti_affinity", "apart", HOSTNAME)
    request = replace(Request(devices=1), marks=("apart",), pod_rules=(apart,))
    gang = PodGroup("0", request, pods, pods)
    running.tell(WorkloadSubmitted(Workload("gang", "owner", (gang,), pods, 600.0), 600.0))

    plan = running.cycle()

    assert len(plan.evictions) == (pods if pods == 40 else 0)
    assert looks < 200


def test_the_longest_run_is_computed_once_for_all_maintenance_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0

    def counted(*given: Any) -> float | None:
        nonlocal asked
        asked += 1
        return longest_run_s(*given)

    monkeypatch.setattr(outages, "longest_run_s", counted)
    running = borrowed(40, 2)
    for world_node in running.world.nodes:
        windows = tuple(Outage(1e6 * day, 1e6 * day + 60.0) for day in range(1, 6))
        running.tell(NodeSet(replace(world_node, outages=windows)))
    running.tell(WorkloadSubmitted(single("late", "owner"), 600.0))

    assert len(running.cycle().evictions) == 1
    assert 0 < asked < 200


def test_devices_that_vanished_free_nothing_for_a_reclaim() -> None:
    """A node loses half of its devices, and those who hold them would be the cheapest to stop."""
    queues = (Queue("owner", quota={"gpu": 8000}), Queue("borrower", quota={"gpu": 0}))
    running = Running(World((node("n0", 8),), queues, (), Policy()))
    for name, devices, started_s in (("kept", (0, 1, 2, 3), 0.0), ("gone", (4, 5, 6, 7), 500.0)):
        running.tell(WorkloadSubmitted(single(name, "borrower", 4), started_s))
        running.tell(PodAssigned(Placement(PodKey(name, 0, 0), "n0", devices), started_s))
    running.tell(NodeSet(node("n0", 4)))
    running.now_s = 600.0
    running.tell(WorkloadSubmitted(single("late", "owner", 2), 600.0))

    plan = running.cycle()

    assert [eviction.pod.workload for eviction in plan.evictions] == ["kept"]


def halves_and_late(policy: Policy, started_s: tuple[float, ...], now_s: float) -> Running:
    """Halves of devices that run since these times, whole devices in use, and work over quota that waits."""
    queues = tuple(Queue(f"p{index}", quota={"gpu": 0}) for index in range(8))
    running = Running(World(tuple(node(f"n{index}", 1) for index in range(10)), queues, (), policy))
    half = PodGroup("0", Request(devices=1, share_milli=500))
    for index in range(10):
        name, group = f"one-{index}", half if index < len(started_s) else PodGroup("0", Request(devices=1))
        since_s = started_s[index] if index < len(started_s) else 0.0
        running.tell(WorkloadSubmitted(Workload(name, "p0", (group,), 1, since_s), since_s))
        running.tell(PodAssigned(Placement(PodKey(name, 0, 0), f"n{index}", (0,)), since_s))
    running.now_s = now_s
    for index in range(8):
        running.tell(WorkloadSubmitted(single(f"late-{index}", f"p{index}"), now_s))
    return running


@counts_calls
@pytest.mark.parametrize(
    ("reserved", "started_s", "now_s"),
    [
        pytest.param(0.2, (0.0,) * 6, 600.0, id="only-the-headroom-is-free"),
        pytest.param(0.0, (0.0, 0.0, 0.0, 99_900.0), 100_000.0, id="nothing-else-is-cheap-to-move"),
    ],
)
def test_work_that_moves_alone_could_help_is_left_once_they_cant(
    monkeypatch: pytest.MonkeyPatch, reserved: float, started_s: tuple[float, ...], now_s: float
) -> None:
    looks = 0
    plan_for = preemption.Preemptor._plan_for

    def counted(preemptor: preemption.Preemptor, candidate: Candidate) -> object:
        nonlocal looks
        looks += 1
        return plan_for(preemptor, candidate)

    monkeypatch.setattr(preemption.Preemptor, "_plan_for", counted)
    policy = Policy.model_validate({"reserve_fraction": reserved})

    plan = halves_and_late(policy, started_s, now_s).cycle()

    assert [eviction.moves for eviction in plan.evictions] == [True]
    assert looks == 1
