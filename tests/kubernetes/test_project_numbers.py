"""Numbers of projects on a cluster: statuses and metrics, held against what the pods hold."""

import base64
import http.client
import re
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.installed import Installed
from tools.controlplane.nodes import STOPS_AFTER
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import job

from weir.kubernetes.install.monitoring.grafana_board import panels
from weir.kubernetes.install.monitoring.prometheus import READER, alerts, monitoring

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    with Installed(plane, namespace=cluster.namespace(), name="numbers") as running:
        running.wait_ready()
        yield running


class Scraper:
    """Prometheus as the ServiceMonitor sets it up: the authority of the Secret, a token of the reader."""

    def __init__(self, weir: Installed, cluster: Cluster) -> None:
        made = monitoring(weir.namespace, "weir-webhook")
        cluster.api.apply(*(each for each in made if "monitoring.coreos.com" not in each["apiVersion"]))
        wait_for_rights(cluster.api)
        secrets = f"/api/v1/namespaces/{weir.namespace}/secrets"
        authority = base64.b64decode(cluster.api.get(f"{secrets}/weir-webhook")["data"]["ca.crt"])
        self._tls = ssl.create_default_context(cadata=authority.decode())
        self._at = "127.0.0.1", weir.port
        self._name = f"weir.{weir.namespace}.svc"
        account = f"/api/v1/namespaces/{weir.namespace}/serviceaccounts/{READER}/token"
        self.families: set[str] = set()
        self.token = str(cluster.api.post(account, {"spec": {"expirationSeconds": 3600}})["status"]["token"])

    def ask(self, token: str, path: str = "/metrics") -> tuple[int, str]:
        connection = http.client.HTTPSConnection(*self._at, timeout=120)
        connection.sock = self._tls.wrap_socket(
            socket.create_connection(self._at), server_hostname=self._name
        )
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def scrape(self) -> Samples:
        status, text = self.ask(self.token)
        assert status == 200, text
        self.families = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def status_of(cluster: Cluster, name: str) -> dict[str, Any]:
    return dict(cluster.api.get(f"/apis/weir.dev/v1alpha1/projects/{name}").get("status") or {})


def waiting(cluster: Cluster, name: str) -> tuple[int, int]:
    """Return how many workloads of a project are pending, and how many can't run."""
    status = status_of(cluster, name)
    return status["pending"], status["unschedulable"]


def counts(cluster: Cluster, name: str) -> tuple[float, int, int, int]:
    """Return the GPUs that a project asks for, and its workloads: pending, running, and those that can't run.

    A status follows several changes at once, so it may still be that of the time before the nodes came.
    """
    status = status_of(cluster, name)
    pending, running, impossible = (status.get(word, 0) for word in ("pending", "running", "unschedulable"))
    return gpus(status, "demand"), pending, running, impossible


def gpus(status: dict[str, Any], word: str) -> float:
    return float((status.get(word) or {}).get("gpu", 0))


def test_numbers_while_work_stops_is_impossible_and_is_deleted(weir: Installed, cluster: Cluster) -> None:
    """A project gives borrowed GPUs back slowly, and its numbers include them until then."""
    cluster.add_nodes(2, gpus=2)
    a, b = cluster.namespace(), cluster.namespace()
    weir.create_queues(project(a, 2), project(b, 2))
    cluster.api.create(job(a, "two", 2))
    cluster.until(lambda: len(cluster.running(a)) == 1, "the first to run")
    cluster.api.create(job(a, "lent", 1, pod_annotations={STOPS_AFTER: "1h"}))
    cluster.until(lambda: len(cluster.running(a)) == 2, "the second to run")
    cluster.api.create(job(a, "never", 9))
    cluster.until(lambda: counts(cluster, a) == (3, 0, 2, 1), "it to be told apart")
    assert gpus(status_of(cluster, a), "share") <= 3

    cluster.api.create(job(b, "owner", 2))
    cluster.until(lambda: "deletionTimestamp" in str(cluster.pods(a)), "the eviction")
    cluster.until(lambda: gpus(status_of(cluster, b), "demand") == 2, "the next status")
    assert gpus(status_of(cluster, a), "allocated") == 3, "what stops is in use"
    scraper = Scraper(weir, cluster)
    seen_in_metrics = scraper.scrape()
    (stops,) = (each["metadata"] for each in cluster.pods(a) if "deletionTimestamp" in each["metadata"])
    ended = {"metadata": {"annotations": {STOPS_AFTER: "0s"}}}
    cluster.api.patch(f"/api/v1/namespaces/{a}/pods/{stops['name']}", ended)
    cluster.until(lambda: len(cluster.running(b)) == 1, "the owner to run")
    cluster.until(lambda: gpus(status_of(cluster, a), "allocated") == 2, "the device to be free")
    assert seen_in_metrics["weir_queue_allocated_gpus", of(a)] == 3

    cluster.until(lambda: status_of(cluster, a)["pending"] == 1, "what was lent to wait")
    jobs = f"/apis/batch/v1/namespaces/{a}/jobs"
    cluster.api.delete(f"{jobs}/lent")  # first, or else it may run once more on what the others leave
    cluster.until(lambda: waiting(cluster, a) == (0, 1), "a deleted Job to leave the numbers")
    cluster.api.delete(jobs)
    cluster.until(lambda: waiting(cluster, a) == (0, 0), "deleted work to leave the numbers")

    metrics = scraper.scrape()
    assert metrics["weir_preemptions_total", (("project", a), ("rule", "reclaim_quota"))] == 1
    assert metrics["weir_workload_wait_seconds_count", (("project", b),)] == 1
    assert metrics["weir_quota_wait_seconds_count", (("project", a),)] == 1, "the borrowed one isn't counted"
    assert metrics["weir_quota_wait_seconds_count", (("project", b),)] == 1
    assert metrics["weir_control_restarts_total", ()] == 0
    assert metrics["weir_gpus", ()] == 4
    assert calls(metrics, "create", "pods/binding", "201") >= 3
    assert calls(metrics, "list", "pods", "200") >= 1
    assert calls(metrics, "watch", "pods", "200") >= 1
    assert metrics["weir_watch_events_total", (("resource", "pods"),)] > 0
    expressions = [rule["expr"] for rule in alerts()]
    expressions += [expression for panel in panels() for expression in panel["lines"].values()]
    used = {re.sub("_bucket$", "", name) for each in expressions for name in re.findall(r"weir_\w+", each)}
    with_a_source = {"weir_history_stored", "weir_usage_known", "weir_notifications_sent"}
    assert used - with_a_source <= scraper.families
    assert scraper.ask("wrong")[0] == 401
    check_log(weir, a, b)


def calls(metrics: Samples, verb: str, resource: str, code: str) -> float:
    labels = (("code", code), ("resource", resource), ("verb", verb))
    return metrics["weir_api_requests_total", labels]


def of(name: str) -> tuple[tuple[str, str], ...]:
    return (("kind", "project"), ("queue", name))


def check_log(weir: Installed, a: str, b: str) -> None:
    """Each decision is a line, and lines of one cycle have its number."""
    (evicted,) = weir.lines("evicted")
    assert evicted["workload"] == f"{a}/job-lent"
    assert evicted["beneficiary"] == f"{b}/job-owner"
    assert evicted["rule"] == "reclaim_quota"
    planned = {line["cycle"]: line for line in weir.lines("planned")}
    assert planned[evicted["cycle"]]["evictions"] == 1
    placed = {line["workload"]: line for line in weir.lines("placed")}
    assert placed[f"{b}/job-owner"]["cycle"] > evicted["cycle"]
    waits = {(line["workload"], line["reason"]) for line in weir.lines("waits")}
    assert (f"{a}/job-never", "no_node_matches") in waits
