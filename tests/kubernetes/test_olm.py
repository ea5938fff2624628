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
from tools.controlplane.enforcement import wait_for_policies, wait_for_rights, wait_for_webhooks
from tools.controlplane.plane import ControlPlane
from tools.controlplane.ports import free_port
from tools.controlplane.queries import on_loopback, wait_for_queries, withdraw
from tools.controlplane.weir import Weir, install_kinds, project
from tools.controlplane.work import job, pod

from weir.kubernetes.install.manifests import Installation
from weir.kubernetes.install.olm_bundle import BundleOptions, bundle

RBAC = "rbac.authorization.k8s.io"
QUERY_ROOT = "/apis/query.weir.dev/v1"
WAITS_S = 120
_OF_THE_CLUSTER = ("ClusterRole", "ClusterRoleBinding", "PriorityClass")


def created_by_olm(files: dict[str, str], namespace: str) -> list[Object]:
    """The objects that OLM makes of a bundle which it installs in this namespace."""
    bundled = [yaml.safe_load(text) for path, text in files.items() if path.startswith("bundle/manifests/")]
    (csv,) = (each for each in bundled if each["kind"] == "ClusterServiceVersion")
    found = [*_of_csv(csv, namespace)]
    for each in bundled:
        if each["kind"] in ("ClusterServiceVersion", "CustomResourceDefinition"):
            continue
        if each["kind"] not in _OF_THE_CLUSTER:
            each["metadata"]["namespace"] = namespace
        found.append(each)
    return found


def _of_csv(csv: Object, namespace: str) -> Iterator[Object]:
    install = csv["spec"]["install"]["spec"]
    inside = {"namespace": namespace}
    for kind, permissions in (
        ("ClusterRole", install["clusterPermissions"]),
        ("Role", install["permissions"]),
    ):
        for each in permissions:
            account = each["serviceAccountName"]
            name = f"{csv['metadata']['name']}-{account}"
            metadata = {"name": name} if kind == "ClusterRole" else {"name": name, **inside}
            subject = {"kind": "ServiceAccount", "name": account, **inside}
            reference = {"apiGroup": RBAC, "kind": kind, "name": name}
            yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, **inside}}
            yield {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": each["rules"]}
            yield {
                "apiVersion": f"{RBAC}/v1",
                "kind": f"{kind}Binding",
                "metadata": metadata,
                "roleRef": reference,
                "subjects": [subject],
            }
    for each in install["deployments"]:
        metadata = {"name": each["name"], "labels": each["label"], **inside}
        spec = {**each["spec"], "replicas": 0}  # no pod runs here for real
        yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


class WeirOfBundle(Weir):
    """The container of the bundle's Deployment as a process."""

    def __init__(self, plane: ControlPlane, namespace: str, args: list[str], port: int) -> None:
        super().__init__(plane, plane.kubeconfig_of(namespace, "weir"), name="olm")
        self._words = [*args, "--host", "127.0.0.1", "--namespace", namespace]
        self._words[self._words.index("--port") + 1] = str(port)

    def command(self) -> list[str]:
        """Return the command of the container, with a port of this machine."""
        return [*super().command()[:3], *self._words]


@dataclass(frozen=True)
class Site:
    """Weir as a cluster has it from the bundle and the administrator's files, and a node with 8 GPUs."""

    cluster: Cluster
    weir: WeirOfBundle
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
def home(cluster: Cluster) -> str:
    return cluster.namespace()


@pytest.fixture
def files(home: str) -> dict[str, str]:
    return bundle(BundleOptions(Installation(home, image="registry.example.com/weir:1")))


@pytest.fixture
def site(cluster: Cluster, plane: ControlPlane, home: str, files: dict[str, str]) -> Iterator[Site]:
    install_kinds(cluster.api)  # those of the bundle are the same, see below
    port = free_port()
    made = [*yaml.safe_load_all(files["cluster.yaml"]), *created_by_olm(files, home)]
    for each in made:
        for hook in each.get("webhooks", ()):
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}"}
    made = on_loopback(made, port)
    cluster.api.apply(*made)
    wait_for_rights(cluster.api)
    (deployment,) = (each for each in made if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    teams = cluster.namespace(), cluster.namespace()
    cluster.add_nodes(1, gpus=8)
    with WeirOfBundle(plane, home, container["args"], port) as weir:
        wait_for_policies(cluster.api)
        cluster.api.apply(*on_loopback([yaml.safe_load(files["query-api.yaml"])], port))
        try:
            wait_for_queries(cluster.api)
            cluster.until(lambda: webhook_refuses(cluster), WAITS_S, "the webhooks to be called")
            wait_for_webhooks(cluster.api)
            cluster.api.create(*(project(team, 4) for team in teams))
            yield Site(cluster, weir, teams)
        finally:
            withdraw(cluster.api)
        weir.check()
        assert "forbidden" not in weir.log_text().lower()


def webhook_refuses(cluster: Cluster) -> bool:
    """Return True if a webhook refuses a project whose department doesn't exist."""
    lost = project("probe", 0, department="none")
    return "admission webhook" in refusal(lambda: cluster.api.post(f"{collection(lost)}?dryRun=All", lost))


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

    cluster.until(
        lambda: "did you mean weir.dev/gpu-fraction?" in judged(), WAITS_S, "a mistake to be refused"
    )

    # The pods name the default scheduler: the mutating webhook makes them Weir's.
    site.run(borrower, "borrows", 8)
    cluster.until(
        lambda: site.running(borrower, "borrows") == 8, WAITS_S, "eight pods, four of them borrowed"
    )
    placed = cluster.pods(borrower)
    assert {each["spec"]["schedulerName"] for each in placed} == {"weir"}
    assert len({each["metadata"]["annotations"]["weir.dev/gpus"] for each in placed}) == 8
    row = f"{QUERY_ROOT}/namespaces/{borrower}/workloads/job-borrows"
    cluster.until(
        lambda: (cluster.api.maybe(row) or {}).get("status") == "running", WAITS_S, "the query to say so"
    )

    name = placed[0]["metadata"]["name"]
    forged = {"metadata": {"annotations": {"weir.dev/gpus": "9"}}}
    assert "is written by Weir alone" in refusal(lambda: cluster.api.patch(f"{pods}/{name}", forged))

    # A gang takes its quota back; another one, beyond the quota of its project, starts no pod.
    site.run(owner, "reclaims", 4)
    cluster.until(lambda: site.running(owner, "reclaims") == 4, WAITS_S, "the gang to reclaim its quota")
    assert site.running(borrower, "borrows") <= 4
    site.run(owner, "waits", 8)
    cluster.until(
        lambda: site.status(owner, "waits").get("reason", {}).get("sentence"),
        WAITS_S,
        "the reason to be told",
    )
    assert site.running(owner, "waits") == 0
    assert site.status(owner, "waits")["phase"] == "Pending"
    cluster.until(
        lambda: "reclaims" in site.status(borrower, "borrows").get("lastEviction", {}).get("by", ""),
        WAITS_S,
        "the eviction to be told",
    )


def test_the_api_server_takes_the_kinds_the_examples_and_the_rest(
    cluster: Cluster, plane: ControlPlane, home: str, files: dict[str, str]
) -> None:
    install_kinds(cluster.api)
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
