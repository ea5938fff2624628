"""Suspended Jobs on the real API server: their GPUs by resource claims, and the program that resumes them."""

from collections.abc import Iterator

import pytest
from tests.kubernetes.claim_objects import claimed, gpu_class, gpu_slice, needs_claims, template
from tests.kubernetes.test_cli import Run, run
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.queries import wait_for_queries, withdraw
from tools.controlplane.weir import project
from tools.controlplane.work import job

__all__ = ["run"]  # a fixture
JOBS = "/apis/batch/v1/namespaces"
WORKLOADS = "/apis/weir.dev/v1alpha1/namespaces"


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    with Installed(plane, namespace=cluster.namespace(), name="suspending", webhooks=False) as running:
        wait_for_queries(cluster.api)
        try:
            yield running
        finally:
            withdraw(cluster.api)
        assert "forbidden" not in running.log_text().lower()


@needs_claims
def test_a_suspended_job_counts_the_gpus_of_its_claims(weir: Installed, cluster: Cluster) -> None:
    (name,) = cluster.add_nodes(1, gpus=0)
    within = cluster.namespace()
    held = job(within, "held", 0, pods=2)
    held["spec"]["suspend"] = True
    claimed(held["spec"]["template"], resourceClaimTemplateName="pair")
    cluster.api.create(project(within, 8, [within]), gpu_class(), gpu_slice(name), held)
    cluster.api.create(template(within, "pair", 2))

    def gpus() -> str:
        items = cluster.api.items(f"{WORKLOADS}/{within}/workloads")
        return str(items[0].get("status", {}).get("gpus")) if items else ""

    cluster.until(lambda: gpus() == "4", "the GPUs of two claims of two")
    cluster.api.patch(f"{JOBS}/{within}/jobs/held", {"spec": {"suspend": False}})
    cluster.until(lambda: len(cluster.running(within)) == 2, "its pods to run")
    cluster.until(lambda: gpus() == "4", "the same GPUs as before")


def test_a_job_that_ran_and_was_suspended_by_kueue_says_so_and_is_left_to_kueue(
    weir: Installed, cluster: Cluster, run: Run
) -> None:
    cluster.add_nodes(1, gpus=2)
    within = cluster.namespace()
    queued = job(within, "queued", 1)
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "lab"}
    cluster.api.create(project(within, 2, [within]), queued, job(within, "own", 1))
    cluster.until(lambda: len(cluster.running(within)) == 2, "both to run")
    for name in ("queued", "own"):
        cluster.api.patch(f"{JOBS}/{within}/jobs/{name}", {"spec": {"suspend": True}})
    cluster.until(lambda: not cluster.running(within), "their pods to be gone")

    def why(name: str) -> str:
        return " ".join(run("why", f"{within}/{name}")[1].split())

    field = "It is suspended: spec.suspend of Job {} is true, so it has no pods."
    kueue = f"{field.format('queued')} Kueue resumes it, from its queue lab. Then it enters the queue of {within}."
    cluster.until(lambda: kueue in why("queued"), "the reason to name Kueue")
    cluster.until(lambda: field.format("own") in why("own"), "the reason to name the field")
    cluster.until(lambda: "If it is resumed" in why("queued"), "the suggestions")
    assert "weir resume" not in why("queued")
    assert f"weir resume {within}/job-own" in why("own")
    code, _, problem = run("resume", f"{within}/queued")
    assert (code, "Kueue resumes it, from its queue lab" in problem) == (2, True)
    assert run("resume", f"{within}/own")[0] == 0
    cluster.until(lambda: len(cluster.running(within)) == 1, "the other one to run again")
