"""Weir installed from its OLM bundle: what OLM would create of it, with exactly those rights.

Gangs, reclaim, policies, webhooks and queries then work as in other installations.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from tools.controlplane.api import ApiError, Object, collection
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import install_kinds, project
from tools.controlplane.work import job, pod

from weir.kubernetes.install.manifests import Installation
from weir.kubernetes.install.olm.bundle import BundleOptions, bundle

QUERY_ROOT = "/apis/query.weir.dev/v1"


@dataclass(frozen=True)
class Site:
    """Weir as a cluster has it from the bundle and the administrator's files, and a node with 8 GPUs."""

    cluster: Cluster
    weir: Installed
    teams: tuple[str, str]

    def run(self, team: str, name: str, pods: int, gpus: int = 1, **words: Any) -> None:
        self.cluster.api.create(job(team, name, gpus, pods=pods, scheduler="default-scheduler", **words))

    def running(self, team: str, name: str) -> int:
        """Return the number of running pods of a Job."""
        return sum(each.startswith(f"{name}-") for each in self.cluster.running(team))

    def status(self, team: str, name: str) -> Object:
        path = f"/apis/weir.dev/v1alpha1/namespaces/{team}/workloads/job-{name}"
        found: Object = (self.cluster.api.maybe(path) or {}).get("status", {})
        return found


@pytest.fixture
def site(cluster: Cluster, plane: ControlPlane) -> Iterator[Site]:
    teams = cluster.namespace(), cluster.namespace()
    cluster.add_nodes(1, gpus=8)
    with Installed(plane, namespace=cluster.namespace(), name="olm", source="bundle") as weir:
        weir.wait_ready()
        weir.create_queues(*(project(team, 4) for team in teams))
        yield Site(cluster, weir, teams)
        weir.check()
        assert "forbidden" not in weir.log_text().lower()


def refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except ApiError as why:
        return why.message
    return ""


def test_a_cluster_installed_from_the_bundle_does_what_other_installations_do(site: Site) -> None:
    cluster, (owner, borrower) = site.cluster, site.teams
    pods = f"/api/v1/namespaces/{borrower}/pods"
    mistyped = pod(borrower, "typo", 1, annotations={"weir.dev/gpu-fracton": "0.5"})

    def judged() -> str:
        return refusal(lambda: cluster.api.post(f"{pods}?dryRun=All", mistyped))

    cluster.until(lambda: "did you mean weir.dev/gpu-fraction?" in judged(), "a mistake to be refused")

    # The pods name the default scheduler: the mutating webhook makes them Weir's.
    site.run(borrower, "borrows", 8)
    cluster.until(lambda: site.running(borrower, "borrows") == 8, "eight pods, four of them borrowed")
    placed = cluster.pods(borrower)
    assert {each["spec"]["schedulerName"] for each in placed} == {"weir"}
    assert len({each["metadata"]["annotations"]["weir.dev/gpus"] for each in placed}) == 8
    row = f"{QUERY_ROOT}/namespaces/{borrower}/workloads/job-borrows"
    cluster.until(lambda: (cluster.api.maybe(row) or {}).get("status") == "running", "the query to say so")

    name = placed[0]["metadata"]["name"]
    forged = {"metadata": {"annotations": {"weir.dev/gpus": "9"}}}
    assert "is written by Weir alone" in refusal(lambda: cluster.api.patch(f"{pods}/{name}", forged))

    # A gang takes its quota back; another one, beyond the quota of its project, starts no pod.
    site.run(owner, "reclaims", 4)
    cluster.until(lambda: site.running(owner, "reclaims") == 4, "the gang to reclaim its quota")
    assert site.running(borrower, "borrows") <= 4
    site.run(owner, "waits", 8)
    cluster.until(
        lambda: site.status(owner, "waits").get("reason", {}).get("sentence"),
        "the reason to be told",
    )
    assert site.running(owner, "waits") == 0
    assert site.status(owner, "waits")["phase"] == "Pending"
    cluster.until(
        lambda: "reclaims" in site.status(borrower, "borrows").get("lastEviction", {}).get("by", ""),
        "the eviction to be told",
    )


def test_the_api_server_takes_the_kinds_the_examples_and_the_rest(
    cluster: Cluster, plane: ControlPlane
) -> None:
    install_kinds(cluster.api)
    image = "registry.example.com/weir:1"
    files = bundle(BundleOptions(Installation(cluster.namespace(), image=image)))
    dry = ("apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", "-")
    definitions = [text for path, text in files.items() if path.endswith(".crd.yaml")]
    assert "unchanged" not in plane.kubectl(*dry, stdin="---\n".join(definitions))
    for text in definitions:
        wanted: Any = yaml.safe_load(text)
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{wanted['metadata']['name']}"
        assert cluster.api.get(path)["spec"]["names"]["kind"] == wanted["spec"]["names"]["kind"]
    csv = yaml.safe_load(files["bundle/manifests/weir.clusterserviceversion.yaml"])
    for example in json.loads(csv["metadata"]["annotations"]["alm-examples"]):
        cluster.api.post(f"{collection(example)}?dryRun=All", example)
    answer = plane.kubectl(*dry, stdin=files["cluster.yaml"])
    assert "validatingadmissionpolicy.admissionregistration.k8s.io/weir-pods" in answer
    assert "networkpolicy.networking.k8s.io/weir" in answer
    assert "apiservice.apiregistration.k8s.io" in plane.kubectl(*dry, stdin=files["query-api.yaml"])
