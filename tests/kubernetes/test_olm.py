"""Weir installed from its OLM bundle: what OLM would create of it, exactly those rights, and a placement."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tools.controlplane.api import Object, collection
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.plane import ControlPlane
from tools.controlplane.ports import free_port
from tools.controlplane.queries import on_loopback, wait_for_queries, withdraw
from tools.controlplane.weir import Weir, install_kinds, project
from tools.controlplane.work import job

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


@pytest.fixture
def home(cluster: Cluster) -> str:
    return cluster.namespace()


@pytest.fixture
def files(home: str) -> dict[str, str]:
    return bundle(BundleOptions(Installation(home, image="registry.example.com/weir:1")))


def test_a_cluster_installed_from_the_bundle_places_a_job(
    cluster: Cluster, plane: ControlPlane, home: str, files: dict[str, str]
) -> None:
    install_kinds(cluster.api)  # those of the bundle are the same, see below
    made = created_by_olm(files, home)
    rest = yaml.safe_load_all(files["cluster.yaml"])
    made += [each for each in rest if each["metadata"].get("namespace") == "kube-system"]
    port = free_port()
    made = on_loopback(made, port)
    cluster.api.apply(*made)
    wait_for_rights(cluster.api)
    (deployment,) = (each for each in made if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    team = cluster.namespace()
    cluster.add_nodes(1, gpus=8)
    cluster.api.create(project(team, 8))
    with WeirOfBundle(plane, home, container["args"], port) as weir:
        cluster.api.create(job(team, "train", 4, pods=2))
        cluster.until(lambda: len(cluster.running(team)) == 2, WAITS_S, "both pods to run")
        path = f"/apis/weir.dev/v1alpha1/namespaces/{team}/workloads/job-train"

        def phase() -> str:
            return str((cluster.api.maybe(path) or {}).get("status", {}).get("phase", ""))

        cluster.until(lambda: phase() == "Running", WAITS_S, "its Workload to say so")
        weir.check()
        cluster.api.apply(*on_loopback([yaml.safe_load(files["query-api.yaml"])], port))
        try:
            row = wait_for_queries(cluster.api, f"{QUERY_ROOT}/namespaces/{team}/workloads/job-train")
        finally:
            withdraw(cluster.api)
        assert row["status"] == "running"
        assert "forbidden" not in weir.log_text().lower()


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
    assert "validatingadmissionpolicy.admissionregistration.k8s.io/weir-pod-keys" in answer
    assert "networkpolicy.networking.k8s.io/weir" in answer
    assert "apiservice.apiregistration.k8s.io" in plane.kubectl(*dry, stdin=files["query-api.yaml"])
