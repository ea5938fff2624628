"""Projects that are deleted under their work, against the real API server with webhooks and policies on."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kubernetes.test_installed import one, phase, workloads
from tools import prefork
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project

from weir.kubernetes.writes.queue_finalizers import FINALIZER

QUEUES = "/apis/weir.dev/v1alpha1"


@pytest.fixture(params=["", "bundle"], ids=["default", "bundle"])
def running(request: pytest.FixtureRequest, cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    name = f"leaving{request.param}"
    with Installed(plane, namespace=cluster.namespace(), name=name, source=request.param) as weir:
        weir.wait_ready()
        yield weir
        assert "forbidden" not in weir.log_text().lower()


def finalizers(cluster: Cluster, path: str) -> list[str]:
    return (cluster.api.maybe(f"{QUEUES}/{path}") or {}).get("metadata", {}).get("finalizers") or []


def status(cluster: Cluster, path: str) -> dict[str, Any]:
    return (cluster.api.maybe(f"{QUEUES}/{path}") or {}).get("status") or {}


def test_a_project_stays_until_its_work_is_over(
    running: Installed, cluster: Cluster, plane: ControlPlane
) -> None:
    cluster.add_nodes(1, gpus=4)
    within = cluster.namespace()
    department = {"apiVersion": "weir.dev/v1alpha1", "kind": "Department", "metadata": {"name": "lab"}}
    running.create_queues({**department, "spec": {}}, project("team", 4, [within], department="lab"))
    cluster.api.create(one(within, "first", 2), one(within, "large", 9))
    cluster.until(lambda: phase(cluster, within, "job-first") == "Running", "it to run")
    for path in ("projects/team", "departments/lab"):
        cluster.until(lambda p=path: finalizers(cluster, p) == [FINALIZER], f"{path} to be held")

    cluster.api.delete(f"{QUEUES}/projects/team")
    cluster.until(lambda: status(cluster, "projects/team").get("phase") == "Leaving", "it to leave")
    assert "first" in status(cluster, "projects/team")["message"]
    # Pods that come meanwhile are Weir's: they wait, and say why.
    cluster.api.create(one(within, "late", 1))
    cluster.until(lambda: cluster.pods(within, "job-name=late"), "its pod")
    (late,) = cluster.pods(within, "job-name=late")
    assert late["spec"]["schedulerName"] == "weir"
    reported = "Project team is being deleted and takes no new work"
    for name in ("late", "large"):
        cluster.until(lambda n=name: reported in reason(cluster, within, f"job-{n}"), f"{name} to be told")
    assert set(cluster.running(within)) == {
        each["metadata"]["name"] for each in cluster.pods(within, "job-name=first")
    }
    for name in ("first", "late", "large"):
        cluster.api.delete(f"/apis/batch/v1/namespaces/{within}/jobs/{name}", grace_s=0)
    cluster.until(lambda: cluster.api.maybe(f"{QUEUES}/projects/team") is None, "it to be gone")
    running.check()
    assert "control_broken" not in running.log_text()
    running.create_queues(project("team", 4, [within]))
    cluster.api.create(one(within, "held", 1))
    cluster.until(lambda: finalizers(cluster, "projects/team") == [FINALIZER], "it to be held again")

    # Weir is removed while work runs: nothing waits for it for ever.
    running.stop()
    cluster.api.delete(f"{QUEUES}/projects/team")
    assert finalizers(cluster, "projects/team") == [FINALIZER]
    assert "projects/team released" in released(plane)
    cluster.until(lambda: cluster.api.maybe(f"{QUEUES}/projects/team") is None, "it to be gone")
    assert released(plane) == ["Nothing is held."]


def released(plane: ControlPlane) -> list[str]:
    command = [sys.executable, "-m", "weir", "kube", "release", "--kubeconfig", str(plane.kubeconfig)]
    return prefork.run(command, check=True).stdout.splitlines()


def reason(cluster: Cluster, within: str, name: str) -> str:
    found = workloads(cluster, within).get(name, {}).get("status") or {}
    return str((found.get("reason") or {}).get("sentence", ""))
