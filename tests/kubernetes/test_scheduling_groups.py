"""Pod groups of `scheduling.k8s.io` on a real API server that serves them."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kubernetes.constraints import Team, a_team, scheduling
from tests.kubernetes.group_plane import GROUPS_API as API
from tests.kubernetes.group_plane import plane_with_groups
from tools.controlplane.api import Object
from tools.controlplane.binaries import Binaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir
from tools.controlplane.work import job, pod

RACK = "topology.kubernetes.io/rack"
WAITS_S = 120


@pytest.fixture(scope="module")
def plane(binaries: Binaries) -> Iterator[ControlPlane]:
    with plane_with_groups(binaries) as running:
        yield running


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-groups") as running:
        yield running


@pytest.fixture
def team(weir: Weir, cluster: Cluster) -> Iterator[Team]:
    with a_team(weir, cluster) as team:
        cluster.add([node("a"), node("b")])
        yield team


def group(team: Team, name: str, least: int = 0, **spec: Any) -> Object:
    """A pod group: of pods that start together, or of pods that don't."""
    policy: Object = {"gang": {"minCount": least}} if least else {"basic": {}}
    return {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": team.namespace},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def member(team: Team, name: str, of: str, gpus: int = 1, **more: Any) -> None:
    made = pod(team.namespace, name, gpus, **more)
    team.cluster.api.create({**made, "spec": {**made["spec"], "schedulingGroup": {"podGroupName": of}}})


def stored(team: Team, name: str, api: str = API) -> Object:
    found: Object = team.cluster.api.get(f"/apis/{api}/namespaces/{team.namespace}/podgroups/{name}")
    return found


def condition(team: Team, name: str, type_: str = "PodGroupScheduled", api: str = API) -> Object:
    conditions = stored(team, name, api).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == type_), {})


def says(team: Team, name: str, status: str, words: str) -> Object:
    """Wait for the condition of a group to say this."""

    def holds() -> Object | None:
        found = condition(team, name)
        return found if found.get("status") == status and words in found.get("message", "") else None

    found = team.cluster.until(holds, WAITS_S, f"the group {name} to be {status} with {words!r}")
    assert found is not None
    return found


def describes(team: Team, kind: str, name: str, words: str) -> None:
    """Wait for `kubectl describe` to print this."""
    kubectl = team.cluster.plane.kubectl

    def description() -> str:
        return kubectl("describe", kind, name, "-n", team.namespace)

    team.cluster.until(lambda: words in description(), WAITS_S, lambda: f"{words!r} in this: {description()}")


def workload(team: Team, name: str) -> Object:
    path = f"/apis/weir.dev/v1alpha1/namespaces/{team.namespace}/workloads/podgroup-{name}"
    return team.cluster.api.maybe(path) or {}


def test_a_gang_of_four_waits_for_its_fourth_pod_and_describe_tells(team: Team) -> None:
    team.cluster.api.create(group(team, "train", 4))
    for index in range(3):
        member(team, f"p{index}", "train")
    waits = says(team, "train", "False", "3 of 4 pods exist.")
    assert waits["reason"] == "Unschedulable"
    team.is_left_out("p0", "p1", "p2")
    describes(team, "podgroup", "train", "3 of 4 pods exist.")
    describes(team, "pod", "p0", "3 of 4 pods exist.")
    member(team, "p3", "train")
    team.land("p0", "p1", "p2", "p3")
    assert says(team, "train", "True", "4 pods have nodes.")["reason"] == "Scheduled"
    found = team.cluster.until(lambda: workload(team, "train"), WAITS_S, "its workload")
    assert found is not None
    (reference,) = found["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"]) == ("PodGroup", stored(team, "train")["metadata"]["uid"])
    assert found["spec"]["minPods"] == 4


def test_two_of_four_start_where_two_fit(team: Team) -> None:
    team.cluster.api.create(group(team, "train", 2))
    for index in range(4):
        member(team, f"p{index}", "train", 8)  # there are two nodes of 8
    says(team, "train", "True", "2 pods have nodes.")
    team.cluster.until(lambda: len(team.cluster.running(team.namespace)) == 2, WAITS_S, "two pods to run")
    placed = set(team.cluster.running(team.namespace))
    team.delete(placed.pop())
    team.cluster.until(
        lambda: len(team.cluster.running(team.namespace)) == 2, WAITS_S, "another pod to take the place"
    )


def test_pods_wait_for_a_group_that_is_not_there_yet(team: Team) -> None:
    for index in range(2):
        member(team, f"p{index}", "late")
    team.waits_for("p0", "Its PodGroup late isn't there.")
    team.is_left_out("p0", "p1")
    describes(team, "pod", "p0", "Its PodGroup late isn't there.")
    team.cluster.api.create(group(team, "late", 2))
    team.land("p0", "p1")


def test_the_group_counts_before_the_job_and_an_event_says_so(team: Team) -> None:
    team.cluster.api.create(group(team, "some"))
    made = job(team.namespace, "train", 8, pods=4)
    made["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "some"}
    team.cluster.api.create(made)
    team.cluster.until(lambda: len(team.cluster.running(team.namespace)) == 2, WAITS_S, "two of four to run")

    def told() -> bool:
        events = team.cluster.api.items(f"/apis/events.k8s.io/v1/namespaces/{team.namespace}/events")
        return any(
            each["reason"] == "PodGroupCounts" and "start one by one), not 4 by its Job" in each["note"]
            for each in events
        )

    team.cluster.until(told, WAITS_S, "the event that the group counts")


def test_a_group_keeps_to_one_rack(team: Team) -> None:
    racks = [node(f"r{index}", gpus=4, labels={RACK: f"rack-{index // 2}"}) for index in range(4)]
    team.cluster.add(racks)
    team.found("r0", "r1", "r2", "r3")
    member_of_rack_0 = node_selector(f"r{0}")
    team.lands("fills", 4, **member_of_rack_0)  # rack-0 has one free node left, rack-1 two
    team.cluster.api.create(
        group(
            team, "close", 2, schedulingConstraints={"topology": [{"key": RACK}]}, disruptionMode="PodGroup"
        )
    )
    for index in range(2):
        member(team, f"p{index}", "close", 4)
    assert sorted(team.land("p0", "p1")) == ["r2", "r3"]


def node_selector(name: str) -> Object:
    return {"nodeSelector": {"kubernetes.io/hostname": name}}


def test_a_deleted_group_stops_nothing(team: Team) -> None:
    team.cluster.api.create(group(team, "gone", 2))
    for index in range(2):
        member(team, f"p{index}", "gone")
    team.land("p0", "p1")
    path = f"/apis/{API}/namespaces/{team.namespace}/podgroups/gone"
    team.cluster.api.patch(path, {"metadata": {"finalizers": None}})
    team.cluster.api.delete(path)
    team.cluster.api.patch(path, {"metadata": {"finalizers": None}}) if team.cluster.api.maybe(path) else None
    member(team, "p2", "gone", **node_selector("none"))  # Weir may read the pod before the deletion
    describes(team, "pod", "p2", "Its PodGroup gone isn't there.")
    assert {"p0", "p1"} <= set(team.cluster.running(team.namespace))


def test_weir_that_starts_late_keeps_running_gangs_and_logs_no_error(weir: Weir, team: Team) -> None:
    team.cluster.api.create(group(team, "train", 2))
    for index in range(2):
        member(team, f"p{index}", "train")
    team.land("p0", "p1")
    weir.kill()
    weir.start()
    team.lands("after", 1)
    assert {"p0", "p1"} <= set(team.cluster.running(team.namespace))
    assert workload(team, "train")["spec"]["minPods"] == 2
    errors = [line for line in weir.log_text().splitlines() if '"level":"error"' in line.replace(" ", "")]
    assert not errors
