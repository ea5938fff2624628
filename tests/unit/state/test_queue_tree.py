"""A new quota tree: the positions of queues change, and everything kept by position follows."""

import numpy as np
import pytest

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import (
    NodeSet,
    Placement,
    PodAssigned,
    PodKey,
    PodStopped,
    QueuesSet,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
)
from weir.state.reduce import reduce

CAPACITY = {"cpu": 64_000, "memory": 64 << 30, "pods": 99}
OWNS, LENDS = Queue("owns", quota={"gpu": 4000}), Queue("lends", quota={"gpu": 0})
MANY = tuple(Queue(f"empty-{index}", quota={"gpu": 0}) for index in range(20))


def workload(name: str, project: str, devices: int, submitted_s: float = 0.0) -> Workload:
    return Workload(name, project, (PodGroup("", Request(devices=devices), 1, 1),), 1, submitted_s)


def submit(cluster: Cluster, name: str, project: str, devices: int) -> None:
    reduce(cluster, WorkloadSubmitted(workload(name, project, devices), 0.0))


def run(cluster: Cluster, name: str, project: str, devices: tuple[int, ...]) -> None:
    submit(cluster, name, project, len(devices))
    reduce(cluster, PodAssigned(Placement(PodKey(name, 0, 0), "n", devices), 1.0))


@pytest.fixture
def cluster() -> Cluster:
    """Return a full node: a project over its quota holds it; `gone` was the last queue of a large tree."""
    cluster = Cluster()
    reduce(cluster, NodeSet(Node("n", 8, 16 << 30, CAPACITY)))
    reduce(cluster, QueuesSet((*MANY, LENDS, OWNS, Queue("gone"))))
    run(cluster, "low", "lends", (0, 1, 2, 3))
    run(cluster, "high", "lends", (4, 5, 6, 7))
    return cluster


def evicted(cluster: Cluster, cache: EngineCache) -> set[str]:
    plan = decide(cluster, Policy(), 1000.0, cache)
    return {eviction.pod.workload for eviction in plan.evictions}


def test_a_running_pod_is_of_its_project_in_a_smaller_tree(cluster: Cluster) -> None:
    reduce(cluster, QueuesSet((OWNS, LENDS)))
    running = cluster.running_pods
    rows = np.flatnonzero(running.node >= 0)
    assert set(running.project[rows].tolist()) == {cluster.ledger.position["lends"]}


def test_a_project_reclaims_its_quota_after_the_tree_has_shrunk(cluster: Cluster) -> None:
    cache = EngineCache()
    assert not evicted(cluster, cache)
    reduce(cluster, QueuesSet((OWNS, LENDS)))
    submit(cluster, "claims", "owns", 4)
    assert len(evicted(cluster, cache)) == 1


def test_a_pod_of_a_queue_that_is_gone_leaves_nothing_behind(cluster: Cluster) -> None:
    reduce(cluster, NodeSet(Node("m", 8, 16 << 30, CAPACITY)))
    submit(cluster, "over", "gone", 1)
    reduce(cluster, PodAssigned(Placement(PodKey("over", 0, 0), "m", (0,)), 1.0))
    reduce(cluster, PodStopped(PodKey("over", 0, 0), 2.0))
    reduce(cluster, WorkloadEnded("over", WorkloadOutcome.STOPPED, 2.0))
    reduce(cluster, QueuesSet((OWNS, LENDS)))
    run(cluster, "own", "lends", ())
    submit(cluster, "large", "owns", 8)
    submit(cluster, "claims", "owns", 4)
    decide(cluster, Policy(), 1000.0, EngineCache())
    assert cluster.running_pods.takeable(np.ones(2, np.bool_)).size == 3
