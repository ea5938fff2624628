"""Jobs that start at a time or after others, and arrays, as `weir submit` writes them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.kubernetes.test_installed import phase, workloads
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.nodes import RUNS
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project

from weir.api.submissions import Submission
from weir.cli.cluster.installation import InstallationView
from weir.cli.cluster.job import job_of


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    with Installed(plane, namespace=cluster.namespace(), name="order") as running:
        running.wait_ready()
        yield running


def sentence(cluster: Cluster, within: str, name: str) -> str:
    status: dict[str, Any] = workloads(cluster, within).get(name, {}).get("status") or {}
    return str((status.get("reason") or {}).get("sentence", ""))


def reasons(cluster: Cluster, within: str, name: str) -> set[str]:
    """The reasons of the conditions of a Job's pods."""
    return {
        each["reason"]
        for pod in cluster.pods(within, f"job-name={name}")
        for each in pod["status"].get("conditions") or ()
        if each["type"] == "PodScheduled" and each["status"] == "False"
    }


def submitted(within: str, name: str, runs: str | None = None, **words: Any) -> dict[str, Any]:
    """The Job of a submission from the command line, which kwok ends after a time."""
    written = {"project": "team", "command": ["true"], "name": name, "pods": [{"gpus": 1}], **words}
    made = job_of(Submission.model_validate(written), written, "busybox", {}, InstallationView())
    made["metadata"]["namespace"] = within
    if runs is not None:
        made["spec"]["template"]["metadata"]["annotations"][RUNS] = runs
    return made


def test_jobs_start_in_the_order_that_their_conditions_state(weir: Installed, cluster: Cluster) -> None:
    cluster.add_nodes(1, gpus=4)
    within = cluster.namespace()
    weir.create_queues(project("team", 4, [within]))
    cluster.api.create(submitted(within, "train", after_ok=["prepare"]))
    none = f"{within} has no workload of that name yet"
    cluster.until(lambda: none in sentence(cluster, within, "job-train"), "it to say what is missing")
    cluster.until(lambda: reasons(cluster, within, "train") == {"Dependency"}, "the condition of its pod")
    cluster.api.create(submitted(within, "broken", after_not_ok=["prepare"]))
    cluster.api.create(submitted(within, "prepare", "2s"))
    cluster.until(lambda: "train" in str(cluster.running(within)), "it to start after the other")
    cluster.until(lambda: phase(cluster, within, "job-prepare") == "Succeeded", "the first one's end")
    cluster.until(
        lambda: (
            "prepare succeeded: delete it, or remove its annotation"
            in sentence(cluster, within, "job-broken")
        ),
        "the condition that can't be met",
    )
    path = f"/apis/batch/v1/namespaces/{within}/jobs/broken"
    cluster.api.patch(path, {"metadata": {"annotations": {"weir.dev/after-not-ok": None}}})
    cluster.until(lambda: "broken" in str(cluster.running(within)), "it to start without its condition")
    weir.check()


def test_a_job_waits_for_its_time_also_with_another_weir(weir: Installed, cluster: Cluster) -> None:
    cluster.add_nodes(1, gpus=4)
    within = cluster.namespace()
    weir.create_queues(project("team", 4, [within]))
    later_s = datetime.now(UTC).timestamp() + 3600
    cluster.api.create(submitted(within, "night", begin=later_s))
    cluster.until(lambda: reasons(cluster, within, "night") == {"BeginTime"}, "the condition of its pod")
    weir.kill()
    weir.start()
    cluster.api.create(submitted(within, "now"))
    cluster.until(lambda: "now" in str(cluster.running(within)), "other work to start")
    assert "night" not in str(cluster.running(within))
    cluster.until(lambda: "It begins at" in sentence(cluster, within, "job-night"), "its reason")
    soon = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    path = f"/apis/batch/v1/namespaces/{within}/jobs/night"
    cluster.api.patch(path, {"metadata": {"annotations": {"weir.dev/begin": soon}}})
    cluster.until(lambda: "night" in str(cluster.running(within)), "it to begin")


def test_the_indices_of_an_array_run_a_few_at_once(weir: Installed, cluster: Cluster) -> None:
    cluster.add_nodes(1, gpus=1)
    within = cluster.namespace()
    weir.create_queues(project("team", 1, [within]))
    cluster.api.create(submitted(within, "sweep", "1s", array="0-5%2"))
    path = f"/apis/batch/v1/namespaces/{within}/jobs/sweep"
    cluster.until(lambda: cluster.api.get(path)["status"].get("succeeded") == 6, "all indices to succeed")
    assert cluster.api.get(path)["status"]["completedIndexes"] == "0-5"
    cluster.until(lambda: phase(cluster, within, "job-sweep") == "Succeeded", "the workload to be over")
