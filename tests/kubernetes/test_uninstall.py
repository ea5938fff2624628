"""`weir kube uninstall`: an installation goes, an earlier one too, and nothing refuses or keeps others' objects."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kubernetes.test_gangs_by_kind import definition, remove_definitions
from tools import prefork
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_policies, wait_for_webhooks
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import install_kinds, project
from tools.controlplane.work import pod

from weir.kubernetes.install.policies.admission_policies import OptionalPolicies
from weir.kubernetes.writes.queue_finalizers import FINALIZER

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = (
    f"{ADMISSION}/validatingadmissionpolicies",
    f"{ADMISSION}/validatingadmissionpolicybindings",
)
HOOKS = tuple(f"{ADMISSION}/{kind}webhookconfigurations" for kind in ("mutating", "validating"))
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SHARING = "weir.dev/gpu-sharing"
TAINT = {"key": SHARING, "value": "true", "effect": "NoSchedule"}
KIND = ("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")


def policy(name: str, refuses: str) -> list[Object]:
    """Return a policy that refuses ConfigMaps of a name, and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    check = {"expression": f"object.metadata.name != '{refuses}'"}
    about = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    bound = {"policyName": name, "validationActions": ["Deny"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [check]}
    kind = "ValidatingAdmissionPolicy"
    return [{**about, "kind": kind, "spec": spec}, {**about, "kind": f"{kind}Binding", "spec": bound}]


def dead_webhook(name: str, webhook: str) -> Object:
    """Return a webhook that refuses every ConfigMap, because it is away."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    hook = {
        "name": webhook,
        "clientConfig": {"url": "https://127.0.0.1:1"},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"old": "webhook"}},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [hook],
    }


def names(cluster: Cluster, path: str) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.api.items(path)}


def uninstall(plane: ControlPlane, namespace: str, *words: str) -> str:
    options = ["--namespace", namespace, "--kubeconfig", str(plane.kubeconfig), *words]
    return prefork.run([sys.executable, "-m", "weir", "kube", "uninstall", *options], check=True).stdout


@pytest.fixture
def namespace(cluster: Cluster, plane: ControlPlane) -> Iterator[str]:
    plane.api.apply(definition(*KIND))
    path = f"/apis/{KIND[0]}/{KIND[1]}/{KIND[3]}"
    cluster.until(lambda: cluster.api.maybe(path) is not None, "the kind to be served")
    yield cluster.namespace()
    remove_definitions(cluster, [f"{KIND[3]}.{KIND[0]}"])
    install_kinds(plane.api)


def config_map(namespace: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}


def test_an_installation_and_an_earlier_one_leave_nothing_that_refuses_or_keeps_objects(
    cluster: Cluster, plane: ControlPlane, namespace: str
) -> None:
    strict = OptionalPolicies(
        refuse_node_name=True, require_scheduler=True, daemonset_namespaces=("kube-system",)
    )
    others = _of_weir(cluster, namespace)
    with Installed(plane, namespace=namespace, name="uninstalled", optional=strict) as weir:
        weir.wait_ready()
    cluster.api.apply(*policy("weir-of-an-earlier-version", "old"), *policy("others", "theirs"))
    cluster.api.apply(
        dead_webhook("weir-before", "old.weir.dev"), dead_webhook("others", "theirs.example.com")
    )
    free, used = cluster.add_nodes(2, gpus=2)
    labels = {free: {SHARING: "auto", "keep": "this"}, used: {SHARING: "true"}}
    for node in (free, used):
        spec = {"taints": [TAINT, {"key": "keep", "effect": "NoSchedule"}]}
        cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels[node]}, "spec": spec})
    team = cluster.namespace(labels={"old": "webhook"})
    held = project("team", 4, [team])
    held["metadata"]["finalizers"] = [FINALIZER, "example.com/others"]
    share = pod(team, "share", 0)
    share["metadata"]["annotations"] = {"weir.dev/gpu-fraction": "0.5"}
    stopped = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": team},
        "spec": {"runPolicy": {"suspend": True}},
    }
    _, _, made, _ = cluster.api.create(held, share, stopped, pod(team, "waits", 1))
    bound = {"metadata": {"name": "share"}, "target": {"kind": "Node", "name": used}}
    cluster.api.post(f"/api/v1/namespaces/{team}/pods/share/binding", bound)
    path = f"/apis/kubeflow.org/v1/namespaces/{team}/pytorchjobs/train"
    mark = {"weir.dev/restarts": f"{made['metadata']['uid']} weir"}
    cluster.api.patch(path, {"metadata": {"annotations": mark}})
    before = {path: names(cluster, path) for path in (POLICIES, BINDINGS, *HOOKS)}
    assert "weir-scheduler-names" in before[POLICIES]

    tried = uninstall(plane, namespace, "--dry-run")
    assert "validatingadmissionpolicies/weir-scheduler-names would be removed" in tried
    assert {path: names(cluster, path) for path in before} == before
    told = uninstall(plane, namespace)
    _check_told(told, team, free, used)
    assert {path: names(cluster, path) for path in before} == {
        POLICIES: {"others"}, BINDINGS: {"others"}, HOOKS[0]: set(), HOOKS[1]: {"others"}
    }  # fmt: skip
    assert _of_weir(cluster, namespace) <= others
    nodes = {name: cluster.api.get(f"/api/v1/nodes/{name}") for name in (free, used)}
    assert [taint["key"] for taint in nodes[free]["spec"]["taints"]] == ["keep"]
    assert nodes[free]["metadata"]["labels"]["keep"] == "this"
    assert SHARING not in nodes[free]["metadata"]["labels"]
    assert TAINT in nodes[used]["spec"]["taints"]
    found = cluster.api.get("/apis/weir.dev/v1alpha1/projects/team")["metadata"]["finalizers"]
    assert found == ["example.com/others"]
    _check_takes_objects(cluster, team)

    again = uninstall(plane, namespace, "--delete-kinds")
    assert "would be" not in again
    assert "customresourcedefinitions/projects.weir.dev removed" in again
    cluster.api.patch("/apis/weir.dev/v1alpha1/projects/team", {"metadata": {"finalizers": None}})
    cluster.until(
        lambda: not any(name.endswith(".weir.dev") for name in names(cluster, DEFINITIONS)), "the kinds to go"
    )


def _check_told(told: str, team: str, free: str, used: str) -> None:
    removed, _, kept = told.partition("Kept:\n")
    assert "validatingadmissionpolicies/weir-of-an-earlier-version removed" in removed
    assert f"nodes/{free}: taint {SHARING} removed" in removed
    assert "projects/team released" in removed
    assert "1 projects" in kept
    assert f"The taint {SHARING} of node {used}: pods {team}/share have shares of its GPUs." in kept
    assert f"Pods {team}/waits wait for the scheduler weir." in kept
    command = """--type merge --patch '{"spec": {"runPolicy": {"suspend": false}}}'` resumes it."""
    assert f"`kubectl patch -n {team} pytorchjob.kubeflow.org train {command}" in kept


def _of_weir(cluster: Cluster, namespace: str) -> set[tuple[str, str]]:
    """Return the paths and names of objects that may be of an installation. Some are of earlier tests."""
    within = f"/namespaces/{namespace}"
    paths = (
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/rbac.authorization.k8s.io/v1/rolebindings",
        "/apis/rbac.authorization.k8s.io/v1/roles",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        f"/apis/apps/v1{within}/deployments",
        f"/apis/networking.k8s.io/v1{within}/networkpolicies",
        f"/apis/coordination.k8s.io/v1{within}/leases",
        f"/api/v1{within}/secrets",
        f"/api/v1{within}/services",
        f"/api/v1{within}/serviceaccounts",
    )
    objects = {(path, name) for path in paths for name in names(cluster, path) if "weir" in name}
    return {(path, name) for path, name in objects if name != "v1alpha1.weir.dev"}


def _check_takes_objects(cluster: Cluster, team: str) -> None:
    """Check that objects of people are taken that policies and webhooks of Weir refused."""
    cluster.api.delete(f"{HOOKS[1]}/others")
    wait_for_policies(cluster.api)
    wait_for_webhooks(cluster.api)
    plain: dict[str, Any] = pod(team, "plain", 1)
    plain["spec"].pop("schedulerName")
    cluster.api.create(config_map(team, "old"), plain)
    assert "default-scheduler" in json.dumps(cluster.api.get(f"/api/v1/namespaces/{team}/pods/plain")["spec"])
