"""Previews of quotas: where the tree changes, projects have other positions and departments."""

from dataclasses import replace

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.scenario_io.reading import parse_scenario
from weir.service.decision_state import DecisionState
from weir.service.quota_preview import PreviewedChange, preview_queues
from weir.simulation.initial_events import build_cluster
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, QueuesSet, WorkloadSubmitted
from weir.state.reduce import reduce

NOW_S = 10.0
OLD, NEW = Queue("old", is_project=False), Queue("new", is_project=False)
RESEARCH, VISION = Queue("research", "old"), Queue("vision", "new")
QUEUES = (OLD, NEW, RESEARCH, VISION)


def _previewed(excluded: dict[str, list[str]], queues: tuple[Queue, ...]) -> PreviewedChange:
    """Return the preview of a tree where the policy excludes a project or department from the only node."""
    policy = Policy.model_validate(
        {"affinity": [{**excluded, "node_labels": {"rack": "elsewhere"}, "required": True}]}
    )
    cluster, cache = Cluster(), EngineCache()
    capacity = {"cpu": 64_000, "memory": 512 << 30, "pods": 99}
    reduce(cluster, NodeSet(Node("n0", 4, 16 << 30, capacity, labels={"rack": "here"})))
    reduce(cluster, QueuesSet(QUEUES))
    for name in ("research", "vision"):
        group = PodGroup("0", Request(devices=1))
        reduce(cluster, WorkloadSubmitted(Workload(f"{name}-waits", name, (group,), 1, 0.0), 0.0))
    starts = [place.pod.workload for place in decide(cluster, policy, NOW_S, cache).binds]
    assert starts == ["vision-waits"]
    return preview_queues(DecisionState(cluster, cache, policy, NOW_S), queues)


def test_a_project_at_another_position_keeps_its_affinity_rules() -> None:
    first = Queue("first", is_project=False)
    preview = _previewed({"projects": ["research"]}, (first, *QUEUES))
    assert preview.starts == {}


def test_a_project_in_another_department_has_the_affinity_rules_of_that() -> None:
    preview = _previewed({"departments": ["old"]}, (OLD, NEW, replace(RESEARCH, parent="new"), VISION))
    assert preview.starts == {"research-waits": "It starts at once."}


def test_a_start_on_taken_devices_names_the_work_that_stops_first() -> None:
    text = """
cluster: {nodes: [{name: n0, gpus: 4, cpu: 64, memory: 64Gi}]}
projects: [{name: owner, quota: {gpu: 0}}, {name: lender, quota: {gpu: 0}}]
workloads:
- {name: long, project: lender, submitted: -5h, started: -5h, pods: [{gpus: 4, placed: [{node: n0}]}]}
- {name: asks, project: owner, pods: [{gpus: 4}]}
"""
    scenario = parse_scenario(text, "world")
    cluster = build_cluster(scenario)
    queues = tuple(
        replace(queue, quota={**queue.quota, "gpu": 4000}) if queue.name == "owner" else queue
        for queue in cluster.ledger.queues
    )
    state = DecisionState(cluster, EngineCache(), scenario.policy, 0.0)
    assert preview_queues(state, queues).starts == {"asks": "It starts once long has stopped."}
