"""A plan follows from the cluster, the policy and the time: not from what was decided before."""

import pytest

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, Placement, PodAssigned, PodKey, QueuesSet, WorkloadSubmitted
from weir.state.reduce import reduce

DEAR = Policy.model_validate({"price": {"restart": 10_000, "size_credit": 0}})
CHEAP = Policy.model_validate({"price": {"restart": 1, "size_credit": 0}})
NOW_S = 1000.0


def _cluster() -> Cluster:
    """Return a full node on which an owner can stop one old workload or two young ones."""
    cluster = Cluster()
    reduce(cluster, NodeSet(Node("node", 4, 16 << 30, {"cpu": 64_000, "memory": 64 << 30, "pods": 99})))
    reduce(cluster, QueuesSet((Queue("lends", quota={"gpu": 0}), Queue("owns", quota={"gpu": 2000}))))
    _run(cluster, "old", (0, 1), started_s=0.0)
    _run(cluster, "young-1", (2,), started_s=900.0)
    _run(cluster, "young-2", (3,), started_s=900.0)
    _submit(cluster, "asks", "owns", 2)
    return cluster


def _submit(cluster: Cluster, name: str, project: str, devices: int) -> None:
    group = PodGroup("0", Request(devices=devices), 1, 1)
    reduce(cluster, WorkloadSubmitted(Workload(name, project, (group,), 1, 0.0), 0.0))


def _run(cluster: Cluster, name: str, devices: tuple[int, ...], started_s: float) -> None:
    _submit(cluster, name, "lends", len(devices))
    reduce(cluster, PodAssigned(Placement(PodKey(name, 0, 0), "node", devices), started_s))


def _stopped(plan: Plan) -> set[str]:
    return {eviction.pod.workload for eviction in plan.evictions}


def test_a_plan_under_a_second_policy_is_that_of_a_cluster_never_decided_on() -> None:
    decided_on = _cluster()
    cache = EngineCache()
    assert _stopped(decide(decided_on, DEAR, NOW_S, cache)) == {"old"}
    fresh = _stopped(decide(_cluster(), CHEAP, NOW_S, EngineCache()))
    assert fresh == {"young-1", "young-2"}
    assert _stopped(decide(decided_on, CHEAP, NOW_S, EngineCache())) == fresh
    assert _stopped(decide(decided_on, CHEAP, NOW_S, cache)) == fresh


def test_a_memo_refuses_a_second_cluster() -> None:
    cache = EngineCache()
    decide(_cluster(), CHEAP, NOW_S, cache)
    with pytest.raises(AssertionError, match="belongs to one cluster"):
        decide(_cluster(), CHEAP, NOW_S, cache)
