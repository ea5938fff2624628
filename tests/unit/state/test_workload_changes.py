"""Workloads that change, and pods that others make: those that don't exist are neither asked for nor placed."""

from dataclasses import replace

import pytest

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.explanation.pending_reasons import pending_reason
from weir.engine.plan import Plan
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import ReasonCode
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import (
    NodeSet,
    Nominated,
    NominationReleased,
    Placement,
    PodAssigned,
    PodKey,
    PodStopped,
    PodStopping,
    QueuesSet,
    WorkloadChanged,
    WorkloadSubmitted,
)
from weir.state.jobs import Phase
from weir.state.reduce import reduce
from weir.state.shapes import GPU_ROW

GANG = Workload("gang", "p", (PodGroup("worker", Request(devices=1), 4, 4),), 4, 0.0)
CAPACITY = {"cpu": 64_000, "memory": 64 << 30, "pods": 99}


def keys(*indices: int) -> frozenset[PodKey]:
    return frozenset(PodKey("gang", 0, index) for index in indices)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    reduce(cluster, NodeSet(Node("n", 8, 16 << 30, CAPACITY)))
    reduce(cluster, QueuesSet((Queue("p", quota={"gpu": 8000}), Queue("q", quota={"gpu": 8000}))))
    return cluster


def plan(cluster: Cluster, now_s: float = 10.0) -> Plan:
    return decide(cluster, Policy(gang_grace=60), now_s, EngineCache())


def carry_out(cluster: Cluster) -> None:
    for place in plan(cluster).binds:
        reduce(cluster, PodAssigned(place, 10.0))


def test_a_gang_waits_until_its_minimum_exists(cluster: Cluster) -> None:
    reduce(cluster, WorkloadSubmitted(GANG, 0.0, absent=keys(1, 3)))
    assert not plan(cluster).binds
    assert cluster.ledger.asked[0][GPU_ROW] == 0
    why = pending_reason(cluster, Policy(), cluster.jobs["gang"], 1.0)
    assert why is not None
    assert (why.why, why.sentence) == (ReasonCode.NOT_READY, "2 of 4 pods exist")
    reduce(cluster, WorkloadChanged(GANG, 2.0))
    assert cluster.ledger.asked[0][GPU_ROW] == 4000
    assert len(plan(cluster).binds) == 4


def test_elastic_pods_run_as_far_as_they_exist(cluster: Cluster) -> None:
    elastic = replace(GANG, groups=(replace(GANG.groups[0], min=2),), min_pods=2)
    reduce(cluster, WorkloadSubmitted(elastic, 0.0, absent=keys(0)))
    carry_out(cluster)
    assert {pod.index for pod in cluster.jobs["gang"].running_pods()} == {1, 2, 3}
    assert pending_reason(cluster, Policy(), cluster.jobs["gang"], 1.0) is None
    assert cluster.ledger.asked[0][GPU_ROW] == 0


def test_what_is_needed_comes_of_the_pods_that_exist(cluster: Cluster) -> None:
    groups = (PodGroup("a", Request(devices=1), 2, 0), PodGroup("b", Request(devices=2), 2, 0))
    reduce(cluster, WorkloadSubmitted(replace(GANG, groups=groups, min_pods=3), 0.0, absent=keys(1)))
    assert cluster.jobs["gang"].needed == (1, 2)
    assert len(plan(cluster).binds) == 3


def test_fewer_pods_give_their_capacity_back_from_the_top(cluster: Cluster) -> None:
    reduce(cluster, WorkloadSubmitted(GANG, 0.0))
    carry_out(cluster)
    smaller = replace(GANG, groups=(replace(GANG.groups[0], count=2, min=2),), min_pods=2)
    reduce(cluster, WorkloadChanged(smaller, 20.0))
    job = cluster.jobs["gang"]
    assert [pod.index for pod in job.running_pods()] == [0, 1]
    assert int(cluster.free_capacity.free[GPU_ROW, 0]) == 6000
    assert cluster.ledger.allocated[0][GPU_ROW] == 2000
    assert job.started_s == 10.0


def test_what_runs_moves_with_its_workload_to_another_project(cluster: Cluster) -> None:
    reduce(cluster, WorkloadSubmitted(GANG, 0.0))
    carry_out(cluster)
    reduce(cluster, WorkloadChanged(replace(GANG, project="q", priority=70), 20.0))
    assert [cluster.ledger.allocated[index][GPU_ROW] for index in (0, 1)] == [0, 4000]
    assert cluster.priorities == {0: {}, 1: {70: 1}}
    assert list(cluster.running[1]) == ["gang"]


def test_the_nomination_of_an_absent_pod_is_kept_until_it_exists(cluster: Cluster) -> None:
    one = replace(GANG, groups=(PodGroup("worker", Request(devices=1)),), min_pods=1)
    reduce(cluster, WorkloadSubmitted(one, 0.0))
    carry_out(cluster)
    reduce(cluster, Nominated("gang", (Placement(PodKey("gang", 0, 0), "n", (7,)),), 11.0))
    reduce(cluster, PodStopped(PodKey("gang", 0, 0), 12.0))
    reduce(cluster, Nominated("gang", (Placement(PodKey("gang", 0, 0), "n", (7,)),), 12.0))
    reduce(cluster, WorkloadChanged(one, 13.0, keys(0)))
    assert cluster.jobs["gang"].pods[0][0].phase is Phase.ABSENT
    assert plan(cluster, 14.0).binds == []
    why = pending_reason(cluster, Policy(), cluster.jobs["gang"], 14.0)
    assert why is not None
    assert why.why is ReasonCode.NOT_READY
    assert plan(cluster, 14.0).wake_s == 73.0
    assert plan(cluster, 73.0).drops == ["gang"]
    reduce(cluster, WorkloadChanged(one, 15.0))
    assert plan(cluster, 16.0).binds == [Placement(PodKey("gang", 0, 0), "n", (7,))]


def test_a_dropped_promise_leaves_an_absent_pod_absent(cluster: Cluster) -> None:
    reduce(cluster, WorkloadSubmitted(GANG, 0.0, absent=keys(0, 1, 2, 3)))
    places = tuple(Placement(key, "n", (key.index,)) for key in sorted(keys(0, 1, 2, 3)))
    reduce(cluster, Nominated("gang", places, 1.0))
    reduce(cluster, NominationReleased("gang"))
    assert cluster.jobs["gang"].absent == [4]
    assert int(cluster.free_capacity.free[GPU_ROW, 0]) == 8000


def test_a_pod_that_runs_exists(cluster: Cluster) -> None:
    reduce(cluster, WorkloadSubmitted(GANG, 0.0, absent=keys(0, 1)))
    reduce(cluster, PodAssigned(Placement(PodKey("gang", 0, 0), "n", (0,)), 1.0))
    job = cluster.jobs["gang"]
    assert (job.absent, job.placed, job.pending) == ([1], [1], [2])


def test_a_pod_may_hold_devices_that_its_node_has_no_more() -> None:
    cluster = Cluster()
    reduce(cluster, NodeSet(Node("n", 2, 16 << 30, CAPACITY)))
    reduce(cluster, QueuesSet((Queue("p", quota={"gpu": 8000}), Queue("q", quota={"gpu": 8000}))))
    reduce(cluster, WorkloadSubmitted(GANG, 0.0))
    for index in range(2):
        reduce(cluster, PodAssigned(Placement(PodKey("gang", 0, index), "n", (index + 8,)), 1.0))
    reduce(cluster, Nominated("gang", (Placement(PodKey("gang", 0, 2), "n", (20,)),), 2.0))
    assert [bound.devices for bound in plan(cluster).binds] == [(0,)]
    reduce(cluster, NominationReleased("gang"))
    for index in range(2):
        reduce(cluster, PodStopped(PodKey("gang", 0, index), 3.0))
    reduce(cluster, NodeSet(Node("n", 4, 16 << 30, CAPACITY)))
    assert sorted(bound.devices for bound in plan(cluster).binds) == [(0,), (1,), (2,), (3,)]


def test_a_gang_of_which_every_pod_is_being_stopped_is_not_incomplete(cluster: Cluster) -> None:
    reduce(cluster, WorkloadSubmitted(GANG, 0.0))
    carry_out(cluster)
    for index in range(3):
        reduce(cluster, PodStopping(PodKey("gang", 0, index), 20.0))
        assert list(cluster.incomplete) == ["gang"]
    reduce(cluster, PodStopping(PodKey("gang", 0, 3), 30.0))
    assert not cluster.incomplete
    assert cluster.jobs["gang"].below_since_s == 20.0
