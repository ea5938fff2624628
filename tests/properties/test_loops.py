"""Nothing goes round in circles: without news the cluster becomes quiet, however slowly stops are carried out."""

from collections import Counter

from hypothesis import given

from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.events import WorkloadSubmitted

from . import invariants
from .budget import examples
from .random_cluster import ROUGH, World, node, single, worlds
from .running import Running

CYCLES_MAX = 150


@examples(32)
@given(worlds(happens=ROUGH, topology=True))
def test_without_news_evictions_end(world: World) -> None:
    running = Running(world)
    for _ in running.run():
        pass
    running.submit()
    assert running.settle(CYCLES_MAX, quiet=6), _turns(running)


@examples(16)
@given(worlds())
def test_no_pair_stops_one_another_in_turn(world: World) -> None:
    running = Running(world)
    running.submit()
    running.settle(CYCLES_MAX, quiet=6)
    turns = Counter(
        (eviction.cause.by, eviction.pod)
        for plan in running.plans
        for eviction in plan.evictions
        if not eviction.moves
    )
    assert max(turns.values(), default=0) <= 1, turns


def _turns(running: Running) -> str:
    evictions = [
        f"{eviction.pod} for {eviction.cause.by} ({eviction.cause.rule})"
        for plan in running.plans[-30:]
        for eviction in plan.evictions
    ]
    return f"after {CYCLES_MAX} cycles: {evictions}"


# Stops that take their time. Scenario files can't tell these: there every stop takes one cycle.


def _two_to_stop() -> World:
    """Two workloads run over their queue's quota, and the asker needs both gone."""
    return World(
        nodes=(node("n0", 4),),
        queues=(Queue("asks", quota={"gpu": 3000}), Queue("holds", quota={"gpu": 1000}, created_s=60.0)),
        workloads=(
            single("one", "holds", 2, submitted_s=-600.0, priority=90),
            single("other", "holds", 2, submitted_s=-500.0, priority=90),
        ),
        stops_after=(1, 6),
    )


def test_victims_that_stop_at_different_times_dont_come_back_in_between() -> None:
    # kubernetes-sigs/kueue#13662: the first victim to be gone was started again while the second was still stopping,
    # and both were stopped again and again for an asker that never ran.
    world = _two_to_stop()
    running = Running(world)
    running.submit()
    running.cycle()
    gang = Workload("gang", "asks", (PodGroup("0", Request(devices=1), 3, 3),), 3, 0.0, preemptible=False)
    running.tell(WorkloadSubmitted(gang, 0.0))
    bound = [place.pod.workload for _ in range(12) for place in running.cycle().binds]
    evictions = sum(len(plan.evictions) for plan in running.plans)
    assert evictions == 2
    assert bound == ["gang"] * 3
    assert invariants.is_complete(running.cluster.jobs["gang"])


def test_a_nomination_of_a_lower_workload_doesnt_hold_up_a_higher_one_that_fits_elsewhere() -> None:
    # kubernetes-sigs/kueue#7301: while the lower waited for its victims nothing else of its queue was looked at.
    world = World(
        nodes=(node("n0", 2), node("n1", 1)),
        queues=(Queue("owner", quota={"gpu": 3000}), Queue("borrower", quota={"gpu": 0}, created_s=60.0)),
        workloads=(single("lent", "borrower", 2, submitted_s=-600.0),),
        stops_after=(8,),
    )
    running = Running(world)
    running.submit()
    running.cycle()
    running.tell(WorkloadSubmitted(single("low", "owner", 2, submitted_s=-60.0), -60.0))
    running.cycle()
    running.tell(WorkloadSubmitted(single("high", "owner", 1, submitted_s=-1.0, priority=90), -1.0))
    assert [place.pod.workload for place in running.cycle().binds] == ["high"]


def test_a_stop_that_takes_long_is_asked_for_once() -> None:
    # volcano-sh/volcano#394, kubernetes-sigs/kueue#15211: while a victim was still going, further ones were stopped.
    world = World(
        nodes=(node("n0", 4),),
        queues=(Queue("owner", quota={"gpu": 2000}), Queue("borrower", quota={"gpu": 0}, created_s=60.0)),
        workloads=(
            single("lent-1", "borrower", 2, submitted_s=-600.0),
            single("lent-2", "borrower", 2, submitted_s=-500.0),
        ),
        stops_after=(9,),
    )
    running = Running(world)
    running.submit()
    running.cycle()
    running.tell(WorkloadSubmitted(single("owns", "owner", 2, submitted_s=-60.0), -60.0))
    for _ in range(8):
        running.cycle()
    assert sum(len(plan.evictions) for plan in running.plans) == 1
