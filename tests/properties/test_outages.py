"""Outages in random clusters: nothing is started into one, and the capacity is as it was without them."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.placement.capacity import Capacity
from weir.engine.placement.outages import OutageRules
from weir.engine.placement.pod_placer import NodePlacement
from weir.model.nodes import Node, Outage
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, Placement, PodAssigned, QueuesSet, WorkloadSubmitted
from weir.state.reduce import reduce

from .budget import examples
from .random_cluster import node

PROJECTS = "one", "other"
RUNS = st.sampled_from((None, 30.0, 3000.0, 90_000.0))
TIMES = st.sampled_from((-1000.0, 60.0, 700.0, 4000.0, 100_000.0))
REQUESTS = st.sampled_from((Request(1), Request(2), Request(1, 500), Request(1, 300)))


@st.composite
def outages(draw: st.DrawFn, outage_node: Node, now_s: float) -> tuple[Outage, ...]:
    """Draw outages of a node around a time."""
    drawn = []
    for _ in range(draw(st.integers(0, 2))):
        begins_s = now_s + draw(TIMES)
        ends_s = draw(st.none() | st.just(begins_s + 5000.0))
        some = st.lists(st.integers(0, outage_node.gpus - 1), min_size=1, unique=True).map(tuple)
        drawn.append(Outage(begins_s, ends_s, draw(st.none() | some), keeps_running=draw(st.booleans())))
    return tuple(drawn)


@st.composite
def workloads(draw: st.DrawFn, name: str, now_s: float) -> Workload:
    """Draw a workload of one pod or a gang of two."""
    pods = draw(st.integers(1, 2))
    return Workload(
        name,
        draw(st.sampled_from(PROJECTS)),
        (PodGroup("0", draw(REQUESTS), pods, pods),),
        pods,
        now_s,
        priority=draw(st.sampled_from((50, 60))),
        preemptible=draw(st.sampled_from((True, True, False))),
        max_runtime_s=draw(RUNS),
    )


def started_into_an_outage(
    cluster: Cluster, rules: OutageRules, places: list[Placement], moved: set[str]
) -> list[str]:
    """Return the workloads that are placed where they would run into an outage."""
    names = []
    for place in places:
        job = cluster.jobs[place.pod.workload]
        pod = job.pods[place.pod.group][place.pod.index]
        index = cluster.node_at[place.node]
        if rules.conflicts(job, [NodePlacement(pod, index, place.devices)], moved=job.name in moved):
            names.append(job.name)
    return names


@examples(200)
@given(st.data())
def test_nothing_is_started_into_an_outage(data: st.DataObject) -> None:
    cluster, policy, now_s = Cluster(), Policy(), 0.0
    nodes = [node(f"n{index}", data.draw(st.integers(1, 4))) for index in range(data.draw(st.integers(1, 2)))]
    for cluster_node in nodes:
        reduce(cluster, NodeSet(cluster_node))
    reduce(cluster, QueuesSet(tuple(Queue(name, quota={"gpu": 3000}) for name in PROJECTS)))
    for index in range(data.draw(st.integers(0, 5))):
        reduce(cluster, WorkloadSubmitted(data.draw(workloads(f"old-{index}", now_s)), now_s))
    for place in decide(cluster, policy, now_s, EngineCache()).binds:
        reduce(cluster, PodAssigned(place, now_s))
    now_s = 5000.0
    for cluster_node in nodes:
        reduce(cluster, NodeSet(replace(cluster_node, outages=data.draw(outages(cluster_node, now_s)))))
    for index in range(data.draw(st.integers(1, 5))):
        reduce(cluster, WorkloadSubmitted(data.draw(workloads(f"new-{index}", now_s)), now_s))
    cache = EngineCache()
    plan = decide(cluster, policy, now_s, cache)
    moved = {eviction.pod.workload for eviction in plan.evictions if eviction.moves}
    places = [*plan.binds, *[place for nomination in plan.nominations for place in nomination.places]]
    rules = OutageRules(cluster, policy, now_s)
    assert started_into_an_outage(cluster, rules, places, moved) == []
    assert decide(cluster, policy, now_s, EngineCache(bounds=False)) == plan
    fresh, kept = Capacity.of(cluster), cache.sync(cluster, policy)
    assert np.array_equal(fresh.columns.share, kept.columns.share)
    assert np.array_equal(fresh.whole, kept.whole)
