"""Bounds of moves: a gang fills the free nodes itself, so pods of its size find no other place."""

import pytest

from weir.engine.allocation.allocate import Allocator
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.preemption_cache import ConsolidationKey
from weir.engine.protection.victim_protection import DisruptionAllowances
from weir.engine.transaction import Accounting, Transaction
from weir.engine.usage.quota_overlay import QuotaOverlay, usage_of
from weir.engine.victims.move_bounds import MoveBounds
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, Placement, PodAssigned, PodKey, QueuesSet, WorkloadSubmitted
from weir.state.reduce import reduce

NOW_S = 10.0
BUDGET = {"budget": 1000}
"""More than a restart, and less than one of each pod."""
POLICY = Policy.model_validate({"preset": "balanced"})


def _cluster(*, devices: int, running: tuple[tuple[str, int], ...], limit: bool = False) -> Cluster:
    """Return nodes of this many devices, the first pods of which run, and a gang of two pods of eight."""
    cluster = Cluster()
    capacity = {"cpu": 64_000, "memory": 512 << 30, "pods": 99}
    for name in ("idle", "first", "second"):
        reduce(cluster, NodeSet(Node(name, devices, 16 << 30, capacity, gpu_model="big")))
    limits = {"gpu.big": 64_000} if limit else {}
    reduce(cluster, QueuesSet((Queue("borrows", quota={"gpu": 0}, limit=limits),)))
    for index, (node, size) in enumerate(running):
        name = f"runs-{index}"
        _submit(cluster, name, devices=size, pods=1)
        first = sum(other for on, other in running[:index] if on == node)
        held = tuple(range(first, first + size))
        reduce(cluster, PodAssigned(Placement(PodKey(name, 0, 0), node, held), 0.0))
    _submit(cluster, "gang", devices=8, pods=2)
    return cluster


def _submit(cluster: Cluster, name: str, devices: int, pods: int) -> None:
    group = PodGroup("0", Request(devices=devices), pods, pods)
    reduce(cluster, WorkloadSubmitted(Workload(name, "borrows", (group,), pods, 0.0), 0.0))


def _could_suffice(cluster: Cluster, policy: Policy = POLICY) -> bool:
    cache = EngineCache()
    capacity = cache.sync(cluster, policy)
    overlay = QuotaOverlay(cluster, policy, usage_of(cluster, policy, NOW_S), cache.share_tree)
    accounting = Accounting(cluster, overlay, DisruptionAllowances(cluster, policy, NOW_S))
    allocator = Allocator(cluster, policy, Transaction(capacity, accounting), cache, NOW_S)
    queued = next(iter(cluster.waiting.values()))
    key = ConsolidationKey(queued.wants, None, True, False, protect_in_quota=True)
    return MoveBounds(allocator).could_suffice(queued, 0, key)


def test_pods_of_the_gangs_size_find_no_place_beside_it() -> None:
    assert not _could_suffice(_cluster(devices=8, running=(("first", 8), ("second", 8))))


@pytest.mark.parametrize(
    ("devices", "running", "limit"),
    [
        (8, (("first", 4), ("second", 2)), False),  # the four fit beside the two
        (8, (("first", 8), ("second", 4)), False),
        (16, (("idle", 1), ("first", 9), ("second", 9)), False),  # a node holds two pods of the gang
        (8, (("first", 8), ("second", 8)), True),  # limits of a model may keep the gang from the idle node
    ],
)
def test_other_moves_are_left_to_the_search(
    devices: int, running: tuple[tuple[str, int], ...], limit: bool
) -> None:
    assert _could_suffice(_cluster(devices=devices, running=running, limit=limit))


@pytest.mark.parametrize("bounds", [True, False])
def test_pods_of_an_elastic_workload_that_move_together_restart_once(bounds: bool) -> None:
    cluster, policy = Cluster(), Policy.model_validate({"price": {"restart": 300}, "consolidation": BUDGET})
    for name in ("full", "half", "other"):
        reduce(cluster, NodeSet(Node(name, 4, 16 << 30, {"cpu": 64_000, "memory": 512 << 30, "pods": 99})))
    reduce(cluster, QueuesSet((Queue("owns", quota={"gpu": 12_000}),)))
    elastic = Workload("elastic", "owns", (PodGroup("0", Request(devices=1), 4, 1),), 1, 0.0)
    reduce(cluster, WorkloadSubmitted(elastic, 0.0))
    for index in range(4):
        reduce(cluster, PodAssigned(Placement(PodKey("elastic", 0, index), "full", (index,)), 0.0))
    for name in ("half", "other"):
        fixed = Workload(name, "owns", (PodGroup("0", Request(devices=2)),), 1, 0.0, preemptible=False)
        reduce(cluster, WorkloadSubmitted(fixed, 0.0))
        reduce(cluster, PodAssigned(Placement(PodKey(name, 0, 0), name, (0, 1)), 0.0))
    late = Workload("late", "owns", (PodGroup("0", Request(devices=4)),), 1, NOW_S)
    reduce(cluster, WorkloadSubmitted(late, NOW_S))

    plan = decide(cluster, policy, NOW_S, EngineCache(bounds=bounds))

    assert sorted(eviction.pod.index for eviction in plan.evictions if eviction.moves) == [0, 1, 2, 3]
    assert "late" in [nominated.workload for nominated in plan.nominations]


@pytest.mark.parametrize(("budget", "could"), [(700, True), (500, False)])
def test_a_shared_device_costs_the_moves_of_all_its_pods(budget: int, could: bool) -> None:
    """Each half costs 305, and the half beside a free one can't be moved."""
    policy = {"price": {"restart": 300}, "consolidation": {"budget": budget}}
    cluster = Cluster()
    for name in ("first", "second"):
        reduce(cluster, NodeSet(Node(name, 1, 16 << 30, {"cpu": 64_000, "memory": 512 << 30, "pods": 99})))
    reduce(cluster, QueuesSet((Queue("borrows", quota={"gpu": 0}),)))
    half = PodGroup("0", Request(devices=1, share_milli=500))
    for name, node, preemptible in (
        ("one", "first", True),
        ("two", "first", True),
        ("kept", "second", False),
    ):
        work = Workload(name, "borrows", (half,), 1, 0.0, preemptible=preemptible)
        reduce(cluster, WorkloadSubmitted(work, 0.0))
        reduce(cluster, PodAssigned(Placement(PodKey(name, 0, 0), node, (0,)), 0.0))
    _submit(cluster, "late", devices=1, pods=1)

    assert _could_suffice(cluster, Policy.model_validate(policy)) == could


@pytest.mark.parametrize("bounds", [True, False])
def test_work_that_is_over_quota_since_a_plan_of_this_cycle_moves_for_the_next_plan(bounds: bool) -> None:
    """The first reclaim brings its project over quota, whose other pod then moves for the second one."""
    policy = Policy.model_validate(
        {
            "reserve_fraction": 0,
            "reclaim_share_after": 0,
            "price": {"restart": 100},
            "consolidation": {"budget": 500},
        }
    )
    cluster = Cluster()
    for name, gpus, model in (("first", 2, "big"), ("second", 2, "big"), ("idle", 1, "small")):
        capacity = {"cpu": 64_000, "memory": 512 << 30, "pods": 99}
        reduce(cluster, NodeSet(Node(name, gpus, 16 << 30, capacity, gpu_model=model)))
    queues = (
        Queue("gives", quota={"gpu": 0}, weight={"gpu": 0.001}),
        Queue("asks", quota={"gpu": 1000}, priority=200),
        Queue("asks-next", quota={"gpu": 0}, created_s=1.0),
    )
    reduce(cluster, QueuesSet(queues))
    for name, project, node, device in (
        ("v0", "gives", "first", 0),
        ("v1", "gives", "first", 1),
        ("v2", "gives", "second", 1),
        ("cheap", "asks", "second", 0),
    ):
        model, at_s = ("", 590.0) if project == "asks" else ("big", 0.0)
        _work(cluster, name, project, 1, model, at_s)
        reduce(cluster, PodAssigned(Placement(PodKey(name, 0, 0), node, (device,)), at_s))
    _work(cluster, "x", "asks", 2, "big", 600.0)
    _work(cluster, "y", "asks-next", 2, "big", 600.0)

    plan = decide(cluster, policy, 600.0, EngineCache(bounds=bounds))

    assert [nominated.workload for nominated in plan.nominations] == ["x", "cheap", "y"]


def _work(cluster: Cluster, name: str, project: str, devices: int, model: str, at_s: float) -> None:
    request = Request(devices=devices, gpu_models=(model,) if model else ())
    work = Workload(name, project, (PodGroup("0", request),), 1, at_s)
    reduce(cluster, WorkloadSubmitted(work, at_s))
