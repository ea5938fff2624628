"""Outages in random clusters: nothing is started into one, and the capacity is as it was without them."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weir.engine.cache import EngineCache
from weir.engine.capacity import Capacity
from weir.engine.cycle import decide
from weir.engine.outages import OutageRules
from weir.engine.placer import NodePlacement
from weir.engine.plan import Plan
from weir.model.nodes import Node, Outage
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, Placement
from weir.state.reduce import reduce

from .budget import examples
from .random_cluster import World, worlds
from .running import Running

TIMES = st.sampled_from((-1000.0, 0.0, 60.0, 700.0, 4000.0, 100_000.0))


@st.composite
def outages(draw: st.DrawFn, node: Node, now_s: float) -> tuple[Outage, ...]:
    """Draw outages of a node around a time."""
    found = []
    for _ in range(draw(st.integers(0, 2))):
        begins_s = now_s + draw(TIMES)
        ends_s = draw(st.none() | st.just(begins_s + 5000.0))
        some = st.lists(st.integers(0, node.gpus - 1), min_size=1, unique=True) if node.gpus else st.none()
        devices = draw(st.none() | some)
        found.append(
            Outage(
                begins_s,
                ends_s,
                None if devices is None else tuple(devices),
                keeps_running=draw(st.booleans()),
            )
        )
    return tuple(found)


def started_into_an_outage(cluster: Cluster, rules: OutageRules, places: list[Placement]) -> list[str]:
    """Return the workloads that are placed where they would run into an outage."""
    found = []
    for place in places:
        job = cluster.jobs[place.pod.workload]
        pod = job.pods[place.pod.group][place.pod.index]
        node = cluster.node_at[place.node]
        if rules.conflicts(job, [NodePlacement(pod, node, place.devices)]):
            found.append(job.name)
    return found


@examples(60)
@given(worlds(), st.data())
def test_nothing_is_started_into_an_outage(world: World, data: st.DataObject) -> None:
    running = Running(world)
    for _ in running.run():
        pass
    cluster, now_s = running.cluster, running.now_s
    for node in [each for each in cluster.nodes if each is not None]:
        reduce(cluster, NodeSet(replace(node, outages=data.draw(outages(node, now_s)))))
    cache = EngineCache()
    plan: Plan = decide(cluster, world.policy, now_s, cache)
    rules = OutageRules(cluster, world.policy, now_s)
    moved = {eviction.pod.workload for eviction in plan.evictions if eviction.moves}
    nominated = [place for each in plan.nominations if each.workload not in moved for place in each.places]
    assert started_into_an_outage(cluster, rules, [*plan.binds, *nominated]) == []
    assert decide(cluster, world.policy, now_s, EngineCache(bounds=False)) == plan
    fresh, kept = Capacity.of(cluster), cache.sync(cluster, world.policy)
    assert np.array_equal(fresh.columns.share, kept.columns.share)
    assert np.array_equal(fresh.whole, kept.whole)
