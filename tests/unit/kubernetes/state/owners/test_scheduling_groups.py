"""Pod groups of `scheduling.k8s.io`: which workload their pods are, in every order in which they are heard of."""

from itertools import permutations

import pytest
from tests.unit.kubernetes.small_world import job
from tests.unit.kubernetes.state.owners.pod_groups import gang_named, gang_of, group, member, small_cluster

from weir.kubernetes.writes.statuses.fields import notices
from weir.model.workloads import TopologyRequest

# Which gang counts


def test_a_gang_of_four_waits_for_its_fourth_pod() -> None:
    reported = small_cluster()
    reported.see("podgroups", group())
    for index in range(3):
        reported.see("pods", member(f"p{index}"))
    reported.step()
    assert reported.control.cluster.jobs["team/podgroup-train"].held_why == "3 of 4 pods exist."
    reported.see("pods", member("p3"))
    reported.step()
    assert not reported.control.cluster.jobs["team/podgroup-train"].held


def test_a_group_with_two_of_four_starts_with_two_and_grows() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(2)))
    for index in range(4):
        reported.see("pods", member(f"p{index}"))
    reported.step()
    workload = reported.control.cluster.jobs["team/podgroup-train"].spec
    assert (workload.min_pods, workload.pods) == (2, 4)


def test_the_same_workload_in_any_order_of_group_owner_and_pods() -> None:
    seen = [
        ("podgroups", group(spec=gang_of(2))),
        ("owners", job("train", "j1", 3)),
        ("pods", member("a", owner=("train", "j1"))),
        ("pods", member("b", owner=("train", "j1"))),
    ]
    states = []
    for order in permutations(seen):
        reported = small_cluster()
        for resource, each in order:
            reported.see(resource, each)
            reported.step()
        states.append(reported.state())
    assert all(state == states[0] for state in states)
    assert states[0]["jobs"] == {"team/podgroup-train": states[0]["jobs"]["team/podgroup-train"]}


def test_the_group_counts_before_the_annotation_and_the_table_and_says_so() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(2)))
    reported.see("owners", job("train", "j1", 4, min_pods="3"))
    for index in range(2):
        reported.see("pods", member(f"p{index}", owner=("train", "j1")))
    reported.step()
    gang = gang_named(reported)
    assert gang.needed == 2
    assert list(notices(gang)) == [
        (
            "PodGroupCounts",
            "Its PodGroup train counts (2 of its pods start together), not weir.dev/min-pods: 3.",
        )
    ]


def test_the_basic_policy_makes_no_gang_of_what_the_table_takes_for_one() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec={"schedulingPolicy": {"basic": {}}}))
    reported.see("owners", job("train", "j1", 4))
    reported.see("pods", member("p0", owner=("train", "j1")))
    reported.step()
    gang = gang_named(reported)
    assert gang.needed == 1
    assert not reported.control.cluster.jobs[gang.name].held
    ((_, sentence),) = notices(gang)
    assert sentence == "Its PodGroup train counts (its pods start one by one), not 4 by its Job."


def test_pods_of_several_owners_are_one_gang_and_one_owners_end_does_not_end_it() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(2)))
    reported.see("owners", job("one", "j1"), job("two", "j2"))
    reported.see("pods", member("a", owner=("one", "j1")), member("b", owner=("two", "j2")))
    reported.step()
    assert list(reported.control.cluster.jobs) == ["team/podgroup-train"]
    reported.see("owners", job("two", "j2", over="Complete"))
    reported.step()
    assert gang_named(reported).is_over() is None


def test_the_end_of_the_only_owner_ends_its_group() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(1)))
    reported.see("owners", job("one", "j1"))
    reported.see("pods", member("a", owner=("one", "j1")))
    reported.step()
    reported.see("owners", job("one", "j1", over="Failed"))
    reported.step()
    assert gang_named(reported).is_over() is not None


def test_a_job_whose_pods_are_to_come_again_keeps_its_group_alive() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(1)))
    reported.see("owners", job("one", "j1"))
    reported.see("pods", member("a", owner=("one", "j1")))
    reported.step()
    reported.gone("pods", "team/a", "u-a")
    reported.step()
    for _ in range(5):
        reported.step(after_s=60)
    assert "team/podgroup-train" in reported.control.cluster.jobs
    reported.gone("owners", "one", "j1")
    reported.step()
    assert "team/podgroup-train" not in reported.control.cluster.jobs


@pytest.mark.parametrize("group_first", [True, False])
def test_a_deleted_group_without_pods_ends_its_workload_at_once(group_first: bool) -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(1)))
    reported.see("pods", member("a"))
    reported.step()
    deletions = [("podgroups", "team/train", "g-train"), ("pods", "team/a", "u-a")]
    for each in deletions if group_first else deletions[::-1]:
        reported.gone(*each)
        reported.step()
    assert "team/podgroup-train" not in reported.control.cluster.jobs


def test_a_group_that_was_away_for_a_while_keeps_its_workload() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(1)))
    reported.see("owners", job("one", "j1"))
    reported.see("pods", member("a", owner=("one", "j1")))
    reported.step()
    reported.gone("podgroups", "team/train", "g-train")
    reported.step()
    reported.see("podgroups", group(spec=gang_of(1)))  # in another version of the API
    reported.step()
    reported.gone("pods", "team/a", "u-a")
    reported.step()
    assert "team/podgroup-train" in reported.control.cluster.jobs


# Missing, late, changed and deleted groups


def test_pods_of_a_missing_group_wait_until_it_comes() -> None:
    reported = small_cluster()
    reported.see("pods", member("a"))
    reported.step()
    assert reported.control.cluster.jobs["team/pod-a"].held_why == "Its PodGroup train isn't there."
    reported.cluster_state.resolver.groups.set_unserved({"PodGroup": "nobody serves it"})
    reported.step()
    assert (
        reported.control.cluster.jobs["team/pod-a"].held_why
        == "Its PodGroup train can't be read: nobody serves it."
    )
    reported.cluster_state.resolver.groups.set_unserved({})
    reported.see("podgroups", group(spec=gang_of(1)))
    reported.step()
    assert list(reported.control.cluster.jobs) == ["team/podgroup-train"]
    assert not reported.control.cluster.jobs["team/podgroup-train"].held


def test_a_deleted_group_counts_for_the_pods_that_run_and_no_others_start() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(2)))
    for index in range(2):
        reported.see("pods", member(f"p{index}", on="n1", devices=str(index), start=1, phase="Running"))
    reported.step()
    reported.gone("podgroups", "team/train", "g-train")
    reported.see("pods", member("p2"))
    reported.step()
    gang = gang_named(reported)
    assert (gang.needed, [each.name for each in gang.pods()]) == (1, ["p0", "p1"])
    assert reported.control.cluster.jobs["team/pod-p2"].held_why == "Its PodGroup train isn't there."
    assert reported.pods()["team/p0"] == ("RUNNING", "n1")


def test_a_pod_made_after_its_group_was_deleted_is_a_workload_of_its_own_until_the_group_returns() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(2)))
    for index in range(2):
        reported.see("pods", member(f"p{index}", on="n1", devices=str(index), start=1, phase="Running"))
    reported.step()
    reported.gone("podgroups", "team/train", "g-train")
    reported.see("pods", member("late"))
    reported.step()
    for index in range(2):
        reported.gone("pods", f"team/p{index}", f"u-p{index}")
    for _ in range(3):
        reported.step(after_s=61)
    assert list(reported.control.cluster.jobs) == ["team/pod-late"]
    reported.see("podgroups", group(spec=gang_of(1), uid="another"))
    reported.step()
    assert list(reported.control.cluster.jobs) == ["team/podgroup-train"]
    assert not reported.control.cluster.jobs["team/podgroup-train"].held


def test_a_pod_that_is_being_bound_stays_with_its_deleted_group() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(1)))
    reported.see("pods", member("a"))
    reported.step()
    gang = gang_named(reported)
    (tracked,) = gang.pods()
    tracked.assumed, tracked.node = True, "n1"
    reported.gone("podgroups", "team/train", "g-train")
    reported.step()
    assert tracked.gang is gang


def test_a_group_made_again_with_another_minimum_counts_at_once() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(2)))
    reported.see("pods", member("a"), member("b"))
    reported.step()
    assert not reported.control.cluster.jobs["team/podgroup-train"].held
    reported.gone("podgroups", "team/train", "g-train")
    reported.see("podgroups", group(spec=gang_of(3), uid="another"))
    reported.step()
    reported.step()
    (job_,) = reported.control.cluster.jobs.values()
    assert job_.held_why == "2 of 3 pods exist."
    reported.see("podgroups", group(spec=gang_of(2), uid="another"))  # from 1.37 on it may change
    reported.step()
    assert not job_.held


def test_nothing_is_kept_of_pods_and_groups_that_are_gone() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(1, schedulingConstraints={"topology": [{"key": "rack"}]})))
    reported.see("owners", job("one", "j1"))
    reported.see("pods", member("a", owner=("one", "j1")), member("x", scheduler="other"))
    reported.step()
    for key in ("a", "x"):
        reported.gone("pods", f"team/{key}", f"u-{key}")
    reported.gone("podgroups", "team/train", "g-train")
    reported.gone("owners", "one", "j1")
    for _ in range(3):
        reported.step(after_s=61)
    groups = reported.cluster_state.resolver.groups
    assert not reported.cluster_state.registry.gangs
    kept = [
        getattr(groups, name) for name in ("named", "_policies", "_gone", "_reference", "_members", "_labels")
    ]
    assert kept == [type(each)() for each in kept]
    assert not reported.cluster_state.resolver.others._grouped


# What else a group says


def test_a_topology_constraint_keeps_the_gang_to_one_value_of_a_node_label() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(1, schedulingConstraints={"topology": [{"key": "rack"}]})))
    reported.see("pods", member("a"))
    reported.step()
    workload = reported.control.cluster.jobs["team/podgroup-train"].spec
    assert workload.topology == TopologyRequest("node-label/rack", "rack")
    assert [each.levels for each in reported.control.cluster.topologies.values()] == [("rack",)]
    reported.gone("podgroups", "team/train", "g-train")
    reported.step()
    assert not reported.control.cluster.topologies


def test_more_node_labels_than_the_engine_takes_are_refused_by_name() -> None:
    reported = small_cluster()
    for index in range(20):
        keeps = {"topology": [{"key": f"label-{index}"}]}
        reported.see("podgroups", group(f"g{index}", gang_of(1, schedulingConstraints=keeps)))
        reported.see("pods", member(f"p{index}", of=f"g{index}"))
    reported.step()
    waits = [job_.held_why for job_ in reported.control.cluster.jobs.values() if job_.held]
    assert len(waits) == 4
    assert all("16 other node labels keep groups together already" in each for each in waits)


def test_a_group_that_is_disrupted_as_a_whole_needs_all_pods_that_run() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(1, disruptionMode="PodGroup")))
    for index in range(3):
        reported.see("pods", member(f"p{index}", on="n1", devices=str(index), start=1, phase="Running"))
    reported.see("pods", member("p3"))
    reported.step()
    assert reported.control.cluster.jobs["team/podgroup-train"].spec.min_pods == 3
    reported.gone("pods", "team/p2", "u-p2")
    reported.step()
    assert reported.control.cluster.jobs["team/podgroup-train"].spec.min_pods == 2


def test_a_group_that_is_disrupted_as_a_whole_needs_no_pod_whose_node_is_gone() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(1, disruptionMode="PodGroup")))
    for index in range(2):
        reported.see("pods", member(f"p{index}", on=f"n{index + 1}", devices="0", start=1, phase="Running"))
    reported.step()
    reported.gone("nodes", "n2", "n2")
    reported.step()
    workload = reported.control.cluster.jobs["team/podgroup-train"]
    assert (workload.spec.min_pods, workload.is_below()) == (1, False)


def test_priority_and_preemption_are_those_of_the_group() -> None:
    reported = small_cluster()
    spec = gang_of(1, priority=80, priorityClassName="high", preemptionPolicy="Never")
    reported.see("podgroups", group(spec=spec, api="v1beta1"))
    reported.see("pods", member("a"))
    reported.step()
    workload = reported.control.cluster.jobs["team/podgroup-train"].spec
    assert (workload.priority, workload.can_preempt) == (80, False)


def test_a_group_inside_a_composite_group_is_refused() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(1, parentCompositePodGroupName="all"), api="v1beta1"))
    reported.see("pods", member("a"))
    reported.step()
    assert "CompositePodGroup all" in reported.control.cluster.jobs["team/podgroup-train"].held_why


def test_members_that_another_scheduler_places_count() -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(2)))
    reported.see("pods", member("a"), member("x", scheduler="other"))
    reported.step()
    held = reported.control.cluster.jobs["team/podgroup-train"].held_why
    assert held == "1 of 2 pods are ready to be placed; x: It waits for the scheduler other."
    reported.see("pods", member("x", scheduler="other", on="n2"))
    reported.step()
    assert not reported.control.cluster.jobs["team/podgroup-train"].held
