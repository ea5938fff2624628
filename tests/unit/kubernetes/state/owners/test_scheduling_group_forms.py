"""Forms of pod groups in each release of Kubernetes, and the conditions that are written on them."""

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.small_world import pod
from tests.unit.kubernetes.state.owners.pod_groups import (
    gang_named,
    gang_of,
    group,
    member,
    member_of_1_35,
    small_cluster,
)

from weir.api.answers import Explanation
from weir.control.port import GateChanged
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.translate.scheduling_groups import (
    MIN_COUNT_MAX,
    policies_of_workload,
    policy_of_pod_group,
    reference_of,
)
from weir.kubernetes.writes.operations import ApplyObject
from weir.kubernetes.writes.statuses.group_conditions import GroupConditions

# The forms of the API


def test_pods_name_their_group_in_the_forms_of_each_release() -> None:
    of_1_35 = b'{"workloadRef": {"name": "w", "podGroup": "workers", "podGroupReplicaKey": "0"}}'
    of_1_36 = b'{"schedulingGroup": {"podGroupName": "train"}}'
    spec = type(pod("p").spec)
    old = reference_of(msgspec.json.decode(of_1_35, type=spec))
    new = reference_of(msgspec.json.decode(of_1_36, type=spec))
    assert (str(old), old and old.gang) == ("pod group workers of its Workload w", "workers.0")
    assert (str(new), new and new.gang) == ("PodGroup train", "")
    assert reference_of(msgspec.json.decode(b'{"schedulingGroup": {}}', type=spec)) is None


def test_disruption_modes_and_priorities_of_both_versions_are_read() -> None:
    both = [gang_of(2, disruptionMode="PodGroup"), gang_of(2, disruptionMode={"all": {}})]
    assert [policy_of_pod_group(group(spec=spec)).stops_whole for spec in both] == [True, True]
    single = [gang_of(2, disruptionMode="Pod"), gang_of(2, disruptionMode={"single": {}}), gang_of(2)]
    assert [policy_of_pod_group(group(spec=spec)).stops_whole for spec in single] == [False] * 3
    unclassed = policy_of_pod_group(group(spec=gang_of(2, priority=0)))
    classed = policy_of_pod_group(group(spec=gang_of(2, priority=0, priorityClassName="none")))
    assert (unclassed.priority, classed.priority) == (None, 0)
    assert not policy_of_pod_group(group(spec=gang_of(2, preemptionPolicy="Never"))).can_preempt


@pytest.mark.parametrize("count", [0, -1, MIN_COUNT_MAX + 1, "4", None, True, 2.5])
def test_a_group_with_no_sound_minimum_is_refused_and_its_pods_say_so(count: Any) -> None:
    reported = small_cluster()
    reported.see("pods", member("a"))
    reported.see("podgroups", group(spec={"schedulingPolicy": {"gang": {"minCount": count}}}))
    (fact,) = [fact for fact in reported.step() if isinstance(fact, GateChanged)]
    assert "minCount: write a number from 1" in str(fact.reason)
    assert reported.cluster_state.unreadable.counts() == {"podgroups": 1}
    reported.see("podgroups", group(spec=gang_of(1)))
    reported.step()
    assert not reported.cluster_state.unreadable.counts()
    assert not reported.control.cluster.jobs["team/podgroup-train"].held


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"schedulingPolicy": None},
        {"schedulingPolicy": []},
        {"schedulingPolicy": {"basic": {}}},
        gang_of(1, schedulingConstraints={"topology": [7]}),
        gang_of(1, schedulingConstraints={"topology": {}}, disruptionMode=7, priority="high"),
        gang_of(1, parentCompositePodGroupName=7, priority=1 << 40),
    ],
)
def test_a_group_of_any_other_shape_means_no_gang(spec: Any) -> None:
    policy = policy_of_pod_group(group(spec=spec))
    assert (policy.min_count or 1, policy.topology_key, policy.parent, policy.priority) == (1, "", "", None)


def test_pod_groups_of_a_workload_of_1_35_are_gangs_by_replica() -> None:
    reported = small_cluster()
    groups = [
        {"name": "workers", "policy": {"gang": {"minCount": 2}}},
        {"name": "driver", "policy": {"basic": {}}},
    ]
    made = group("w", {"podGroups": groups}, api="v1alpha1")
    assert set(policies_of_workload(made)) == {"workers", "driver"}
    reported.see("groupworkloads", made)
    for name, of, replica in (
        ("a", "workers", "0"),
        ("b", "workers", "0"),
        ("c", "workers", "1"),
        ("d", "driver", ""),
    ):
        reported.see("pods", member_of_1_35(name, "w", of, replica))
    reported.see("pods", member_of_1_35("e", "w", "nobody"))
    reported.step()
    jobs = reported.control.cluster.jobs
    held = {name.removeprefix("team/"): job_.held for name, job_ in jobs.items()}
    assert held == {
        "workload-w-workers.0": False,
        "workload-w-workers.1": True,
        "workload-w-driver": False,
        "pod-e": True,
    }
    assert jobs["team/pod-e"].held_why == "Its pod group nobody of its Workload w isn't there."


# Conditions


def write(
    conditions: GroupConditions, gang: Gang, phase: str, why: str = "", now_s: float = 100.0
) -> dict[str, Any]:
    reason = Explanation(why="insufficient_capacity", sentence=why) if why else None
    stop = reason if phase == "Stopping" else None
    writes = list(conditions.take(gang, phase, reason, stop, now_s))
    assert all(isinstance(each, ApplyObject) for each in writes)
    if not writes:
        return {}
    (applied,) = writes
    assert isinstance(applied, ApplyObject)
    body: Any = applied.body
    assert applied.path.endswith("/podgroups/train/status")
    return {each["type"]: (each["status"], each["reason"]) for each in body["status"]["conditions"]}


@pytest.mark.parametrize(
    ("api", "type_"), [("v1alpha2", "PodGroupScheduled"), ("v1beta1", "PodGroupInitiallyScheduled")]
)
def test_the_condition_of_a_group_says_why_it_waits_and_stays_true_once_it_was(api: str, type_: str) -> None:
    reported = small_cluster()
    reported.see("podgroups", group(spec=gang_of(1), api=api))
    reported.see("pods", member("a"))
    reported.step()
    conditions, gang = GroupConditions(), gang_named(reported)
    assert write(conditions, gang, "Pending", "no GPU is free") == {type_: ("False", "Unschedulable")}
    assert not write(conditions, gang, "Pending", "no GPU is free")
    assert not write(conditions, gang, "Pending", "2 GPUs are lacking", now_s=101)
    assert write(conditions, gang, "Pending", "2 GPUs are lacking", now_s=200)
    reported.see("pods", member("a", on="n1", devices="0", start=1))
    reported.step()
    scheduled = {type_: ("True", "Scheduled")}
    assert write(conditions, gang, "Starting") == scheduled
    disrupted = {"DisruptionTarget": ("True", "PreemptionByScheduler")}
    assert write(conditions, gang, "Stopping", "stopped for another") == scheduled | disrupted
    assert not write(conditions, gang, "Pending", "no GPU is free")
    assert write(conditions, gang, "Running") == scheduled | {"DisruptionTarget": ("False", "Scheduled")}
