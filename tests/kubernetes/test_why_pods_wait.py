"""Pending work in kubectl: a condition and an event on every pod, and on its Workload."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kubernetes.constraints import scheduling
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import job, pod


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-why") as running:
        yield running


class Namespace:
    """A namespace of a project, and what is said of its pods."""

    def __init__(self, cluster: Cluster, plane: ControlPlane, gpus: int, **spec: object) -> None:
        self.cluster = cluster
        self.plane = plane
        self.name = cluster.namespace()
        cluster.api.create(project(self.name, gpus, **spec))

    def submit(self, name: str, gpus: int, pods: int = 1, **more: Any) -> None:
        self.cluster.api.create(job(self.name, name, gpus, pods=pods, **more))

    def runs(self, name: str, pods: int = 1) -> None:
        def enough() -> bool:
            running = self.cluster.running(self.name)
            return sum(each.startswith(f"{name}-") for each in running) == pods

        self.cluster.until(enough, f"{pods} pods of {name} to run")

    def pending(self, name: str) -> list[dict[str, Any]]:
        """The pods of a Job, or a bare pod, that have no node."""
        pods = self.cluster.pods(self.name)
        named = [each for each in pods if f"{each['metadata']['name']}-".startswith(f"{name}-")]
        return [each for each in named if not each["spec"].get("nodeName")]

    def conditions(self, name: str) -> list[tuple[str, str]]:
        """(reason, message) of `PodScheduled`, of each pod that waits."""
        return [
            (each.get("reason", ""), each.get("message", ""))
            for one in self.pending(name)
            for each in one["status"].get("conditions") or []
            if each["type"] == "PodScheduled" and each["status"] == "False"
        ]

    def wait_with(self, name: str, reason: str, words: str = "", pods: int = 1) -> None:
        """Wait until all pods that wait have this condition, and an event that describe shows."""

        def answer() -> bool:
            found = self.conditions(name)
            return len(found) == pods and all(why == reason and words in answer for why, answer in found)

        self.cluster.until(answer, f"{reason} of {name}, with {words!r}")
        for one in self.pending(name):
            self.cluster.until(
                lambda uid=one["metadata"]["uid"]: reason in self.events(uid), f"events of {name}"
            )

    def events(self, uid: str) -> dict[str, str]:
        """Notes by reason of the events that `kubectl describe` finds about an object."""
        path = f"/api/v1/namespaces/{self.name}/events?fieldSelector=involvedObject.uid={uid}"
        return {each["reason"]: each["message"] for each in self.cluster.api.items(path)}

    def workload(self, name: str) -> dict[str, Any]:
        path = f"/apis/weir.dev/v1alpha1/namespaces/{self.name}/workloads/{name}"
        return self.cluster.api.maybe(path) or {}

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.workload(name).get("status") or {}
        return found

    def reports(self, name: str, phase: str, running: str, why: str) -> None:
        """Wait until the status of a workload says this."""

        def stated() -> tuple[Any, ...]:
            status = self.status(name)
            return status.get("phase"), status.get("running"), (status.get("reason") or {}).get("why")

        self.cluster.until(lambda: stated() == (phase, running, why), lambda: f"{name}: {stated()}")


def test_every_pod_that_waits_says_why(cluster: Cluster, plane: ControlPlane, weir: Weir) -> None:
    weir.check()
    cluster.add_nodes(1, gpus=8)
    team = Namespace(cluster, plane, 8)
    capped = Namespace(cluster, plane, 0, limit={"gpu": 2})
    entitled = Namespace(cluster, plane, 9)
    team.submit("full", 8)
    team.runs("full")
    team.submit("late", 8)
    half = job(team.name, "half", 1, annotations={"weir.dev/min-pods": "2"})
    half["spec"]["completions"] = 2
    cluster.api.create(half)
    team.submit("huge", 9)
    capped.submit("capped", 4)
    entitled.submit("large", 9)
    cluster.api.create(pod(team.name, "gated", 1, schedulingGates=[{"name": "example.com/data"}]))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.api.create(pod(team.name, "unbound", 1, volumes=volumes))
    team.wait_with(
        "late",
        "OverQuota",
        f"{team.name} would hold 16 of a quota of 8 GPUs, so it may only use free capacity",
    )
    team.wait_with("half", "GangIncomplete", "1 of 2 pods exist")
    team.wait_with("huge", "OverQuota", "a pod asks for 9 GPUs; the largest node offers 8")
    entitled.wait_with("large", "Unschedulable", "a pod asks for 9 GPUs; the largest node offers 8")
    capped.wait_with("capped", "LimitExceeded", "would exceed its limit")
    team.wait_with("gated", "SchedulingGated")
    team.wait_with("unbound", "VolumeNotReady", "volume claim data, which doesn't exist")
    uid = team.workload("job-late")["metadata"]["uid"]
    cluster.until(lambda: "Waiting" in team.events(uid), "an event about the Workload")
    (late,) = team.pending("late")
    described = plane.kubectl("describe", "pod", "-n", team.name, late["metadata"]["name"])
    assert "OverQuota" in described.partition("Events:")[2]
    described = plane.kubectl("describe", "workload", "-n", team.name, "job-late")
    assert "Waiting" in described.partition("Events:")[2]
    weir.check()


def test_pods_that_wait_beside_running_ones_say_why(
    cluster: Cluster, plane: ControlPlane, weir: Weir
) -> None:
    weir.check()
    cluster.add_nodes(2, gpus=8)
    team = Namespace(cluster, plane, 8)
    elastic = {"weir.dev/min-pods": "1", "weir.dev/type": "build"}
    team.submit("grows", 4, 4, annotations=elastic)
    team.runs("grows", 2)
    team.wait_with("grows", "QuotaExceeded", "quota for non-preemptible work", pods=2)
    team.reports("job-grows", "Running", "2/4", "non_preemptible_over_quota")
    weir.check()


def test_a_pod_that_replaces_one_of_a_running_gang_says_why(
    cluster: Cluster, plane: ControlPlane, weir: Weir
) -> None:
    weir.check()
    cluster.add_nodes(1, gpus=8)
    team = Namespace(cluster, plane, 8, limit={"gpu": 8})
    team.submit("gang", 4, 2, grace_s=1)
    team.runs("gang", 2)
    path = f"/apis/weir.dev/v1alpha1/projects/{team.name}"
    cluster.api.patch(path, {"spec": {"quota": {"gpu": 4}, "limit": {"gpu": 4}}})
    cluster.until(
        lambda: cluster.api.get(path).get("status", {}).get("quota", {}).get("gpu") in (4, "4"),
        "the quota to be known",
    )
    first = next(each for each in cluster.running(team.name) if each.startswith("gang-"))
    cluster.api.delete(f"/api/v1/namespaces/{team.name}/pods/{first}", grace_s=0)
    team.wait_with("gang", "LimitExceeded", "would exceed its limit")
    team.reports("job-gang", "Running", "1/2", "over_limit")
    weir.check()


def test_the_last_eviction_stays_with_the_workload(cluster: Cluster, plane: ControlPlane, weir: Weir) -> None:
    weir.check()
    cluster.add_nodes(1, gpus=8)
    borrower, owner = Namespace(cluster, plane, 0), Namespace(cluster, plane, 8)
    borrower.submit("lent", 8, grace_s=1)
    borrower.runs("lent")
    owner.submit("mine", 8)
    owner.runs("mine")
    borrower.wait_with("lent", "OverQuota")

    def evicted() -> dict[str, Any]:
        found: dict[str, Any] = borrower.status("job-lent").get("lastEviction") or {}
        return found

    cluster.until(evicted, "the eviction in the status of the Workload")
    cluster.until(lambda: borrower.status("job-lent")["phase"] == "Pending", "lent to be pending")
    by, rule = f"{owner.name}/job-mine", "reclaim_quota"
    assert (evicted()["by"], evicted()["rule"]) == (by, rule)
    assert by in evicted()["sentence"]
    assert "of work since the last checkpoint, and the rest for the restart" in evicted()["choice"]
    uid = borrower.workload("job-lent")["metadata"]["uid"]
    cluster.until(lambda: by in borrower.events(uid).get("Evicted", ""), "the event of the eviction")
    cluster.api.delete(f"/apis/batch/v1/namespaces/{owner.name}/jobs/mine")
    borrower.runs("lent")
    cluster.until(lambda: borrower.status("job-lent")["phase"] == "Running", "lent to run again")
    assert evicted()["by"] == by
    weir.check()
