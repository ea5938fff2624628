"""Pod groups of `scheduling.k8s.io` on a real API server that serves them."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kubernetes.constraints import Team, a_team, scheduling
from tests.kubernetes.group_plane import GroupForm, form_of, plane_with_groups
from tools.controlplane.api import Object
from tools.controlplane.binaries import Binaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir
from tools.controlplane.work import job, pod

RACK = "topology.kubernetes.io/rack"


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


@pytest.fixture
def form(binaries: Binaries) -> GroupForm:
    return form_of(binaries)


def make(team: Team, form: GroupForm, name: str, least: int = 0, **spec: Any) -> None:
    """Make a pod group: of pods that start together, or of pods that don't."""
    team.cluster.api.create(form.group(team.namespace, name, least, **spec))


def member(team: Team, form: GroupForm, name: str, of: str, gpus: int = 1, **more: Any) -> None:
    made = pod(team.namespace, name, gpus, **more)
    team.cluster.api.create({**made, "spec": {**made["spec"], **form.reference(of)}})


def condition(team: Team, form: GroupForm, name: str) -> Object:
    status = team.cluster.api.get(form.path(team.namespace, name)).get("status", {})
    return next((each for each in status.get("conditions", []) if each["type"] == form.condition), {})


def says(team: Team, form: GroupForm, name: str, status: str, words: str) -> str:
    """Wait for the condition of a group to say this, and return its reason; the form has to have one."""

    def holds() -> Object | None:
        found = condition(team, form, name)
        return found if found.get("status") == status and words in found.get("message", "") else None

    found = team.cluster.until(holds, f"the group {name} to be {status} with {words!r}")
    assert found is not None
    return str(found["reason"])


def describes(team: Team, kind: str, name: str, words: str) -> None:
    """Wait for `kubectl describe` to print this."""
    kubectl = team.cluster.plane.kubectl

    def description() -> str:
        return kubectl("describe", kind, name, "-n", team.namespace)

    team.cluster.until(lambda: words in description(), lambda: f"{words!r} in this: {description()}")


def workload_of(team: Team, form: GroupForm, name: str, least: int) -> Object | None:
    """Return Weir's workload of a group, once it states how many pods start together."""
    path = f"/apis/weir.dev/v1alpha1/namespaces/{team.namespace}/workloads/{form.workload(name)}"
    found: Object | None = team.cluster.api.maybe(path)
    return found if found is not None and found["spec"].get("minPods") == least else None


def test_a_gang_of_four_waits_for_its_fourth_pod_and_describe_tells(team: Team, form: GroupForm) -> None:
    make(team, form, "train", 4)
    for index in range(3):
        member(team, form, f"p{index}", "train")
    describes(team, "pod", "p0", "3 of 4 pods exist.")
    team.is_left_out("p0", "p1", "p2")
    if form.condition:
        assert says(team, form, "train", "False", "3 of 4 pods exist.") == "Unschedulable"
        describes(team, "podgroup", "train", "3 of 4 pods exist.")
    member(team, form, "p3", "train")
    team.land("p0", "p1", "p2", "p3")
    if form.condition:
        assert says(team, form, "train", "True", "4 pods have nodes.") == "Scheduled"
    found = team.cluster.until(lambda: workload_of(team, form, "train", 4), "its workload")
    assert found is not None
    (reference,) = found["metadata"]["ownerReferences"]
    stored = team.cluster.api.get(form.path(team.namespace, "train"))
    assert (reference["kind"], reference["uid"]) == (stored["kind"], stored["metadata"]["uid"])


def test_two_of_four_start_where_two_fit(team: Team, form: GroupForm) -> None:
    make(team, form, "train", 2)
    for index in range(4):
        member(team, form, f"p{index}", "train", 8)  # there are two nodes of 8
    if form.condition:
        says(team, form, "train", "True", "2 pods have nodes.")
    team.cluster.until(lambda: len(team.cluster.running(team.namespace)) == 2, "two pods to run")
    placed = set(team.cluster.running(team.namespace))
    team.delete(placed.pop())
    team.cluster.until(
        lambda: len(team.cluster.running(team.namespace)) == 2, "another pod to take the place"
    )


def test_pods_wait_for_a_group_that_is_not_there_yet(team: Team, form: GroupForm) -> None:
    for index in range(2):
        member(team, form, f"p{index}", "late")
    team.waits_for("p0", form.missing("late"))
    team.is_left_out("p0", "p1")
    describes(team, "pod", "p0", form.missing("late"))
    make(team, form, "late", 2)
    team.land("p0", "p1")


def test_the_group_counts_before_the_job_and_an_event_says_so(team: Team, form: GroupForm) -> None:
    make(team, form, "some")
    made = job(team.namespace, "train", 8, pods=4)
    made["spec"]["template"]["spec"] |= form.reference("some")
    team.cluster.api.create(made)
    team.cluster.until(lambda: len(team.cluster.running(team.namespace)) == 2, "two of four to run")

    def told() -> bool:
        events = team.cluster.api.items(f"/apis/events.k8s.io/v1/namespaces/{team.namespace}/events")
        return any(
            each["reason"] == "PodGroupCounts" and "start one by one), not 4 by its Job" in each["note"]
            for each in events
        )

    team.cluster.until(told, "the event that the group counts")


def test_a_group_keeps_to_one_rack(team: Team, form: GroupForm) -> None:
    if not form.has_topology:
        pytest.skip("The groups of this release have no topology constraints.")
    racks = [node(f"r{index}", gpus=4, labels={RACK: f"rack-{index // 2}"}) for index in range(4)]
    team.cluster.add(racks)
    team.found("r0", "r1", "r2", "r3")
    member_of_rack_0 = node_selector(f"r{0}")
    team.lands("fills", 4, **member_of_rack_0)  # rack-0 has one free node left, rack-1 two
    together = {"topology": [{"key": RACK}]}
    make(team, form, "close", 2, schedulingConstraints=together, disruptionMode=form.stops_whole)
    for index in range(2):
        member(team, form, f"p{index}", "close", 4)
    assert sorted(team.land("p0", "p1")) == ["r2", "r3"]


def node_selector(name: str) -> Object:
    return {"nodeSelector": {"kubernetes.io/hostname": name}}


def test_a_deleted_group_stops_nothing(team: Team, form: GroupForm) -> None:
    make(team, form, "gone", 2)
    for index in range(2):
        member(team, form, f"p{index}", "gone")
    team.land("p0", "p1")
    path = form.path(team.namespace, "gone")
    team.cluster.api.patch(path, {"metadata": {"finalizers": None}})
    team.cluster.api.delete(path)
    team.cluster.api.patch(path, {"metadata": {"finalizers": None}}) if team.cluster.api.maybe(path) else None
    member(team, form, "p2", "gone", **node_selector("none"))  # Weir may read the pod before the deletion
    describes(team, "pod", "p2", form.missing("gone"))
    assert {"p0", "p1"} <= set(team.cluster.running(team.namespace))


def test_weir_that_starts_late_keeps_running_gangs_and_logs_no_error(
    weir: Weir, team: Team, form: GroupForm
) -> None:
    make(team, form, "train", 2)
    for index in range(2):
        member(team, form, f"p{index}", "train")
    team.land("p0", "p1")
    weir.kill()
    weir.start()
    team.lands("after", 1)
    assert {"p0", "p1"} <= set(team.cluster.running(team.namespace))
    team.cluster.until(lambda: workload_of(team, form, "train", 2), "its workload")
    errors = [line for line in weir.log_text().splitlines() if '"level":"error"' in line.replace(" ", "")]
    assert not errors
