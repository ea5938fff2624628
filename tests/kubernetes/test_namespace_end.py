"""A namespace that is deleted goes, whatever Jobs Weir has given their retries by index in it."""

from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import job

from weir.kubernetes.admission.job_defaults import ENDED

FAILS = {"type": ENDED, "status": "True"}


def test_a_namespace_with_indexed_jobs_can_be_deleted(cluster: Cluster, plane: ControlPlane) -> None:
    cluster.add_nodes(1, gpus=8)
    team = cluster.namespace("team-that-leaves")
    with Installed(plane, namespace=cluster.namespace(), name="leaves") as weir:
        weir.wait_ready()
        weir.create_queues(project(team, 8))
        cluster.api.create(job(team, "runs", 2, pods=2), job(team, "waits", 8, pods=2))
        cluster.until(lambda: len(cluster.running(team)) == 2, "the first Job to run")
        jobs = cluster.api.items(f"/apis/batch/v1/namespaces/{team}/jobs")
        assert all(each["spec"]["backoffLimitPerIndex"] == 6 for each in jobs)
        cluster.api.delete(f"/api/v1/namespaces/{team}")
        cluster.until(lambda: cluster.api.maybe(f"/api/v1/namespaces/{team}") is None, "the namespace to go")
        weir.check()


def test_a_namespace_with_a_job_from_the_last_moments_of_its_project_can_be_deleted(
    cluster: Cluster, plane: ControlPlane
) -> None:
    """The Job has retries by index, and its pods came when the namespace had no project any more."""
    team = cluster.namespace("team-that-left")
    with Installed(plane, namespace=cluster.namespace(), name="left") as weir:
        weir.wait_ready()
        late = job(team, "late", 1, scheduler="default-scheduler")
        late["spec"] |= {"completionMode": "Indexed", "backoffLimitPerIndex": 6, "maxFailedIndexes": 0}
        del late["spec"]["backoffLimit"]
        late["spec"]["podFailurePolicy"] = {"rules": [{"action": "FailJob", "onPodConditions": [FAILS]}]}
        cluster.api.create(late)
        cluster.until(lambda: len(cluster.pods(team)) == 1, "its pod")
        cluster.api.delete(f"/api/v1/namespaces/{team}")
        cluster.until(lambda: cluster.api.maybe(f"/api/v1/namespaces/{team}") is None, "the namespace to go")
        weir.check()
