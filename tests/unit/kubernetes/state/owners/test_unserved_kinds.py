"""Owners whose kind the API server doesn't serve, for a while or in the version that was read."""

from typing import Any

import pytest
from tests.unit.kubernetes.small_world import WatchProgress, job, maker, node, pod, project, reference
from tests.unit.kubernetes.state.workloads.test_adoption import paused, read

from weir.control.port import PodExited, WorkloadFinished

JOB = ("batch", "Job")
WHY = {JOB: "the API server doesn't have the kind Job of batch/v1"}
NAME = "team/job-train"
RAY = "team/raycluster-ray"


def ray(version: str) -> dict[str, Any]:
    groups = [{"groupName": "gpu", "replicas": 1, "minReplicas": 1}]
    return maker("RayCluster", f"ray.io/{version}", "ray", "r1", {"workerGroupSpecs": groups})


def is_known(reported: WatchProgress) -> bool:
    return NAME in reported.cluster_state.registry.named


def test_running_work_goes_on_when_its_owner_is_read_in_another_version() -> None:
    reported = WatchProgress()
    reported.see("nodes", node("n1"))
    reported.see("projects", project("team"))
    reported.see("owners", ray("v1"))
    for at, role in enumerate(("headgroup", "gpu")):
        where: dict[str, Any] = {"on": "n1", "start": 1, "devices": str(at), "phase": "Running"}
        reported.see("pods", pod(role, owner=reference(ray("v1")), labels={"ray.io/group": role}, **where))
    reported.step()
    gang = reported.cluster_state.registry.named[RAY]
    reported.see("owners", ray("v1alpha1"))
    facts = [*reported.step(), *reported.step(61.0)]
    assert not [each for each in facts if isinstance(each, PodExited | WorkloadFinished)]
    assert reported.cluster_state.registry.named[RAY] is gang
    assert gang.key.api_version == "ray.io/v1alpha1"


def test_a_workload_without_pods_waits_for_an_owner_that_was_read_before_as_long_as_its_object() -> None:
    reported, body = paused()
    reported.see("workloads", read(body))
    reported.cluster_state.set_unreadable(WHY, frozenset())
    for _ in range(3):
        reported.step(61.0)
    assert is_known(reported)
    reported.gone("workloads", NAME)
    reported.step()
    assert not is_known(reported)


@pytest.mark.parametrize("version", ["batch/v1", "batch/v9"])
def test_a_workload_without_pods_waits_while_the_kind_of_its_owner_is_unread(version: str) -> None:
    """Its pods may have named a version that the table doesn't have."""
    _, body = paused()
    body["spec"]["owner"]["apiVersion"] = version
    reported = WatchProgress()
    reported.see("nodes", node("n1"))
    reported.see("projects", project("team"))
    reported.see("workloads", read(body))
    reported.cluster_state.set_unreadable(WHY, frozenset())
    for _ in range(3):
        reported.step(61.0)
    assert is_known(reported)


@pytest.mark.parametrize(
    ("why", "absent"), [({}, frozenset()), (WHY, frozenset({JOB}))], ids=["read", "none"]
)
def test_a_workload_without_pods_ends_once_its_owner_is_certainly_gone(
    why: dict[tuple[str, str], str], absent: frozenset[tuple[str, str]]
) -> None:
    _, body = paused()
    reported = WatchProgress()
    reported.see("nodes", node("n1"))
    reported.see("projects", project("team"))
    reported.see("workloads", read(body))
    reported.cluster_state.set_unreadable(WHY, frozenset())
    for _ in range(3):
        reported.step(61.0)
    assert is_known(reported)
    reported.cluster_state.set_unreadable(why, absent)
    reported.step()
    assert not is_known(reported)


def test_a_workload_ends_whose_object_goes_with_an_owner_that_cant_be_read() -> None:
    _, body = paused()
    reported = WatchProgress()
    reported.see("nodes", node("n1"))
    reported.see("projects", project("team"))
    reported.see("workloads", read(body))
    reported.cluster_state.set_unreadable(WHY, frozenset())
    reported.step(61.0)
    reported.step(61.0)
    assert is_known(reported)
    reported.gone("workloads", NAME)
    reported.step()
    assert not is_known(reported)


def test_a_workload_without_pods_goes_on_when_the_kind_of_its_owner_is_read_again() -> None:
    _, body = paused()
    reported = WatchProgress()
    reported.see("nodes", node("n1"))
    reported.see("projects", project("team"))
    reported.see("workloads", read(body))
    reported.cluster_state.set_unreadable(WHY, frozenset())
    reported.step(61.0)
    reported.see("owners", job("train", "j1", 2))
    reported.cluster_state.set_unreadable({}, frozenset())
    for _ in range(3):
        reported.step(61.0)
    assert is_known(reported)
