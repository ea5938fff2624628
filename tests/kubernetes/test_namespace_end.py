"""A namespace that is deleted goes, whatever Jobs Weir has given their retries by index in it."""

from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import job

GONE_S = 120


def test_a_namespace_with_indexed_jobs_can_be_deleted(cluster: Cluster, plane: ControlPlane) -> None:
    cluster.add_nodes(1, gpus=8)
    team = cluster.namespace("team-that-leaves")
    with Installed(plane, namespace=cluster.namespace(), name="leaves") as weir:
        weir.wait_ready()
        weir.create_queues(project(team, 8))
        cluster.api.create(job(team, "runs", 2, pods=2), job(team, "waits", 8, pods=2))
        cluster.until(lambda: len(cluster.running(team)) == 2, GONE_S, "the first Job to run")
        jobs = cluster.api.items(f"/apis/batch/v1/namespaces/{team}/jobs")
        assert all(each["spec"]["backoffLimitPerIndex"] == 6 for each in jobs)
        cluster.api.delete(f"/api/v1/namespaces/{team}")
        cluster.until(
            lambda: cluster.api.maybe(f"/api/v1/namespaces/{team}") is None, GONE_S, "the namespace to go"
        )
        weir.check()
