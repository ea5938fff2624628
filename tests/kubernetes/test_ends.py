"""A workload ends with its owner, and an owner with its workload, as the real Job controller has it."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kubernetes.test_installed import one, phase, workloads
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.nodes import FAILS, RUNS
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project


@pytest.fixture
def running(cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    with Installed(plane, namespace=cluster.namespace(), name="ends") as weir:
        weir.wait_ready()
        yield weir


def conditions(cluster: Cluster, within: str, name: str) -> dict[str, str]:
    """Return the true conditions of a Job, with their reasons."""
    status = cluster.api.get(f"/apis/batch/v1/namespaces/{within}/jobs/{name}")["status"]
    found = status.get("conditions") or ()
    return {each["type"]: each.get("reason", "") for each in found if each["status"] == "True"}


def evict_all(cluster: Cluster, within: str, name: str) -> None:
    for pod in cluster.pods(within, f"job-name={name}"):
        meta = {"name": pod["metadata"]["name"], "namespace": within}
        path = f"/api/v1/namespaces/{within}/pods/{meta['name']}/eviction"
        cluster.api.post(path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})


def uids(cluster: Cluster, within: str, name: str) -> set[str]:
    """Return the uids of a Job's pods."""
    return {pod["metadata"]["uid"] for pod in cluster.pods(within, f"job-name={name}")}


def sentence(cluster: Cluster, within: str, name: str) -> str:
    status: dict[str, Any] = workloads(cluster, within).get(name, {}).get("status") or {}
    return str((status.get("reason") or {}).get("sentence", ""))


def pending_reason(cluster: Cluster, within: str, name: str) -> str:
    """Return why a workload is pending; empty if it isn't."""
    status: dict[str, Any] = workloads(cluster, within).get(name, {}).get("status") or {}
    return str((status.get("reason") or {}).get("sentence", "")) if status.get("phase") == "Pending" else ""


def test_jobs_end_with_their_workloads_and_workloads_with_their_jobs(
    running: Installed, cluster: Cluster
) -> None:
    within = cluster.namespace()
    running.create_queues(project("team", 16, [within]))
    gang = one(within, "gang", 1)
    gang["spec"] |= {"parallelism": 6, "completions": 6, "completionMode": "Indexed"}
    short, stubborn = one(within, "short", 1), one(within, "stubborn", 1)
    own = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    stubborn["spec"] |= {"podFailurePolicy": {"rules": [own]}, "podReplacementPolicy": "Failed"}
    for each in (short, stubborn):
        each["metadata"]["annotations"] = {"weir.dev/max-runtime": "3s"}
        cluster.api.create(each)
    cluster.api.create(gang)
    # Time in the queue isn't run time: there is no node for longer than they may run.
    cluster.until(lambda: phase(cluster, within, "job-short") == "Pending", "the queue")
    cluster.until(lambda: phase(cluster, within, "job-gang") == "Pending", "the queue")
    cluster.add_nodes(1, gpus=8)
    began = ("Running", "Stopped")  # three seconds later
    cluster.until(lambda: phase(cluster, within, "job-short") in began, "it to run")
    cluster.until(lambda: phase(cluster, within, "job-gang") == "Running", "the gang to run")
    before = uids(cluster, within, "gang")
    evict_all(cluster, within, "gang")
    # Without pods the gang waits for those that the Job controller makes after its pause.
    reported = "The Job controller pauses after an eviction, until about"
    cluster.until(  # pods may be back already where the machine is slow
        lambda: (
            reported in pending_reason(cluster, within, "job-gang") or uids(cluster, within, "gang") - before
        ),
        "the pause to be told",
    )
    cluster.until(lambda: "Failed" in conditions(cluster, within, "short"), "the Job to end")
    assert conditions(cluster, within, "short")["Failed"] == "PodFailurePolicy"
    cluster.until(lambda: phase(cluster, within, "job-short") == "Stopped", "the workload to end")
    assert "3s" in sentence(cluster, within, "job-short")
    stopped = workloads(cluster, within)["job-short"]["status"]
    assert (stopped["gpus"], stopped["running"]) == ("1", "0/1"), "what it had"
    cluster.until(lambda: phase(cluster, within, "job-gang") == "Running", "the gang to be back")
    # A Job with a policy of its own makes new pods: they aren't placed, and say so.
    again = "Its Job makes new pods. They aren't placed: delete the Job."
    cluster.until(lambda: again in sentence(cluster, within, "job-stubborn"), "the Job that goes on")
    cluster.until(lambda: again in waits(cluster, within, "stubborn"), "its pod to say so")
    cluster.api.delete(f"/apis/batch/v1/namespaces/{within}/jobs/gang", grace_s=0)
    cluster.until(lambda: "job-gang" not in workloads(cluster, within), "the workload to be gone")
    path = "/apis/weir.dev/v1alpha1/projects/team"
    cluster.until(lambda: cluster.api.get(path)["status"]["running"] == 0, "nothing to run")
    running.check()


def waits(cluster: Cluster, within: str, name: str) -> str:
    """Return what the pods of a Job say about why they aren't scheduled."""
    found = [
        each.get("message", "")
        for pod in cluster.pods(within, f"job-name={name}")
        for each in pod["status"].get("conditions") or ()
        if each["type"] == "PodScheduled"
    ]
    return " ".join(found)


def test_a_job_in_its_pause_is_known_to_a_weir_that_starts_meanwhile(
    running: Installed, cluster: Cluster
) -> None:
    within = cluster.namespace()
    running.create_queues(project("team", 16, [within]))
    slow = one(within, "slow", 1)
    slow["spec"] |= {"parallelism": 4, "completions": 4}
    slow["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"  # the pause is 80 s after four pods
    cluster.add_nodes(1, gpus=8)
    cluster.api.create(slow)
    cluster.until(lambda: len(cluster.running(within)) == 4, "all to run")
    evict_all(cluster, within, "slow")
    reported = "The Job controller pauses after an eviction, until about"
    cluster.until(lambda: reported in sentence(cluster, within, "job-slow"), "the pause to be told")
    paused = sentence(cluster, within, "job-slow")
    running.kill()
    project_path = "/apis/weir.dev/v1alpha1/projects/team"
    cluster.api.delete(project_path)
    running.start()
    cluster.until(  # pods may be back already where the machine is slow
        lambda: sentence(cluster, within, "job-slow") == paused or cluster.pods(within), "the pause"
    )
    kept = f"It stays until Job {within}/slow"
    cluster.until(
        lambda: kept in (cluster.api.get(project_path).get("status") or {}).get("message", ""),
        "its project to stay",
    )
    cluster.api.delete(f"/apis/batch/v1/namespaces/{within}/jobs/slow", grace_s=0)
    cluster.until(lambda: cluster.api.maybe(project_path) is None, "the project to be gone")


def test_a_failed_job_has_an_end(running: Installed, cluster: Cluster) -> None:
    within = cluster.namespace()
    running.create_queues(project("team", 8, [within]))
    cluster.add_nodes(1, gpus=8)
    broken, late = one(within, "broken", 1), one(within, "late", 1)
    broken["spec"]["template"]["metadata"]["annotations"] |= {FAILS: "true", RUNS: "1s"}
    broken["spec"]["backoffLimit"] = 0
    late["spec"]["activeDeadlineSeconds"] = 3
    for each in (broken, late):
        cluster.api.create(each)
    for name in ("broken", "late"):
        cluster.until(lambda name=name: "Failed" in conditions(cluster, within, name), f"{name} to fail")
        cluster.until(lambda name=name: phase(cluster, within, f"job-{name}") == "Failed", "it to be told")
        status = workloads(cluster, within)[f"job-{name}"]["status"]
        job = cluster.api.get(f"/apis/batch/v1/namespaces/{within}/jobs/{name}")["status"]
        (stated,) = [each["lastTransitionTime"] for each in job["conditions"] if each["type"] == "Failed"]
        assert status["submittedAt"] <= status["endedAt"] <= stated, status
