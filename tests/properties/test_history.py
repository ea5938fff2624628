"""Decisions that need a past, which scenario files lack: run times, swaps, usage, earlier evictions."""

from dataclasses import replace

import pytest

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.explanation.pending_reasons import pending_reason
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import EvictionRule, Reason, ReasonCode
from weir.model.workloads import PodGroup, Request, TopologyRequest, Workload
from weir.state.events import (
    Checkpointed,
    NodeSet,
    QueuesSet,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
    WorkloadSuspended,
)

from .random_cluster import World, node, single
from .running import Running

LEARNED = Policy(preset="fair", over_quota_order="predicted_runtime")
EXCHANGES = Policy(
    preset="throughput",
    reserve_fraction=0,
    consolidation={"enabled": False},  # type: ignore[arg-type]
)
ONE = (Queue("team", quota={"gpu": 0}),)


def after_runs(
    policy: Policy, *, gpus: int = 1, long_s: float = 100_000.0, queues: tuple[Queue, ...] = ONE
) -> Running:
    """A cluster on which ten short and ten long workloads have run."""
    running = Running(World((node("n0", gpus),), queues, (), policy))
    for number in range(10):
        for stem, ran_s in (("short", 100.0), ("long", long_s)):
            name = f"{stem}-{number}"
            running.tell(WorkloadSubmitted(single(name, queues[0].name), 0.0))
            running.tell(WorkloadEnded(name, WorkloadOutcome.SUCCEEDED, 0.0, ran_s))
    return running


def submit(running: Running, name: str, project: str = "team", devices: int = 1, **fields: object) -> None:
    """Submit one more workload."""
    running.tell(
        WorkloadSubmitted(single(name, project, devices, **fields), float(fields.get("submitted_s", 0.0)))
    )  # type: ignore[arg-type]


def reported(running: Running, name: str) -> Reason | None:
    """Return the reason of a pending workload."""
    return pending_reason(running.cluster, running.world.policy, running.cluster.jobs[name], running.now_s)


# The learned order


def test_of_borrowers_those_like_short_ones_start_first() -> None:
    running = after_runs(LEARNED)
    submit(running, "long-99", submitted_s=-600.0)
    submit(running, "short-99", submitted_s=-60.0)
    assert [place.pod.workload for place in running.cycle().binds] == ["short-99"]


def test_owners_start_before_borrowers_however_long_they_run() -> None:
    running = after_runs(
        LEARNED, queues=(Queue("team", quota={"gpu": 0}), Queue("owner", quota={"gpu": 1000}))
    )
    submit(running, "short-99")
    submit(running, "long-99", "owner")
    assert [place.pod.workload for place in running.cycle().binds] == ["long-99"]


def test_of_borrowers_alike_the_smaller_starts_first() -> None:
    running = after_runs(LEARNED, gpus=2)
    submit(running, "short-98", devices=2, submitted_s=-600.0)
    submit(running, "short-99", devices=1, submitted_s=-60.0)
    assert [place.pod.workload for place in running.cycle().binds] == ["short-99"]


def test_of_borrowers_of_a_project_the_higher_priority_starts_first_however_long_it_runs() -> None:
    running = after_runs(LEARNED)
    submit(running, "short-99", submitted_s=-60.0)
    submit(running, "long-98", submitted_s=-60.0)
    submit(running, "long-99", submitted_s=-60.0, priority=60)
    assert [place.pod.workload for place in running.cycle().binds] == ["long-99"]
    running.tell(WorkloadEnded("long-99", WorkloadOutcome.SUCCEEDED, running.now_s, 10.0))
    assert [place.pod.workload for place in running.cycle().binds] == ["short-99"]


def test_of_borrowers_a_large_one_of_high_priority_holds_no_lower_one_back() -> None:
    running = after_runs(LEARNED)
    submit(running, "long-99", devices=2, priority=60)
    submit(running, "short-99")
    assert [place.pod.workload for place in running.cycle().binds] == ["short-99"]


# Exchange


def exchange(policy: Policy, **of_the_long: object) -> Running:
    """A long workload runs and a short one waits; then the long one saves its state."""
    running = after_runs(policy)
    submit(running, "long-99", **of_the_long)
    running.cycle()
    submit(running, "short-99")
    running.cycle()
    running.tell(Checkpointed("long-99", running.now_s))
    return running


def test_at_its_checkpoint_a_borrower_changes_places_with_one_that_comes_clearly_before_it() -> None:
    running = exchange(EXCHANGES)
    plan = running.cycle()
    assert [(eviction.pod.workload, eviction.cause.rule) for eviction in plan.evictions] == [
        ("long-99", EvictionRule.SWAP)
    ]
    assert [place.pod.workload for place in running.cycle().binds] == ["short-99"]
    for _ in range(10):  # and that is that
        assert not running.cycle().evictions


@pytest.mark.parametrize(
    ("of_the_long", "comes"), [(None, False), (TopologyRequest("network", required="rack"), True)]
)
def test_a_gang_that_has_to_be_in_one_rack_takes_no_place_across_two(
    of_the_long: TopologyRequest | None, comes: bool
) -> None:
    running = after_runs(EXCHANGES)
    second = node("n1", 1, labels={"rack": "r0" if comes else "r1"})
    for rack_node in (node("n0", 1, labels={"rack": "r0"}), second):
        running.tell(NodeSet(rack_node))

    def comes_by(name: str, asked: TopologyRequest | None) -> None:
        group = PodGroup("0", Request(devices=1), 2, 2)
        running.tell(WorkloadSubmitted(Workload(name, "team", (group,), 2, 0.0, topology=asked), 0.0))

    for number in range(10):
        for stem, ran_s in (("short", 100.0), ("long", 100_000.0)):
            comes_by(f"{stem}-{number}", None)
            running.tell(WorkloadEnded(f"{stem}-{number}", WorkloadOutcome.SUCCEEDED, 0.0, ran_s))
    comes_by("long-99", of_the_long)
    assert len(running.cycle().binds) == 2
    comes_by("short-99", TopologyRequest("network", required="rack"))
    running.cycle()
    running.tell(Checkpointed("long-99", running.now_s))
    assert bool(running.cycle().evictions) is comes


def test_no_exchange_at_another_time_than_the_checkpoint() -> None:
    running = exchange(EXCHANGES)
    running.now_s += 10
    assert not running.cycle().evictions


def test_no_exchange_within_the_minimum_run_time() -> None:
    running = exchange(
        EXCHANGES.model_copy(update={"min_runtime": Policy(min_runtime={"train": 60}).min_runtime})
    )  # type: ignore[arg-type]
    assert not running.cycle().evictions


def test_no_exchange_for_who_comes_only_a_little_before() -> None:
    running = exchange(EXCHANGES.model_copy(update={"swap_min_gain": 50.0}))
    assert not running.cycle().evictions


def test_no_exchange_for_lower_priority_of_the_same_project() -> None:
    assert not exchange(EXCHANGES, priority=60).cycle().evictions


def test_no_exchange_of_owners_and_of_what_cannot_be_stopped() -> None:
    owners = (Queue("team", quota={"gpu": 1000}),)
    for fields in ({}, {"preemptible": False}):
        running = after_runs(EXCHANGES, queues=owners)
        submit(running, "long-99", **fields)
        running.cycle()
        submit(running, "short-99")
        running.cycle()
        running.tell(Checkpointed("long-99", running.now_s))
        assert not running.cycle().evictions


# Past use


def test_with_a_memory_who_used_much_has_the_smaller_part_of_the_surplus() -> None:
    policy = Policy(usage={"k": 2.0, "half_life": "1d", "window": "7d"})  # type: ignore[arg-type]
    queues = (Queue("used", quota={"gpu": 0}), Queue("rested", quota={"gpu": 0}, created_s=60.0))
    running = Running(World((node("n0", 4),), queues, (), policy))
    submit(running, "past", "used", 4)
    running.cycle()
    running.now_s = 86_400.0
    running.tell(WorkloadEnded("past", WorkloadOutcome.SUCCEEDED, running.now_s, 86_400.0))
    for number in range(4):
        submit(running, f"u-{number}", "used", submitted_s=running.now_s)
        submit(running, f"r-{number}", "rested", submitted_s=running.now_s)
    started = [place.pod.workload for place in running.cycle().binds]
    assert sum(name.startswith("r-") for name in started) > sum(name.startswith("u-") for name in started)


# Who was stopped for whom


def turned() -> Running:
    """a-2 was stopped for b; then the weights turn, so that by the rules a-2 could take b's place."""
    queues = (Queue("a", quota={"gpu": 0}), Queue("b", quota={"gpu": 0}, created_s=60.0))
    running = Running(World((node("n0", 2),), queues, (), Policy(preset="fair", reserve_after=3600)))
    submit(running, "a-1", "a", submitted_s=-600.0)
    submit(running, "a-2", "a", submitted_s=-60.0)
    running.cycle()
    submit(running, "b-1", "b")
    assert [eviction.pod.workload for eviction in running.cycle().evictions] == ["a-2"]
    running.settle(10)
    running.tell(QueuesSet((queues[0], replace(queues[1], weight={"gpu": 0.0}))))
    return running


def test_a_pair_that_would_alternate_is_left_as_it_is_with_a_reason() -> None:
    running = turned()
    for _ in range(10):
        assert not running.cycle().acts
    why = reported(running, "a-2")
    assert why is not None
    assert why.why is ReasonCode.PREEMPTION_CYCLE


def test_another_workload_may_take_what_the_pair_may_not() -> None:
    running = turned()
    submit(running, "a-3", "a", priority=60, submitted_s=running.now_s)
    assert [eviction.pod.workload for eviction in running.cycle().evictions] == ["b-1"]


# What is held


def test_a_suspended_workload_waits_with_a_reason() -> None:
    running = Running(World((node("n0", 1),), ONE, ()))
    submit(running, "w")
    running.tell(WorkloadSuspended("w", True, "its owner suspended it"))
    assert not running.cycle().acts
    why = reported(running, "w")
    assert why is not None
    assert why.why is ReasonCode.SUSPENDED
    assert "its owner suspended it" in why.sentence
    running.tell(WorkloadSuspended("w", False))
    assert len(running.cycle().binds) == 1


# What is remembered


def test_a_gang_without_capacity_stands_for_its_queue_neither_before_nor_after_that_is_known() -> None:
    """With it the other queue would come first, for it asks for more than there is."""
    queues = (Queue("a", quota={"gpu": 0}), Queue("b", quota={"gpu": 0}, created_s=60.0))
    running = Running(World((node("n0", 4),), queues, ()))
    large = PodGroup("0", Request(devices=3), 2, 2)
    running.tell(WorkloadSubmitted(Workload("large", "a", (large,), 2, -600.0), -600.0))
    assert not running.cycle().acts
    submit(running, "small", "a")
    submit(running, "other", "b")
    for cache in (EngineCache(), running.cache):
        plan = decide(running.cluster, running.world.policy, running.now_s, cache)
        assert [place.pod.workload for place in plan.binds] == ["small", "other"]
