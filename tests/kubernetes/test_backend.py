"""Weir as people run it, in front of a real API server: what is bound, what is said, what outlives a kill."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kubernetes.constraints import scheduling
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import RUNS, STOPS_AFTER
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, install_kinds, project
from tools.controlplane.work import job, pod


class Place:
    """A cluster with a team, and Weir."""

    def __init__(self, cluster: Cluster, weir: Weir) -> None:
        self.cluster = cluster
        self.weir = weir
        self.api = cluster.api
        self.team = cluster.namespace()

    def pods(self) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self.cluster.pods(self.team)}

    def running(self) -> dict[str, str]:
        return self.cluster.running(self.team)

    def workload(self, name: str) -> dict[str, Any]:
        found = self.api.maybe(f"/apis/weir.dev/v1alpha1/namespaces/{self.team}/workloads/{name}")
        return {} if found is None else found

    def status(self, name: str) -> dict[str, Any]:
        return self.workload(name).get("status", {})

    def until(self, true: Any, what: str) -> None:
        self.cluster.until(true, what)
        self.weir.check()

    def events(self, reason: str) -> list[str]:
        found = self.api.items(f"/apis/events.k8s.io/v1/namespaces/{self.team}/events")
        return [each["note"] for each in found if each["reason"] == reason]


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-backend") as running:
        yield running


@pytest.fixture
def place(cluster: Cluster, weir: Weir) -> Iterator[Place]:
    weir.check()
    yield Place(cluster, weir)
    weir.check()


def test_a_gang_is_bound_whole_with_its_devices_written_on_it(place: Place) -> None:
    place.cluster.add_nodes(2, gpus=4)
    place.api.create(project(place.team, 8), job(place.team, "gang", 2, pods=4))
    place.until(lambda: len(place.running()) == 4, "the gang runs")
    taken = sorted(
        (each["spec"]["nodeName"], each["metadata"]["annotations"]["weir.dev/gpus"])
        for each in place.pods().values()
    )
    nodes = sorted({node for node, _ in taken})
    assert taken == [(node, devices) for node in nodes for devices in ("0,1", "2,3")]
    starts = {each["metadata"]["annotations"]["weir.dev/start"] for each in place.pods().values()}
    assert len(starts) == 4
    place.until(lambda: place.status("job-gang").get("running") == "4/4", "its object says so")
    assert place.workload("job-gang")["spec"]["minPods"] == 4


def test_a_gang_that_finds_no_capacity_binds_nothing_and_says_why(place: Place) -> None:
    place.cluster.add_nodes(2, gpus=2)
    place.api.create(project(place.team, 4), job(place.team, "big", 1, pods=5))

    def why() -> str:
        return str((place.status("job-big").get("reason") or {}).get("why"))

    place.until(lambda: why() == "no_node_matches", "it says why it waits, once it has heard of the nodes")
    assert place.status("job-big")["phase"] == "Pending"

    answer = ("Unschedulable", "OverQuota")

    def reported() -> bool:
        conditions = [c for each in place.pods().values() for c in each["status"].get("conditions", [])]
        return any(c["type"] == "PodScheduled" and c["reason"] in answer for c in conditions)

    place.until(reported, "its pods say so")
    place.until(lambda: place.events("Waiting"), "an event says so")
    assert not place.running()


def test_shares_of_one_device(place: Place) -> None:
    (name,) = place.cluster.add_nodes(1, gpus=1)
    place.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"weir.dev/gpu-sharing": "true"}}})
    place.api.create(project(place.team, 1))
    halves = [
        job(place.team, f"half-{at}", 0, annotations={"weir.dev/gpu-fraction": "0.5"}) for at in range(3)
    ]
    place.api.create(*halves)
    place.until(lambda: len(place.running()) == 2, "two of them share the device")
    place.until(
        lambda: [place.status(f"job-half-{at}").get("phase") for at in range(3)].count("Pending") == 1,
        "one waits",
    )
    assert {
        each["metadata"]["annotations"].get("weir.dev/gpus")
        for each in place.pods().values()
        if each["spec"].get("nodeName")
    } == {"0"}


def test_what_others_run_is_counted(place: Place) -> None:
    one, two = place.cluster.add_nodes(2, gpus=2)
    place.api.create(pod(place.team, "other", 2, scheduler="default-scheduler", nodeName=one))
    place.api.create(project(place.team, 4), job(place.team, "mine", 2))
    place.until(lambda: sum(name.startswith("mine") for name in place.running()) == 1, "it runs")
    assert next(node for name, node in place.running().items() if name.startswith("mine")) == two
    place.api.create(job(place.team, "more", 1))
    place.until(lambda: place.status("job-more").get("reason"), "the other one waits")
    place.api.delete(f"/api/v1/namespaces/{place.team}/pods/other")
    place.until(lambda: any(name.startswith("more") for name in place.running()), "there is capacity at last")


def test_a_namespace_without_a_project_is_refused_with_the_field_to_write(place: Place) -> None:
    place.cluster.add_nodes(1)
    place.api.create(job(place.team, "lost", 1))
    place.until(lambda: place.status("job-lost").get("phase") == "Refused", "it is refused")
    assert "spec.namespaces" in place.status("job-lost")["reason"]["sentence"]
    place.api.create(project(place.team, 4))
    place.until(lambda: len(place.running()) == 1, "it runs once there is a project")


def test_a_job_that_completes_is_over(place: Place) -> None:
    place.cluster.add_nodes(1)
    place.api.create(project(place.team, 4), job(place.team, "short", 1, annotations={RUNS: "300ms"}))
    place.until(lambda: place.status("job-short").get("phase") == "Succeeded", "it has succeeded")

    def free() -> bool:
        status = place.api.get(f"/apis/weir.dev/v1alpha1/projects/{place.team}").get("status", {})
        return status.get("allocated", {}).get("gpu") == "0" and status.get("running") == 0

    place.until(free, "its project holds nothing")


def test_a_promise_outlives_a_kill(place: Place) -> None:
    """Capacity is being freed for a gang when Weir is killed: the next one keeps it for the gang."""
    place.cluster.add_nodes(1, gpus=2)
    other = place.cluster.namespace()
    place.api.create(project(place.team, 2), project(other, 0))
    slow = {STOPS_AFTER: "1h"}
    place.api.create(
        job(other, "borrows-a", 1, annotations=slow), job(other, "borrows-b", 1, annotations=slow)
    )
    place.until(lambda: len(place.cluster.running(other)) == 2, "others have borrowed it all")
    place.api.create(job(place.team, "gang", 1, pods=2))
    place.until(lambda: place.status("job-gang").get("nomination"), "capacity is nominated")
    place.weir.kill()
    kept = place.status("job-gang")["nomination"]
    place.weir.start()
    for each in place.cluster.pods(other):
        ended = {"metadata": {"annotations": {STOPS_AFTER: "0s"}}}
        place.api.patch(f"/api/v1/namespaces/{other}/pods/{each['metadata']['name']}", ended)
    place.until(lambda: len(place.running()) == 2, "the gang runs")
    assert {each["node"] for each in kept["places"]} == set(place.running().values())
    place.until(lambda: place.status("job-gang").get("nomination") is None, "the promise is kept")
    place.until(lambda: place.events("Scheduled"), "events say so")


def test_a_kill_in_the_midst_of_binding_binds_nothing_twice(place: Place) -> None:
    place.cluster.add_nodes(8, gpus=8)
    place.api.create(project(place.team, 64))
    place.api.create(*(job(place.team, f"gang-{at}", 1, pods=8) for at in range(8)))
    for _ in range(3):
        place.cluster.until(lambda: True, "a moment")
        place.weir.kill()
        place.weir.start()
    place.until(lambda: len(place.running()) == 64, "all run")
    taken = [
        (each["spec"]["nodeName"], each["metadata"]["annotations"]["weir.dev/gpus"])
        for each in place.pods().values()
    ]
    assert len(set(taken)) == 64


def test_a_standby_takes_over(cluster: Cluster, weir_kubeconfig) -> None:
    install_kinds(cluster.api)
    team = cluster.namespace()
    cluster.add_nodes(1, gpus=4)
    cluster.api.create(project(team, 4))
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{team}/leases/weir"
    words = ["--namespace", team]

    def holder() -> str:
        return (cluster.api.maybe(lease) or {}).get("spec", {}).get("holderIdentity", "")

    with Weir(cluster.plane, weir_kubeconfig, name="weir-one", arguments=words) as one:
        cluster.until(holder, "the first leads")
        first = holder()
        with Weir(cluster.plane, weir_kubeconfig, name="weir-two", arguments=words) as two:
            cluster.api.create(job(team, "before", 1))
            cluster.until(lambda: len(cluster.running(team)) == 1, "the first schedules")
            cluster.until(lambda: "synced" in two.log_text(), "the second is ready")
            one.stop()  # in order: the lease is free at once
            cluster.until(lambda: holder() not in {"", first}, "the second leads")
            cluster.api.create(job(team, "after", 1))
            cluster.until(lambda: len(cluster.running(team)) == 2, "the second schedules")
            assert "leading" in two.log_text()


def test_what_runs_counts_for_its_deleted_project_after_a_restart_too(place: Place) -> None:
    """Nothing is the project's any more, so that what runs has to go when another wants what is its own."""
    place.cluster.add_nodes(1, gpus=4)
    other = place.cluster.namespace()
    place.api.create(project(place.team, 4), project(other, 4), job(place.team, "runs", 1))
    place.until(lambda: place.status("job-runs").get("phase") == "Running", "it runs")
    place.weir.kill()
    path = f"/apis/weir.dev/v1alpha1/projects/{place.team}"
    place.api.delete(path)
    if place.api.maybe(path) is not None:
        place.api.patch(path, {"metadata": {"finalizers": None}})  # a person deletes it by force
    place.weir.start()
    place.api.create(job(other, "later", 4))
    place.until(lambda: len(place.cluster.running(other)) == 1, "the other has its quota")
    place.until(lambda: "project" in str(place.status("job-runs").get("reason")), "it is told why it waits")
    assert place.running() == {}
    assert {line["server"] for line in place.weir.lines("started")} == {place.cluster.plane.url}
