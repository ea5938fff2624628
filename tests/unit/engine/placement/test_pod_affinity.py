"""Pod rules, each by itself: which nodes are open beside which pods."""

import pytest

from weir.engine.placement.capacity import Capacity
from weir.engine.placement.node_scores import INFEASIBLE, NodeScores
from weir.engine.placement.pod_affinity import PodAffinityRules, rule_phrase
from weir.model.nodes import Node
from weir.model.workloads import PodAffinityRule, Request
from weir.state.cluster import Cluster
from weir.state.events import NodeSet
from weir.state.reduce import reduce

CAPACITY = {"cpu": 64_000, "memory": 64 << 30, "pods": 99}
ZONES = {"a0": "a", "a1": "a", "b0": "b", "c0": "c", "d0": None}


def cluster_with(pods: dict[str, int]) -> Cluster:
    """Four zones' nodes, one without a zone; a number of pods with the label set on each."""
    cluster = Cluster()
    for name, zone in ZONES.items():
        labels = {} if zone is None else {"zone": zone}
        marks = {"m": pods[name]} if name in pods else {}
        reduce(cluster, NodeSet(Node(name, 4, 16 << 30, CAPACITY, labels=labels, foreign_marks=marks)))
    return cluster


def open_nodes(pods: dict[str, int], request: Request) -> str:
    cluster = cluster_with(pods)
    shape = cluster.shapes.shape_of(request)
    reduce(
        cluster, NodeSet(Node("d0", 4, 16 << 30, CAPACITY))
    )  # capacity for label sets that only rules name
    open_ = PodAffinityRules(cluster).open_to(cluster.free_capacity, shape)
    return " ".join(name for name, index in cluster.node_at.items() if open_[index])


def rule(kind: str, **fields: object) -> PodAffinityRule:
    return PodAffinityRule(kind, "m", "zone", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pods", "bears", "open_"),
    [
        ({"a0": 1}, False, "b0 c0 d0"),
        ({"a0": 1, "b0": 2, "c0": 1}, True, "d0"),
        ({"d0": 1}, True, "a0 a1 b0 c0 d0"),
        ({}, True, "a0 a1 b0 c0 d0"),
    ],
)
def test_apart(pods: dict[str, int], bears: bool, open_: str) -> None:
    marks = ("m",) if bears else ()
    assert open_nodes(pods, Request(marks=marks, pod_rules=(rule("anti_affinity"),))) == open_


@pytest.mark.parametrize(
    ("pods", "bears", "open_"),
    [
        ({"a1": 1}, False, "a0 a1"),
        ({"a1": 1}, True, "a0 a1"),
        ({}, False, ""),
        ({}, True, "a0 a1 b0 c0"),
        ({"d0": 1}, True, "a0 a1 b0 c0"),
    ],
)
def test_beside(pods: dict[str, int], bears: bool, open_: str) -> None:
    marks = ("m",) if bears else ()
    assert open_nodes(pods, Request(marks=marks, pod_rules=(rule("affinity"),))) == open_


@pytest.mark.parametrize(
    ("pods", "fields", "request_", "open_"),
    [
        ({"a0": 1}, {}, Request(marks=("m",)), "b0 c0"),
        ({"a0": 1}, {}, Request(), "a0 a1 b0 c0"),
        ({"a0": 1}, {"max_skew": 2}, Request(marks=("m",)), "a0 a1 b0 c0"),
        ({"a0": 1, "b0": 1, "c0": 1}, {}, Request(marks=("m",)), "a0 a1 b0 c0"),
        ({"a0": 1, "b0": 1, "c0": 1}, {"min_domains": 4}, Request(marks=("m",)), ""),
        ({"a0": 1}, {}, Request(marks=("m",), nodes=("a0", "b0")), "b0"),
        ({"a0": 1, "b0": 1}, {}, Request(marks=("m",), nodes=("a0", "b0")), "a0 b0"),
    ],
)
def test_spread(pods: dict[str, int], fields: dict[str, object], request_: Request, open_: str) -> None:
    request = Request(marks=request_.marks, nodes=request_.nodes, pod_rules=(rule("spread", **fields),))
    assert open_nodes(pods, request) == open_


def test_a_pod_may_stay_where_only_it_bears_the_mark() -> None:
    cluster = cluster_with({"a0": 1, "b0": 2})
    shape = cluster.shapes.shape_of(Request(marks=("m",), pod_rules=(rule("anti_affinity"),)))
    rules = PodAffinityRules(cluster)
    assert rules.stays(cluster.free_capacity, shape, cluster.node_at["a0"])
    assert not rules.stays(cluster.free_capacity, shape, cluster.node_at["b0"])


@pytest.mark.parametrize(
    ("wish", "first"),
    [
        (rule("affinity", weight=10), "b0"),
        (rule("anti_affinity", weight=10), "c0"),
        (rule("spread", weight=10), "c0"),
    ],
)
def test_wishes_order_nodes_and_shut_none(wish: PodAffinityRule, first: str) -> None:
    cluster = cluster_with({"a0": 1, "b0": 3, "d0": 1})
    shape = cluster.shapes.shape_of(Request(devices=1, nodes=("a0", "b0", "c0"), pod_rules=(wish,)))
    capacity, size = Capacity.of(cluster), cluster.free_capacity.free.shape[1]
    mask, wishes = _named(cluster, ("b0", "c0")), 0 * cluster.free_capacity.free[0]
    ranking = NodeScores(capacity, shape, mask, wishes, ~mask & mask, None)
    rank = PodAffinityRules(cluster).ranked(capacity.columns, shape, ranking.follow(capacity))
    assert len(rank) == size
    assert (rank != INFEASIBLE).sum() == 2
    assert cluster.node_names[int(rank.argmin())] == first


def test_rules_in_words() -> None:
    assert rule_phrase(rule("spread")) == "topology spread (m by zone)"
    keeps_away = PodAffinityRule("anti_affinity", "apart from app=web in team by zone", "zone")
    assert rule_phrase(keeps_away) == "pod anti-affinity (apart from app=web in team by zone)"


def _named(cluster: Cluster, names: tuple[str, ...]):  # type: ignore[no-untyped-def]  # an array of bools
    mask = cluster.free_capacity.free[0] < 0
    for name in names:
        mask[cluster.node_at[name]] = True
    return mask
