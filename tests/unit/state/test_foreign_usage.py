"""Devices that others than Weir use: no pod is placed on them, and no queue has a share of them."""

import pytest

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.explanation.pending_reasons import pending_reason
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, Placement, PodAssigned, PodKey, QueuesSet, WorkloadSubmitted
from weir.state.reduce import reduce
from weir.state.shapes import GPU_ROW

CAPACITY = {"cpu": 64_000, "memory": 64 << 30, "pods": 99}


def node(*foreign: int) -> NodeSet:
    return NodeSet(Node("n", 4, 16 << 30, CAPACITY, foreign_devices=foreign))


def workload(name: str, devices: int) -> WorkloadSubmitted:
    return WorkloadSubmitted(
        Workload(name, "p", (PodGroup("0", Request(devices=devices)),), 1, 0.0, preemptible=False), 0.0
    )


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    reduce(cluster, node(0, 2))
    reduce(cluster, QueuesSet((Queue("p", quota={"gpu": 4000}),)))
    return cluster


def test_pods_come_to_the_other_devices(cluster: Cluster) -> None:
    reduce(cluster, workload("two", 2))
    (place,) = decide(cluster, Policy(), 1.0, EngineCache()).binds
    assert place.devices == (1, 3)
    assert cluster.total(GPU_ROW) == 2000


def test_more_than_the_others_leave_match_no_node(cluster: Cluster) -> None:
    reduce(cluster, workload("three", 3))
    why = pending_reason(cluster, Policy(), cluster.jobs["three"], 1.0)
    assert why is not None
    assert (
        why.sentence
        == "a pod asks for 3 GPUs; the largest node offers 2, without GPUs that are drained or in use outside Weir"
    )


def test_a_device_that_both_use_is_over_full_until_one_goes(cluster: Cluster) -> None:
    reduce(cluster, workload("one", 1))
    reduce(cluster, PodAssigned(Placement(PodKey("one", 0, 0), "n", (1,)), 1.0))
    reduce(cluster, node(0, 1, 2))
    reduce(cluster, workload("other", 1))
    assert int(cluster.free_capacity.share[0, 1]) == -1000
    (place,) = decide(cluster, Policy(), 2.0, EngineCache()).binds
    assert place.devices == (3,)
