"""A workload with an unknown topology waits with a reason, and affects no other."""

import pytest
from tests.properties.random_cluster import HOSTNAME, World, node
from tests.properties.running import Running

from weir.engine.explanation.pending_reasons import pending_reason
from weir.model.nodes import Topology
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import ReasonCode
from weir.model.workloads import PodGroup, Request, TopologyRequest, Workload
from weir.state.events import TopologiesSet, WorkloadSubmitted

NODES = tuple(node(f"n{index}", 2, labels={"rack": f"r{index // 2}"}) for index in range(4))
QUEUES = (Queue("team", quota={"gpu": 4000}), Queue("lent", quota={"gpu": 0}))
UNKNOWN = (
    TopologyRequest("nowhere", preferred="rack"),
    TopologyRequest("nowhere", required="rack"),
    TopologyRequest("network", required="block"),
)


def _gang(
    name: str, project: str, asked: TopologyRequest | None, pods: int = 2, devices: int = 2
) -> Workload:
    group = PodGroup("0", Request(devices=devices), pods, pods)
    return Workload(name, project, (group,), pods, 0.0, topology=asked)


def _told(running: Running, name: str) -> tuple[ReasonCode, str]:
    why = pending_reason(running.cluster, running.world.policy, running.cluster.jobs[name], running.now_s)
    assert why is not None
    return why.why, why.sentence


@pytest.mark.parametrize("asked", UNKNOWN)
@pytest.mark.parametrize("policy", [Policy(), Policy(preset="throughput"), Policy(reserve_after=5)])
@pytest.mark.parametrize("borrowed", [0, 4])
def test_it_waits_with_a_reason_and_the_others_go_on(
    asked: TopologyRequest, policy: Policy, borrowed: int
) -> None:
    running = Running(World(NODES, QUEUES, (), policy))
    for index in range(borrowed):  # it may not take from these either
        running.tell(WorkloadSubmitted(_gang(f"lent-{index}", "lent", None, 1), 0.0))
    running.cycle()
    running.tell(WorkloadSubmitted(_gang("lost", "team", asked), 0.0))
    for _ in range(12):  # longer than the wait for a reservation
        assert not running.cycle().acts
    missing = "topology nowhere" if asked.name == "nowhere" else "level block of topology network"
    assert _told(running, "lost") == (
        ReasonCode.NO_NODE_MATCHES,
        f"it has to share one domain by {missing}, which doesn't exist",
    )
    running.tell(WorkloadSubmitted(_gang("sound", "team", TopologyRequest("network", required="rack")), 0.0))
    assert running.settle(12)
    assert len(running.cluster.jobs["sound"].running_pods()) == 2


def test_it_starts_once_there_is_one() -> None:
    running = Running(World(NODES, QUEUES, ()))
    running.tell(WorkloadSubmitted(_gang("early", "team", UNKNOWN[1]), 0.0))
    assert not running.cycle().acts
    running.tell(TopologiesSet((Topology("nowhere", ("rack", HOSTNAME)),)))
    assert [place.node for place in running.cycle().binds] == ["n0", "n1"]


def test_what_runs_stays_where_it_is_when_its_topology_is_gone() -> None:
    running = Running(World(NODES, QUEUES, (), Policy(consolidation={"budget": 1e9})))  # type: ignore[arg-type]
    together = _gang("together", "lent", TopologyRequest("network", required="rack"), 2, 1)
    running.tell(WorkloadSubmitted(together, 0.0))
    running.cycle()
    running.tell(WorkloadSubmitted(_gang("fills", "lent", None, 6, 1), 0.0))
    running.cycle()
    running.tell(TopologiesSet(()))
    running.tell(WorkloadSubmitted(_gang("owner", "team", None, 2), 0.0))
    running.settle(12)
    assert len(running.cluster.jobs["owner"].running_pods()) == 2
