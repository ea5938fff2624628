"""Exchange: what goes is borrowed as a whole, or its queue's own waiting work would take from others at once."""

import pytest

from weir.cluster.events import (
    Checkpointed,
    End,
    NodeSet,
    Place,
    PodAssigned,
    PodKey,
    QueuesSet,
    WorkloadEnded,
    WorkloadSubmitted,
)
from weir.cluster.reduce import reduce
from weir.cluster.state import Cluster
from weir.decide.cycle import decide
from weir.decide.memo import Memo
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload


def _workload(name: str, project: str, devices: int, at_s: float) -> Workload:
    return Workload(name, project, (PodGroup("0", Request(devices=devices), 1, 1),), 1, at_s)


def _cluster(quota: int) -> Cluster:
    """A long workload that has just saved its state, and a short one of another project that waits."""
    cluster = Cluster()
    reduce(cluster, NodeSet(Node("node", 9, 16 << 30, {"cpu": 64_000, "memory": 64 << 30, "pods": 99})))
    lends, comes = Queue("lends", quota={"gpu": quota * 1000}), Queue("comes", quota={"gpu": 0})
    reduce(cluster, QueuesSet((lends, comes)))
    for at in range(20):
        for project, run_s in (("lends", 100_000.0), ("comes", 10.0)):
            ended = _workload(f"{project}-ended-{at}", project, 8, 0.0)
            reduce(cluster, WorkloadSubmitted(ended, 0.0))
            reduce(cluster, WorkloadEnded(ended.name, End.SUCCEEDED, 0.0, run_s))
    reduce(cluster, WorkloadSubmitted(_workload("long", "lends", 8, 0.0), 0.0))
    reduce(cluster, PodAssigned(Place(PodKey("long", 0, 0), "node", tuple(range(8))), 0.0))
    reduce(cluster, WorkloadSubmitted(_workload("short", "comes", 8, 1.0), 1.0))
    reduce(cluster, Checkpointed("long", 3600.0))
    return cluster


@pytest.mark.parametrize(("quota", "goes"), [(0, True), (7, False), (8, False)])
def test_only_what_is_borrowed_as_a_whole_changes_places(quota: int, goes: bool) -> None:
    plan = decide(_cluster(quota), Policy(preset="throughput"), 3600.0, Memo())
    assert [eviction.pod.workload for eviction in plan.evictions] == (["long"] if goes else [])
