"""Weir on an API server without resource claims, as before Kubernetes 1.34 or where an administrator turned them off."""

from collections.abc import Iterator

import pytest
from tests.kubernetes.test_project_numbers import Scraper, weir
from tools.controlplane.binaries import Binaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import job

__all__ = ["weir"]


@pytest.fixture(scope="module")
def plane(binaries: Binaries) -> Iterator[ControlPlane]:
    with ControlPlane(binaries, server_options=["--runtime-config=resource.k8s.io/v1=false"]) as running:
        running.grant_all("weir")
        yield running


def test_work_runs_and_weir_is_ready_without_resource_claims(weir: Installed, cluster: Cluster) -> None:
    cluster.add_nodes(1, gpus=2)
    namespace = cluster.namespace()
    weir.create_queues(project(namespace, 2))
    cluster.api.create(job(namespace, "one", 2))
    cluster.until(lambda: len(cluster.running(namespace)) == 1, "it to run")
    scraper = Scraper(weir, cluster)
    assert scraper.ask("", "/readyz")[0] == 200
    samples = scraper.scrape()
    assert samples["weir_ready", ()] == samples["weir_leading", ()] == 1
