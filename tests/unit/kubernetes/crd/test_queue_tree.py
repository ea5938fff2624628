"""Objects become the quota tree, and each mistake stays with the object that made it."""

from typing import Any

from weir.kubernetes.crd.queue_tree import QueueObject, topologies_of, tree_of
from weir.model.queues import QueueTimeLimits


def q(name: str, created_s: float = 0.0, **spec: Any) -> QueueObject:
    return QueueObject(name, spec, created_s)


def test_parents_come_first_and_amounts_are_numbers() -> None:
    tree = tree_of(
        [q("team", 2, parent="org"), q("org", 1, quota={"gpu": 8, "cpu": "1500m"})],
        [
            q("b", 4, department="team", quota={"gpu": "1.5"}, namespaces=["x", "y"]),
            q("a", 3, department="team", quota={"gpu": 2}, times={"maxRuntime": "2h"}, namespaces=["x"]),
        ],
    )
    assert [queue.name for queue in tree.queues] == ["org", "team", "a", "b"]
    org, team, a, b = tree.queues
    assert org.quota == {"gpu": 8000, "cpu": 1500}
    assert team.quota == {"gpu": 3500}
    assert (team.parent, a.parent, a.times, a.created_s) == (
        "org",
        "team",
        QueueTimeLimits(max_runtime_s=7200.0),
        3,
    )
    assert b.quota == {"gpu": 1500}
    assert tree.projects_of == {"x": ("a", "b"), "y": ("b",)}
    assert (tree.refused, tree.remarks) == ({}, {})


def test_what_cannot_be_read_is_left_out_in_the_words_of_the_object() -> None:
    tree = tree_of(
        [], [q("a", quota={"gpu": "four"}), q("b", times={"maxRuntme": 2, "idleLimit": "x"}), q("c")]
    )
    assert [queue.name for queue in tree.queues] == ["c"]
    assert "quota.gpu: 'four' is not a quantity; write" in tree.refused["Project", "a"]
    answer = tree.refused["Project", "b"]
    assert "unknown key maxRuntme; did you mean maxRuntime?" in answer
    assert "times.idleLimit: 'x' is not a duration; write" in answer


def test_an_amount_finer_than_its_unit_is_a_mistake_and_a_sum_of_floats_is_not() -> None:
    tree = tree_of(
        [q("d", quota={"cpu": "100u"})],
        [q("a", limit={"gpu": "0.0001"}), q("b", quota={"gpu": "0.30000000000000004"})],
    )
    assert [(queue.name, queue.quota) for queue in tree.queues] == [("b", {"gpu": 300})]
    share = "is finer than 0.001, the smallest share of a"
    assert tree.refused == {
        ("Department", "d"): f"quota.cpu: '100u' {share} core; write 0.001",
        ("Project", "a"): f"limit.gpu: '0.0001' {share} device; write 0.001",
    }


def test_a_name_belongs_to_the_older_of_two() -> None:
    tree = tree_of([q("a", 5)], [q("a", 4, namespaces=["x"])])
    assert [(queue.name, queue.is_project) for queue in tree.queues] == [("a", True)]
    assert "a is the name of a project already" in tree.refused["Department", "a"]
    tree = tree_of([q("a", 3)], [q("a", 4, namespaces=["x"])])
    assert [(queue.name, queue.is_project) for queue in tree.queues] == [("a", False)]
    assert "a is the name of a department already" in tree.refused["Project", "a"]
    assert tree.projects_of == {}


def test_without_its_parent_a_queue_stands_at_the_root() -> None:
    tree = tree_of([q("research"), q("x", parent="gone")], [q("a", department="reserch")])
    assert {queue.name: queue.parent for queue in tree.queues} == {"research": None, "x": None, "a": None}
    assert "there is no department reserch; did you mean research?" in tree.remarks["Project", "a"]
    assert ("Department", "x") in tree.remarks


def test_a_circle_is_cut_at_its_newest() -> None:
    tree = tree_of([q("a", 1, parent="c"), q("b", 3, parent="a"), q("c", 2, parent="b")], [])
    assert {queue.name: queue.parent for queue in tree.queues} == {"b": None, "c": "b", "a": "c"}
    assert "is a circle: leave out the parent of one of them" in tree.remarks["Department", "b"]


def test_a_limit_counts_where_the_quota_is_above_it() -> None:
    tree = tree_of([], [q("a", quota={"gpu": 4, "cpu": 1}, limit={"gpu": 2})])
    assert tree.queues[0].quota == {"gpu": 2000, "cpu": 1000}
    assert "the limit of gpu is below its quota" in tree.remarks["Project", "a"]


def test_topologies() -> None:
    found, refused = topologies_of([q("net", levels=["rack", "host"]), q("bad", levels=[])])
    assert [each.levels for each in found] == [("rack", "host")]
    assert "levels: is an empty list" in refused["Topology", "bad"]
