"""Suggestions leave out one constraint, or end before an outage, and say what they cost others."""

from typing import Any

from weir.engine.cache import EngineCache
from weir.model.nodes import Node, Outage
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.scenario_io.scalars import PRIORITY_MAX
from weir.service.decision_state import DecisionState
from weir.service.suggestions import SuggestionOptions, suggestions
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, Placement, PodAssigned, PodKey, QueuesSet, WorkloadSubmitted
from weir.state.reduce import reduce

NOW_S = 10_000.0
CAPACITY = {"cpu": 64_000, "memory": 64 << 30, "pods": 99}


def work(name: str, request: Request, **fields: Any) -> Workload:
    return Workload(name, "p", (PodGroup("0", request),), 1, 0.0, user="mia", **fields)


def suggested(nodes: list[Node], waits: Workload, *, holds: str = "") -> dict[str, str]:
    """Return the suggestions for a workload by what they change; `holds` runs on all GPUs of that node."""
    cluster = Cluster()
    for node in nodes:
        reduce(cluster, NodeSet(node))
    reduce(cluster, QueuesSet((Queue("p", quota={"gpu": 8000}),)))
    cluster.now_s = NOW_S
    if holds:
        reduce(cluster, WorkloadSubmitted(work("holds", Request(devices=4)), 0.0))
        place = Placement(PodKey("holds", 0, 0), holds, (0, 1, 2, 3))
        reduce(cluster, PodAssigned(place, NOW_S - 3600))
    reduce(cluster, WorkloadSubmitted(waits, 0.0))
    state = DecisionState(cluster, EngineCache(), Policy(), NOW_S)
    changes = suggestions(lambda read: read(state), waits.name, SuggestionOptions(PRIORITY_MAX)).suggestions
    return {next(iter(suggestion.change), "time"): suggestion.sentence for suggestion in changes}


def node(name: str, model: str = "H100", **fields: Any) -> Node:
    return Node(name, 4, 16 << 30, CAPACITY, gpu_model=model, labels={"zone": name}, **fields)


def test_another_gpu_model_is_named() -> None:
    waits = work("waits", Request(devices=4, gpu_models=("H100",)))
    sentences = suggested([node("n0"), node("n1", "A100")], waits, holds="n0")
    assert sentences["gpu_models"] == "With GPU model A100 instead of H100 it starts now."


def test_a_node_selector_and_named_nodes_are_left_out() -> None:
    nodes = [node("n0"), node("n1")]
    selects = work("waits", Request(devices=4, node_selector=(("zone", "n0"),)))
    assert suggested(nodes, selects, holds="n0")["node_selector"] == (
        "Without its node selector (zone=n0) it starts now."
    )
    names = work("waits", Request(devices=4, nodes=("n0",)))
    assert suggested(nodes, names, holds="n0")["nodes"] == "On any node instead of n0 it starts now."


def test_a_longest_run_that_ends_before_an_outage_is_suggested() -> None:
    begins_s = NOW_S + 2 * 3600
    shuts = node("n0", outages=(Outage(begins_s, begins_s + 3600, sentence="maintenance"),))
    waits = work("waits", Request(devices=4), preemptible=False)
    assert suggested([shuts], waits)["max_runtime"] == (
        "With a maximum run time of 1h58m it starts now. It ends before n0 goes out of service: maintenance."
    )
    short = work("waits", Request(devices=4), preemptible=False, max_runtime_s=4 * 3600.0)
    assert "1h58m instead of 4h it starts now" in suggested([shuts], short)["max_runtime"]


def test_what_others_lose_is_said() -> None:
    waits = work("waits", Request(devices=4))
    sentences = suggested([node("n0")], waits, holds="n0")
    assert sentences["priority"] == (
        "With priority 51 instead of 50 it starts once holds of mia in p is evicted. "
        "That costs 4.56 GPU-hours: 4.00 of work since the last checkpoint, and the rest for the restart."
    )
