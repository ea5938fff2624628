"""Nodes with more devices in use than they have: how many, and who is stopped for it."""

from collections.abc import Sequence

import pytest

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.overcommit import DeviceHolding, OvercommittedNode, node_device_usage, relieve
from weir.model.nodes import Node, Taint
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.resources import GPU
from weir.model.workloads import PodGroup, Request, Workload
from weir.state import events
from weir.state.cluster import Cluster
from weir.state.reduce import reduce

GRACE_S = 300.0
AFTER_S = 1000.0


@pytest.mark.parametrize(
    ("gpus", "others", "holdings", "own_milli", "needed_milli"),
    [
        (8, 0, [], 0, 0),
        (8, 6, [((0, 1), 2, 1000), ((2,), 1, 500), ((3,), 1, 500), ((4,), 1, 1000)], 4000, 11000),
        (2, 0, [(tuple(range(7)), 7, 1000)], 7000, 7000),  # a device plugin took devices back
        (2, 5, [], 0, 5000),
        (1, 0, [((0,), 1, 600), ((0,), 1, 600)], 1200, 1200),
        (1, 0, [((), 1, 500)], 500, 1000),  # on an unknown device
        (4, 0, [((3, 3), 2, 1000), ((3,), 1, 1000)], 3000, 3000),  # the kubelet gives each its own
    ],
)
def test_all_devices_in_use_are_counted(
    gpus: int,
    others: int,
    holdings: Sequence[tuple[tuple[int, ...], int, int]],
    own_milli: int,
    needed_milli: int,
) -> None:
    use = node_device_usage(gpus, others, [DeviceHolding(*holding) for holding in holdings])
    assert (use.own_milli, use.needed_milli) == (own_milli, needed_milli)
    assert use.excess_milli == max(0, needed_milli - 1000 * gpus)


class Site:
    """A node of eight devices, teams with a quota of two, and what is placed on it."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.happen(events.QueuesSet(tuple(Queue(name, quota={GPU: 2000}) for name in ("a", "b"))))
        for name in ("n", "m"):
            self.happen(
                events.NodeSet(Node(name, 8, 80 << 30, {"cpu": 64000, "memory": 1 << 40, "pods": 99}))
            )
        self.next_device = {"n": 0, "m": 0}

    def happen(self, event: events.Event) -> None:
        reduce(self.cluster, event)

    def run(
        self,
        name: str,
        gpus: int,
        *,
        project: str = "a",
        pods: int = 1,
        least: int | None = None,
        preemptible: bool = True,
        priority: int = 50,
        at_s: float = 0.0,
        nodes: Sequence[str] = ("n",),
    ) -> None:
        group = PodGroup("pods", Request(devices=gpus), pods, pods if least is None else least)
        workload = Workload(
            name=name,
            project=project,
            groups=(group,),
            min_pods=group.min,
            submitted_s=at_s,
            priority=priority,
            preemptible=preemptible,
        )
        self.happen(events.WorkloadSubmitted(workload, at_s))
        for index in range(pods):
            node = nodes[index % len(nodes)]
            first = self.next_device[node]
            self.next_device[node] += gpus
            devices = tuple(device % 8 for device in range(first, first + gpus))
            place = events.Placement(events.PodKey(name, 0, index), node, devices)
            self.happen(events.PodAssigned(place, at_s))

    def relieved(
        self, *, others: int = 0, gpus: int = 8, now_s: float = AFTER_S
    ) -> tuple[list[str], set[str]]:
        """Return the pods that are stopped, as WORKLOAD/INDEX, and the nodes that stay over-committed."""
        node = self.cluster.node_at["n"]
        holdings = [DeviceHolding(pod.devices, pod.shape.devices, 1000) for pod in self.cluster.pods_on[node]]
        over = OvercommittedNode("n", node_device_usage(gpus, others, holdings), 0.0)
        relief = relieve(self.cluster, [over], (), now_s, GRACE_S)
        assert relief.wake_s == (GRACE_S if now_s < GRACE_S else None)
        assert all("GPUs of node n are in use" in eviction.cause.sentence for eviction in relief.evictions)
        return sorted(
            f"{eviction.pod.workload}/{eviction.pod.index}" for eviction in relief.evictions
        ), relief.stuck


def test_what_is_over_quota_goes_first_then_low_priority_then_the_youngest() -> None:
    site = Site()
    site.run("within", 2, project="a", priority=10)
    site.run("old", 2, project="b", at_s=1.0)
    site.run("young", 2, project="b", at_s=2.0)
    site.run("urgent", 1, project="b", priority=60, at_s=3.0)
    assert site.relieved(others=1) == ([], set())
    assert site.relieved(others=3) == (["young/0"], set())
    assert site.relieved(others=4) == (["old/0", "young/0"], set())
    assert site.relieved(others=6) == (["old/0", "within/0", "young/0"], set())
    assert site.relieved(others=3, now_s=GRACE_S - 1) == ([], set())


def test_no_more_is_stopped_than_needed() -> None:
    site = Site()
    site.run("small", 1, project="b", at_s=2.0)
    site.run("large", 4, project="b", at_s=1.0)
    site.run("kept", 3, project="b", priority=90)
    assert site.relieved(others=4) == (["large/0"], set())


def test_work_that_isnt_preemptible_stays_and_so_does_the_excess() -> None:
    site = Site()
    site.run("fixed", 2, preemptible=False)
    site.run("loan", 2, project="b")
    assert site.relieved(others=8) == (["loan/0"], {"n"})
    assert site.relieved(gpus=1) == (["loan/0"], {"n"})
    assert site.relieved(gpus=2) == (["loan/0"], set())


def test_a_gang_is_stopped_whole_and_of_an_elastic_one_the_surplus() -> None:
    site = Site()
    site.run("gang", 2, pods=2, nodes=("n", "m"))
    assert site.relieved(others=7) == (["gang/0", "gang/1"], set())
    site = Site()
    site.run("elastic", 2, pods=3, least=1, nodes=("n", "m"))
    assert site.relieved(others=5) == (["elastic/0", "elastic/2"], set())


def test_pods_that_stop_already_are_waited_for() -> None:
    site = Site()
    site.run("a", 4)
    site.run("b", 4)
    site.happen(events.PodStopping(events.PodKey("a", 0, 0), 10.0))
    assert site.relieved(others=4) == ([], set())


def test_nothing_is_stopped_on_a_node_that_isnt_ready() -> None:
    site = Site()
    site.run("loan", 4, project="b")
    taint = Taint("node.kubernetes.io/unreachable", "", "NoExecute")
    capacity = {"cpu": 64000, "memory": 1 << 40, "pods": 99}
    site.happen(events.NodeSet(Node("n", 8, 80 << 30, capacity, taints=(taint,))))
    assert site.relieved(others=8) == ([], set())


def test_devices_held_twice_are_free_only_once_both_are_gone() -> None:
    site = Site()
    site.run("within", 2, project="a")
    site.run("fixed", 2, project="a", nodes=["m"], preemptible=False)
    for name, first in (("one", 2), ("two", 2), ("three", 5)):
        site.next_device["n"] = first
        site.run(name, 3, project="b")
    site.run("filler", 6, project="b", nodes=["m"], preemptible=False)
    site.happen(
        events.QueuesSet(tuple(Queue(name, quota={GPU: quota}) for name, quota in (("a", 7000), ("b", 0))))
    )
    wants = Workload("wants", "a", (PodGroup("pods", Request(devices=3), 1, 1),), 1, 0.0)
    site.happen(events.WorkloadSubmitted(wants, 1.0))
    plan = decide(site.cluster, Policy(), AFTER_S, EngineCache())
    (nominated,) = plan.nominations
    assert len(nominated.places[0].devices) == 3
    freed = {eviction.pod.workload for eviction in plan.evictions}
    assert freed in ({"three"}, {"one", "two"})
