"""Nominated capacity that can't be used any more: the nomination ends, with a reason until then."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.properties.random_cluster import World, node, single
from tests.properties.running import Running

from weir.engine.allocation.nominations import BLOCKED_S
from weir.engine.explanation.pending_reasons import pending_reason
from weir.model.nodes import Node, Taint
from weir.model.queues import Queue
from weir.model.reasons import ReasonCode
from weir.state.events import NodeSet, WorkloadSubmitted
from weir.state.jobs import Phase

NODE = node("n0", 4)
BLOCKING: dict[str, Callable[[Node], Node]] = {
    "cordon": lambda node_before: replace(node_before, taints=(Taint("node.kubernetes.io/unschedulable"),)),
    "label": lambda node_before: replace(node_before, labels={"pool": "special"}),
    "fewer devices": lambda node_before: replace(node_before, gpus=2),
    "no devices": lambda node_before: replace(node_before, gpus=0),
    "device of another scheduler": lambda node_before: replace(node_before, foreign_devices=(0, 1, 2, 3)),
    "fewer cores": lambda node_before: replace(node_before, capacity={**node_before.capacity, "cpu": 500}),
}


def nominated() -> Running:
    """Return a world in which capacity on n0 is being freed for an owner, which fits no other node."""
    queues = (Queue("owner", quota={"gpu": 4000}), Queue("borrower", quota={"gpu": 0}, created_s=60.0))
    borrows = single("borrows", "borrower", 4, submitted_s=-600.0)
    running = Running(World((NODE,), queues, (borrows,), stops_after=(2,)))
    running.submit()
    running.cycle()
    owns = single("owns", "owner", 4, submitted_s=-60.0)
    group = replace(
        owns.groups[0],
        request=replace(owns.groups[0].request, node_selector=(("kubernetes.io/hostname", "n0"),)),
    )
    running.tell(WorkloadSubmitted(replace(owns, groups=(group,)), -60.0))
    running.cycle()
    assert "owns" in running.cluster.nominated
    return running


@pytest.mark.parametrize("blocked", BLOCKING.values(), ids=BLOCKING)
def test_blocked_capacity_is_given_up_after_some_seconds(blocked: Callable[[Node], Node]) -> None:
    running = nominated()
    running.tell(NodeSet(blocked(NODE)))
    cluster, job = running.cluster, running.cluster.jobs["owns"]
    running.cycle()
    plan = running.cycle()
    assert not running.going
    reason = pending_reason(cluster, running.world.policy, job, running.now_s)
    assert reason is not None
    assert reason.why is ReasonCode.WAITING_FOR_EVICTION
    assert reason.sentence == "the capacity freed for it on n0 isn't available: it gets another place soon"
    assert job.blocked_since_s is not None
    assert plan.wake_s == job.blocked_since_s + BLOCKED_S
    running.now_s = plan.wake_s
    plan = running.cycle()
    assert plan.drops == ["owns"]
    assert plan.wake_s is not None
    assert plan.wake_s < running.now_s, "the next cycle follows at once"
    running.cycle()
    reason = pending_reason(cluster, running.world.policy, job, running.now_s)
    assert reason is not None
    assert reason.why in (ReasonCode.NO_NODE_MATCHES, ReasonCode.INSUFFICIENT_CAPACITY)
    assert job.pods[0][0].phase is Phase.PENDING


@pytest.mark.parametrize("blocked", BLOCKING.values(), ids=BLOCKING)
def test_capacity_that_is_blocked_for_a_moment_keeps_its_nomination(
    blocked: Callable[[Node], Node],
) -> None:
    running = nominated()
    running.tell(NodeSet(blocked(NODE)))
    for _ in range(4):
        running.cycle()
    assert running.cluster.jobs["owns"].blocked_since_s is not None
    running.tell(NodeSet(NODE))
    assert [place.pod.workload for place in running.cycle().binds] == ["owns"]


def test_capacity_that_is_blocked_again_gets_the_time_again() -> None:
    running = nominated()
    job, borrows = running.cluster.jobs["owns"], running.cluster.jobs["borrows"]
    running.going.clear()  # its pod doesn't stop yet
    times_s = []
    for now_s in (100.0, 200.0):
        running.now_s = now_s
        running.tell(NodeSet(BLOCKING["fewer cores"](NODE)))
        running.cycle()
        times_s.append(job.blocked_since_s)
        running.tell(NodeSet(NODE))
        running.cycle()
        assert job.blocked_since_s is None
    assert times_s == [100.0, 200.0]
    assert borrows.stopping == 1
    assert job.name in running.cluster.nominated
