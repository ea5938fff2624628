"""Counts, logs and project numbers of a scheduler in a cluster, compared with the events."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.control.harness import Scene, gang

from weir.api.answers import Explanation
from weir.control.port import Fact, PodExit, PodExited
from weir.engine.overcommit import NodeDeviceUsage, OvercommittedNode
from weir.engine.plan import Eviction, Plan
from weir.kubernetes.process.control import decision_log
from weir.kubernetes.process.control.scheduling_counters import PROJECTS_MAX, REST, SchedulingCounters
from weir.kubernetes.query.cluster.summary import ClusterSummary, SchedulableDemand, cluster_summary
from weir.kubernetes.state.queue_view import QueueView
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import EvictionCause, EvictionRule
from weir.model.resources import GPU
from weir.service.queue_rows import queue_rows
from weir.state.events import Event, NodeSet, Placement, PodKey, QueuesSet

QUOTA = QueuesSet((Queue("team", quota={GPU: 2000}),))
CAUSE = EvictionCause(EvictionRule.RECLAIM_QUOTA, "other/job", "team holds more than its quota")


class Counted(Scene):
    """A scene whose events are counted and logged."""

    def __init__(self, *facts: Fact) -> None:
        self.counts = SchedulingCounters()
        self.log = decision_log.DecisionLog()
        super().__init__(QUOTA, *facts)

    def happened(self, event: Event) -> None:
        super().happened(event)
        self.counts.happened(self.control.cluster, event)

    def decided(self, plan: Plan, now_s: float, took_s: float) -> None:
        self.counts.decided(self.control.cluster, plan, took_s)
        self.log.decided(self.control.cluster, plan, 7, took_s)

    def numbers(
        self, reasons: dict[str, Explanation], over: Sequence[OvercommittedNode] = (), **pending: int
    ) -> ClusterSummary:
        view = QueueView({}, {}, {}, {}, {}, pending, {}, {})
        cluster = self.control.cluster
        return cluster_summary(
            cluster, Policy(), self.now_s, view, SchedulableDemand.of(cluster, view, reasons), reasons, over
        )


def count(found: Any) -> int:
    return int(found.buckets()[0][-1][1])


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    reported: list[dict[str, Any]] = []

    class Log:
        def info(self, event: str, **words: Any) -> None:
            reported.append(json.loads(json.dumps({"event": event, **words})))

    monkeypatch.setattr(decision_log, "_LOG", Log())
    return reported


def test_a_gang_waits_once_and_within_its_quota_only_if_all_of_it_is() -> None:
    scene = Counted(gang("small", 2), gang("large", 3))
    scene.step(at_s=5.0)
    scene.starts("small", 2)
    assert count(scene.counts.waits["team"]) == 1
    assert scene.counts.waits["team"].buckets()[1] == 5.0
    assert count(scene.counts.quota_waits["team"]) == 1
    places = [Placement(PodKey("large", 0, at), "node", (2 + at,)) for at in range(3)]
    scene.step(plan=Plan(binds=places), at_s=9.0)
    assert count(scene.counts.waits["team"]) == 2
    assert count(scene.counts.quota_waits["team"]) == 1, "its last pods pass the quota"


def test_evictions_are_counted_by_rule_and_logged_with_their_cycle(lines: list[dict[str, Any]]) -> None:
    scene = Counted(gang("job", 2), gang("waits", 1))
    starts = scene.starts("job", 2)
    evictions = [Eviction(pod, CAUSE) for pod in starts]
    scene.step(plan=Plan(evictions=evictions))
    assert dict(scene.counts.evictions) == {("reclaim_quota", "team"): 1}
    assert dict(scene.counts.evicted_pods) == {"reclaim_quota": 2}
    assert scene.counts.moves == 0
    (evicted,) = (line for line in lines if line["event"] == "evicted")
    assert evicted == {
        "event": "evicted",
        "cycle": 7,
        "workload": "job",
        "project": "team",
        "pods": 2,
        "rule": "reclaim_quota",
        "beneficiary": "other/job",
        "moves": False,
        "why": CAUSE.sentence,
    }
    (placed,) = (line for line in lines if line["event"] == "placed")
    assert (placed["cycle"], placed["pods"], placed["nodes"]) == (7, 2, ["node"])


def test_devices_of_stopping_pods_are_allocated_until_they_are_free() -> None:
    scene = Counted(gang("job", 2), gang("waits", 1))
    starts = scene.starts("job", 2)

    def allocated() -> float:
        return queue_rows(scene.control.cluster, Policy(), 0.0, {}, {})["team"].allocated[GPU]

    scene.step(plan=Plan(evictions=[Eviction(pod, CAUSE) for pod in starts]))
    assert sum(scene.control.cluster.ledger.allocated[0]) == 0, "on its way back, for the engine"
    assert allocated() == 2.0
    (first, start), *_ = starts.items()
    scene.step(PodExited(first, start, PodExit.STOPPED, 0.0))
    assert allocated() == 1.0
    scene.step(*scene.exits(starts, PodExit.STOPPED))
    assert allocated() == 0.0


def test_what_can_never_run_is_neither_demand_nor_pending() -> None:
    scene = Counted(gang("fits", 1), gang("never", 1, devices=9))
    scene.step()
    never = {"never": Explanation(why="no_node_matches", sentence="it asks for 9 GPUs")}
    numbers = scene.numbers(never, team=2)
    assert numbers.demand["team"][GPU] == 1.0
    assert numbers.queues["team"].share[GPU] == 1.0
    assert (numbers.queues["team"].pending, numbers.unschedulable["team"]) == (1, 1)
    assert numbers.waiting == {("team", "no_node_matches"): 1}
    assert scene.numbers({}, team=2).demand["team"][GPU] == 10.0, "until the reason is known"


def test_amounts_of_nodes_are_not_cut_off() -> None:
    scene = Counted(gang("job", 2))
    scene.starts("job", 2)
    shrunk = Node("node", 1, 16 << 30, {"cpu": 64_000, "memory": 1 << 40, "pods": 110})
    scene.step(NodeSet(shrunk))
    use = NodeDeviceUsage(gpus=1, own_milli=2000, others=0, needed_milli=2000)
    numbers = scene.numbers({}, [OvercommittedNode("node", use, 0.0)])
    assert (numbers.overcommitted_nodes, numbers.overcommitted_gpus) == (1, 1.0)
    assert (numbers.nodes, numbers.gpus, numbers.allocated_gpus) == (1, 1.0, 2.0)


def test_series_are_bounded_and_go_with_their_project() -> None:
    counts = SchedulingCounters()
    labels = {counts.label(f"p{at}") for at in range(PROJECTS_MAX + 100)}
    assert len(labels) == PROJECTS_MAX + 1
    assert REST in labels
    counts.evictions["reclaim_quota", counts.label("p1")] += 1
    counts.evictions["reclaim_quota", counts.label("p2")] += 1
    counts.keep(["p2"])
    assert dict(counts.evictions) == {("reclaim_quota", "p2"): 1}
    assert counts.label("new") == "new"


def test_lines_are_bounded_and_the_rest_is_counted(lines: list[dict[str, Any]]) -> None:
    scene = Counted()
    reasons = {f"job{at}": Explanation(why="insufficient_capacity", sentence="full") for at in range(250)}
    scene.log.waits(scene.control.cluster, reasons, reasons, 3)
    assert len(lines) == decision_log.LINES_MAX + 1
    assert lines[-1] == {"event": "waits", "cycle": 3, "further": 150}
    scene.log.waits(scene.control.cluster, reasons, reasons, 4)
    assert len(lines) == decision_log.LINES_MAX + 1, "the same class of reason isn't logged again"
    scene.log.refused({"team/x": "no project", "team/y": "no project"})
    scene.log.refused({"team/x": "no project", "team/y": "no topology"})
    assert [line["object"] for line in lines[-3:]] == ["team/x", "team/y", "team/y"]
