"""The reason names the real shortage before missing victims, and says if a request is impossible."""

from dataclasses import replace

import pytest
from tests.properties.random_cluster import HOSTNAME, World, node
from tests.properties.running import Running

from weir.engine.explanation.pending_reasons import pending_reason
from weir.model.nodes import Topology
from weir.model.queues import Queue
from weir.model.reasons import Reason, ReasonCode
from weir.model.workloads import PodAffinityRule, PodGroup, Request, TopologyRequest, Workload
from weir.state.events import TopologiesSet, WorkloadSubmitted

PORT = "hostport/TCP/8080"
DISKS = "attached-volumes/disk.example.com"
QUEUES = (Queue("mine", quota={"gpu": 24000}), Queue("theirs", quota={"gpu": 24000}))
APART = {"marks": ("app=web",), "pod_rules": (PodAffinityRule("anti_affinity", "app=web", HOSTNAME),)}


def work(
    name: str, project: str, request: Request, pods: int = 1, least: int | None = None, **fields: object
) -> Workload:
    group = PodGroup("pods", request, pods, pods if least is None else least)
    return Workload(name, project, (group,), group.min, 0.0, **fields)  # type: ignore[arg-type]


class Cluster:
    """Nodes of eight GPUs, two to a rack, with one port and one place for a volume each."""

    def __init__(self, nodes: int) -> None:
        plain = (node(f"n{index}", 8, labels={"rack": f"r{index // 2}"}) for index in range(nodes))
        with_ports = tuple(
            replace(plain_node, capacity={**plain_node.capacity, PORT: 1024, DISKS: 1})
            for plain_node in plain
        )
        self.running = Running(World(with_ports, QUEUES, ()))
        self.running.tell(TopologiesSet((Topology("network", ("rack", HOSTNAME)),)))

    def submit(self, *workloads: Workload) -> None:
        for workload in workloads:
            self.running.tell(WorkloadSubmitted(workload, 0.0))
            self.running.settle(12)

    def why(self, name: str) -> Reason:
        reason = pending_reason(
            self.running.cluster,
            self.running.world.policy,
            self.running.cluster.jobs[name],
            self.running.now_s,
        )
        assert reason is not None
        return reason


@pytest.fixture
def three() -> Cluster:
    return Cluster(3)


def port(gpus: int) -> Request:
    return Request(devices=gpus, further=((PORT, 1024),))


def test_a_port_in_use_comes_before_victims_and_names_its_holder() -> None:
    one = Cluster(1)
    one.submit(work("first", "mine", port(2), preemptible=False))
    one.submit(work("second", "mine", port(1)))
    reason = one.why("second")
    assert reason.why is ReasonCode.INSUFFICIENT_CAPACITY
    assert reason.sentence == "insufficient capacity: host port 8080 of n0 is in use by first"


def test_ports_in_use_on_several_nodes_are_counted(three: Cluster) -> None:
    for index in range(3):
        three.submit(work(f"holds{index}", "mine", port(2), preemptible=False))
    three.submit(work("late", "mine", port(1)))
    assert three.why("late").sentence == (
        "insufficient capacity: 3 matching nodes can't take another pod: 3 have host port 8080 in use"
    )


def test_no_more_volumes_can_be_attached() -> None:
    one = Cluster(1)
    disk = Request(devices=1, further=((DISKS, 1),))
    one.submit(work("first", "mine", disk, preemptible=False), work("second", "mine", disk))
    assert one.why("second").sentence == (
        "insufficient capacity: n0 attaches no more volumes of disk.example.com"
    )


def test_pods_that_can_never_keep_apart(three: Cluster) -> None:
    three.submit(work("wide", "mine", Request(devices=1, **APART), 4))  # type: ignore[arg-type]
    reason = three.why("wide")
    assert reason.why is ReasonCode.NO_NODE_MATCHES
    assert reason.sentence == (
        "it needs 4 pods, and even idle nodes take only 3 of them, because of "
        "pod anti-affinity (app=web by kubernetes.io/hostname)"
    )


def test_own_pods_apart_are_the_cause_though_their_nodes_have_few_gpus_left(three: Cluster) -> None:
    for index in range(3):
        three.submit(work(f"holds{index}", "theirs", Request(devices=5)))
    three.submit(work("wide", "mine", Request(devices=3, **APART), 5, 2))  # type: ignore[arg-type]
    sentence = three.why("wide").sentence
    assert sentence == (
        "insufficient capacity: 3 matching nodes can't take another pod: "
        "3 are excluded by pod anti-affinity (app=web by kubernetes.io/hostname)"
    )


def test_a_gang_that_no_rack_can_hold() -> None:
    four = Cluster(4)
    rack = TopologyRequest("network", required="rack")
    four.submit(work("gang", "mine", Request(devices=8), 3, topology=rack))
    reason = four.why("gang")
    assert reason.why is ReasonCode.NO_NODE_MATCHES
    assert reason.sentence == (
        "it needs 3 pods in one domain of level rack (topology network), more than any domain can take "
        "even when idle: the largest, r0, takes 2"
    )
    assert reason.numbers == {
        "topology": "network", "level": "rack", "needed": 3, "best": "r0", "fitting": 2,
    }  # fmt: skip


def test_a_gang_that_no_rack_can_hold_in_a_full_cluster() -> None:
    four = Cluster(4)
    rack = TopologyRequest("network", required="rack")
    four.submit(work("full", "theirs", Request(devices=8), 4, preemptible=False))
    four.submit(work("gang", "mine", Request(devices=8), 3, topology=rack))
    assert "more than any domain can take even when idle" in four.why("gang").sentence


def test_a_gang_that_no_rack_has_capacity_for_now() -> None:
    four = Cluster(4)
    rack = TopologyRequest("network", required="rack")
    held = Request(devices=5, node_selector=(("kubernetes.io/hostname", "n0"),))
    other = Request(devices=5, node_selector=(("kubernetes.io/hostname", "n2"),))
    four.submit(
        *(
            work(f"holds{index}", "mine", request, preemptible=False)
            for index, request in enumerate((held, other))
        )
    )
    four.submit(work("gang", "mine", Request(devices=8), 2, topology=rack))
    reason = four.why("gang")
    assert reason.why is ReasonCode.GANG_INCOMPLETE
    assert reason.sentence.startswith(
        "no rack has capacity for all 2 pods that have to share one: the best, r0, takes 1 now"
    )


def test_free_gpus_in_pieces_are_said() -> None:
    two = Cluster(2)
    two.submit(work("a", "theirs", Request(devices=7)), work("b", "theirs", Request(devices=6)))
    two.submit(work("late", "mine", Request(devices=4), can_preempt=False))
    assert two.why("late").sentence == (
        "insufficient capacity: 2 matching nodes can't take another pod: 2 have too few free GPUs "
        "(3 GPUs are free in pieces, at most 2 on one node, and a pod asks for 4); it may not preempt"
    )


def test_a_node_counts_once_for_all_groups_of_a_gang() -> None:
    two = Cluster(2)
    two.submit(work("a", "theirs", Request(devices=7)), work("b", "theirs", Request(devices=6)))
    groups = (PodGroup("master", Request(devices=4), 1, 1), PodGroup("worker", Request(devices=4), 2, 2))
    two.submit(Workload("gang", "mine", groups, 3, 0.0, can_preempt=False))
    reason = two.why("gang")
    assert reason.sentence == (
        "insufficient capacity: 2 matching nodes can't take another pod: 2 have too few free GPUs "
        "(3 GPUs are free in pieces, at most 2 on one node, and a pod asks for 4); it may not preempt"
    )
    assert reason.numbers["short"] == {"gpu": 2}


def test_the_only_node_is_said_in_numbers_to_a_gang_of_two_groups() -> None:
    one = Cluster(1)
    one.submit(work("a", "theirs", Request(devices=7)))
    groups = (PodGroup("master", Request(devices=2), 1, 1), PodGroup("worker", Request(devices=4), 1, 1))
    one.submit(Workload("gang", "mine", groups, 2, 0.0, can_preempt=False))
    assert "n0 has 1 GPU free, and a pod asks for 2" in one.why("gang").sentence


def test_the_missing_claim_is_said() -> None:
    small = Cluster(4)
    small.submit(work("theirs", "theirs", Request(devices=8), 3))
    small.submit(work("own", "mine", Request(devices=8), 1))
    small.submit(work("too-much", "mine", Request(devices=8), 3))
    reason = small.why("too-much")
    assert reason.why is ReasonCode.INSUFFICIENT_CAPACITY
    assert reason.sentence.endswith(
        "mine would hold 32 of a quota of 24 GPUs, so it may only use free capacity"
    )
    assert reason.numbers["claim"] == {
        "queue": "mine", "resource": "gpu", "would_hold": 32.0, "quota": 24.0,
    }  # fmt: skip


def test_work_with_a_claim_misses_none(three: Cluster) -> None:
    three.submit(work("theirs", "theirs", Request(devices=8), 3, preemptible=False))
    three.submit(work("own", "mine", Request(devices=8), 1))
    reason = three.why("own")
    assert reason.why is ReasonCode.NO_ELIGIBLE_VICTIMS
    assert reason.sentence == (
        "3 matching nodes can't take another pod: 3 have too few free GPUs; "
        "no eligible victims: 24 GPUs are held by non-preemptible work of theirs"
    )
