"""The control plane for tests is what it says: real, with nodes and pods that live as told, and faults on demand."""

import http.client
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tools.controlplane.api import Api, ApiError
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import FAILS, RUNS, STOPS_AFTER, set_down
from tools.controlplane.plane import ControlPlane
from tools.controlplane.proxy import FaultProxy, Faults
from tools.controlplane.queries import named_apis
from tools.controlplane.work import job, pod

HERE = Path(__file__).parent


def phase(cluster: Cluster, namespace: str, name: str) -> str | None:
    there = cluster.api.maybe(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return None if there is None else there["status"]["phase"]


def test_pods_on_a_node_run_end_and_stop_as_their_annotations_say(cluster: Cluster) -> None:
    (node,) = cluster.add_nodes(1)
    within = cluster.namespace()
    cluster.api.create(
        pod(within, "stays", nodeName=node, annotations={STOPS_AFTER: "1s"}),
        pod(within, "ends", nodeName=node, annotations={RUNS: "100ms"}),
        pod(within, "fails", nodeName=node, annotations={RUNS: "100ms", FAILS: "true"}),
    )
    cluster.until(lambda: phase(cluster, within, "ends") == "Succeeded")
    cluster.until(lambda: phase(cluster, within, "fails") == "Failed")
    cluster.until(lambda: phase(cluster, within, "stays") == "Running")
    began = time.monotonic()
    cluster.api.delete(f"/api/v1/namespaces/{within}/pods/stays")
    cluster.until(lambda: phase(cluster, within, "stays") is None)
    assert time.monotonic() - began > 0.9


def test_a_node_goes_down_and_comes_up(cluster: Cluster) -> None:
    (name,) = cluster.add_nodes(1)

    def tainted() -> bool:
        return bool(cluster.api.get(f"/api/v1/nodes/{name}")["spec"].get("taints"))

    set_down(cluster.api, name)
    cluster.until(tainted)
    set_down(cluster.api, name, down=False)
    cluster.until(lambda: not tainted())


def test_jobs_are_carried_out_and_the_stock_scheduler_can_be_had(
    cluster: Cluster, plane: ControlPlane
) -> None:
    cluster.add_nodes(1)
    within = cluster.namespace()
    plane.start_scheduler()
    try:
        cluster.api.create(
            job(within, "two", pods=2, scheduler="default-scheduler", pod_annotations={RUNS: "50ms"})
        )
        done = f"/apis/batch/v1/namespaces/{within}/jobs/two"
        cluster.until(lambda: cluster.api.get(done)["status"].get("succeeded") == 2)
    finally:
        plane.kill("kube-scheduler")


def test_a_test_leaves_nothing_for_the_next(cluster: Cluster) -> None:
    within = cluster.namespace()
    cluster.add_nodes(2)
    cluster.api.create(job(within, "waits", pods=3), pod(within, "alone"))
    cluster.until(lambda: len(cluster.pods()) == 4)
    cluster.empty()
    assert cluster.pods() == []
    assert cluster.api.items("/api/v1/nodes") == []


def test_kubeconfigs_are_of_who_they_say(cluster: Cluster, plane: ControlPlane) -> None:
    stranger = plane.kubeconfig_for("stranger")
    with pytest.raises(RuntimeError, match='User "stranger" cannot list resource "nodes"'):
        plane.kubectl("get", "nodes", kubeconfig=stranger)
    token = plane.kubeconfig_of("default", "default")
    with pytest.raises(RuntimeError, match="system:serviceaccount:default:default"):
        plane.kubectl("get", "nodes", kubeconfig=token)


@pytest.mark.parametrize(
    ("faults", "code"),
    [(Faults(conflict=1), 409), (Faults(throttled=1), 429), (Faults(broken=1), 500)],
)
def test_the_proxy_answers_with_faults(
    cluster: Cluster, proxy: FaultProxy, faults: Faults, code: int
) -> None:
    asked = Api(proxy.url)
    within = cluster.namespace()
    proxy.faults = faults
    with pytest.raises(ApiError) as why:
        asked.create(pod(within, "one"))
    assert why.value.code == code
    proxy.calm()
    assert asked.create(pod(within, "one"))
    asked.close()


def test_the_proxy_carries_out_and_drops_the_answer(cluster: Cluster, proxy: FaultProxy) -> None:
    asked = Api(proxy.url)
    within = cluster.namespace()
    proxy.faults = Faults(dropped=1, where=lambda request: request.verb == "POST")
    with pytest.raises(ConnectionError):
        asked.create(pod(within, "one"))
    assert phase(cluster, within, "one") == "Pending"
    proxy.faults = Faults(refused=1)
    with pytest.raises(ConnectionError):
        asked.create(pod(within, "two"))
    assert phase(cluster, within, "two") is None
    asked.close()


def test_the_proxy_cuts_watches_and_says_they_are_too_old(cluster: Cluster, proxy: FaultProxy) -> None:
    at = urlsplit(proxy.url)

    def watch() -> bytes:
        connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=120)
        try:
            connection.request("GET", "/api/v1/nodes?watch=true")
            return connection.getresponse().read()
        finally:
            connection.close()

    proxy.faults = Faults(cut_watch_after_s=0.2)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        watch()
    proxy.faults = Faults(gone=1)
    assert b'"code": 410' in watch()


def test_nothing_is_left_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import pathlib, signal, sys\n"
        "from tools.controlplane.processes import Processes\n"
        "begun = Processes(pathlib.Path(sys.argv[1]))\n"
        "print(begun.start('sleeps', ['sleep', '3600']).pid, flush=True)\n"
        "signal.pause()\n"
    )
    (tmp_path / "kept").mkdir()
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "kept")],
        cwd=HERE.parent.parent,
        stdout=subprocess.PIPE,
    )
    with parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    assert select.select([child], [], [], 120)[0], "it still runs"
    os.close(child)
    end = time.monotonic() + 120
    while (tmp_path / "kept").exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_emptied_cluster_names_no_api_that_nothing_serves(cluster: Cluster) -> None:
    """While one is named, no namespace ends: a later test would wait for its own."""
    service = {"name": "weir", "namespace": "default", "port": 443}
    spec = {"group": "query.weir.dev", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15}
    cluster.api.create(
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1.query.weir.dev"},
            "spec": {**spec, "insecureSkipTLSVerify": True, "service": service},
        }
    )
    named = "in the forms ['plain', 'aggregated'] "
    cluster.until(lambda: named in named_apis(cluster.api), lambda: named_apis(cluster.api))
    cluster.empty()
    assert named_apis(cluster.api).endswith("APIServices: []")
    assert "in the forms [] " in named_apis(cluster.api)
