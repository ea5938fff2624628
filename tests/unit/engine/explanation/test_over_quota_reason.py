"""A reason says whether the work that waits is over its quota: autoscalers go by that."""

import pytest

from weir.engine.explanation.pending_reasons import pending_reason
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, Placement, PodAssigned, PodKey, QueuesSet, WorkloadSubmitted
from weir.state.reduce import reduce


@pytest.mark.parametrize(
    ("quota", "devices", "over"),
    [
        ({"gpu": 8000}, 4, False),
        ({"gpu": 7000}, 4, True),
        ({}, 4, False),
        ({"gpu": 8000}, 9, True),
        ({"gpu": 20_000}, 9, False),
    ],
)
def test_work_that_waits_for_nodes_says_whether_it_is_over_quota(
    quota: dict[str, int], devices: int, over: bool
) -> None:
    cluster = Cluster()
    reduce(cluster, NodeSet(Node("node", 4, 16 << 30, {"cpu": 64_000, "memory": 1 << 40, "pods": 99})))
    reduce(cluster, QueuesSet((Queue("team", quota=quota),)))
    for name, asked in (("first", 4), ("second", devices)):
        group = PodGroup("0", Request(devices=asked))
        reduce(cluster, WorkloadSubmitted(Workload(name, "team", (group,), 1, 0.0), 0.0))
    reduce(cluster, PodAssigned(Placement(PodKey("first", 0, 0), "node", (0, 1, 2, 3)), 0.0))
    reason = pending_reason(cluster, Policy(), cluster.jobs["second"], 1.0)
    assert reason is not None
    assert reason.numbers.get("over_quota", False) is over
