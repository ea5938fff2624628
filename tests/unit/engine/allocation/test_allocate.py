"""Allocation of free capacity, beside capacity that is nominated while it is being freed."""

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, Nominated, Placement, PodAssigned, PodKey, PodStopping, QueuesSet
from weir.state.events import WorkloadSubmitted as Submitted
from weir.state.reduce import reduce


def _submit(cluster: Cluster, name: str, devices: int, pods: int, at_s: float) -> None:
    group = PodGroup("0", Request(devices=devices), pods, pods)
    reduce(cluster, Submitted(Workload(name, "p", (group,), pods, at_s), at_s))


def test_free_devices_are_used_beside_those_promised_while_they_are_freed() -> None:
    cluster = Cluster()
    reduce(cluster, NodeSet(Node("node", 8, 16 << 30, {"cpu": 64_000, "memory": 64 << 30, "pods": 99})))
    reduce(cluster, QueuesSet((Queue("p", quota={"gpu": 8000}),)))
    _submit(cluster, "goes", 5, 1, 0.0)
    goes, five = PodKey("goes", 0, 0), (0, 1, 2, 3, 4)
    reduce(cluster, PodAssigned(Placement(goes, "node", five), 0.0))
    _submit(cluster, "comes", 5, 1, 1.0)
    reduce(cluster, PodStopping(goes, 2.0))
    reduce(cluster, Nominated("comes", (Placement(PodKey("comes", 0, 0), "node", five),), 2.0))
    _submit(cluster, "small", 1, 2, 3.0)
    _submit(cluster, "large", 2, 2, 3.0)
    plan = decide(cluster, Policy(), 3.0, EngineCache())
    assert [place.pod for place in plan.binds] == [PodKey("small", 0, 0), PodKey("small", 0, 1)]
