"""Work that no node could ever take is no demand: the siblings of its queue get what it would be given."""

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.usage.quota_overlay import QuotaOverlay
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, Placement, PodAssigned, PodKey, QueuesSet, WorkloadSubmitted
from weir.state.reduce import reduce

POLICY = Policy()


def _node(name: str, gpus: int) -> NodeSet:
    return NodeSet(Node(name, gpus, 16 << 30, {"cpu": 64_000, "memory": 512 << 30, "pods": 99}))


def _cluster() -> Cluster:
    cluster = Cluster()
    reduce(cluster, _node("node", 4))
    reduce(cluster, QueuesSet((Queue("a", quota={"gpu": 0}), Queue("b", quota={"gpu": 0}))))
    return cluster


def _submit(
    cluster: Cluster, name: str, project: str, devices: int, *, count: int = 1, min_: int = 1
) -> None:
    group = PodGroup("0", Request(devices=devices), count, min_)
    reduce(cluster, WorkloadSubmitted(Workload(name, project, (group,), min_, 0.0), 0.0))


def _shares(cluster: Cluster, cache: EngineCache) -> dict[str, float]:
    cache.sync(cluster, POLICY)
    share = QuotaOverlay(cluster, POLICY, [0.0, 0.0], excess=cache.feasibility.excess).share
    return {queue.name: share[index][0] for index, queue in enumerate(cluster.ledger.queues)}


def test_a_share_is_not_withheld_for_work_that_fits_no_node() -> None:
    cluster, cache = _cluster(), EngineCache()
    for index in range(4):
        _submit(cluster, f"fits-{index}", "a", 1)
    for index in range(2):
        _submit(cluster, f"large-{index}", "b", 8)
    assert _shares(cluster, cache) == {"a": 4000.0, "b": 0.0}
    _submit(cluster, "later", "b", 1)
    assert _shares(cluster, cache) == {"a": 3000.0, "b": 1000.0}
    _submit(cluster, "large-later", "b", 9)
    assert _shares(cluster, cache) == {"a": 3000.0, "b": 1000.0}, "a class that comes later is asked about"
    reduce(cluster, _node("larger", 8))
    assert _shares(cluster, cache) == {"a": 4000.0, "b": 8000.0}, "a node that can take it makes it demand"
    assert _shares(cluster, cache) == _shares(cluster, EngineCache())


def test_pods_beyond_the_minimum_of_a_gang_that_fits_are_demand() -> None:
    cluster, cache = _cluster(), EngineCache()
    _submit(cluster, "elastic", "b", 1, count=6, min_=2)
    _submit(cluster, "other", "a", 4)
    assert _shares(cluster, cache) == {"a": 2000.0, "b": 2000.0}


def test_an_asker_reclaims_its_whole_share_beside_work_that_fits_no_node() -> None:
    cluster = Cluster()
    reduce(cluster, _node("node", 4))
    reduce(cluster, QueuesSet(tuple(Queue(name, quota={"gpu": 0}) for name in "bca")))
    for index in range(4):
        _submit(cluster, f"b-{index}", "b", 1)
        reduce(cluster, PodAssigned(Placement(PodKey(f"b-{index}", 0, 0), "node", (index,)), 0.0))
    for name in ("never-1", "never-2"):
        _submit(cluster, name, "c", 8)
    for index in range(4):
        _submit(cluster, f"a-{index}", "a", 1)
    plan = decide(cluster, POLICY, 1e6, EngineCache())
    assert len(plan.evictions) == 2
