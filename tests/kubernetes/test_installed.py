"""Weir as the manifests install it: with exactly the rights they give, its webhooks called, a story carried through."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.claim_objects import claiming, gpu_class, gpu_slice, needs_claims, template
from tools.controlplane.__main__ import STORY
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_policies, wait_for_rights
from tools.controlplane.installed import Installed
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.proxy import Asked, FaultProxy, Faults
from tools.controlplane.weir import ROOT, Weir, install_kinds, project
from tools.controlplane.work import job, pod

from weir.kubernetes.admission.webhook_configuration import registrations
from weir.kubernetes.install.flow_control import LEASE_FLOW
from weir.kubernetes.install.manifests import Installation, as_yaml, manifests
from weir.kubernetes.query.aggregation.discovery import api_service
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.kinds import load_kinds

EXAMPLES = ROOT / "examples" / "kubernetes"
POLICY = "ValidatingAdmissionPolicy"


def installed(cluster: Cluster, **options: Any) -> str:
    """Install the manifests without webhooks, for a Weir that the test runs; return the namespace."""
    home = installed_without_policies(cluster, **options)
    enforce_policies(cluster, home, **options)
    return home


def installed_without_policies(cluster: Cluster, **options: Any) -> str:
    """Install all but webhooks and policies; return the namespace."""
    install_kinds(cluster.api)
    home = cluster.namespace()
    left_out = ("Deployment", "CustomResourceDefinition", "Webhook", POLICY, "APIService")
    found = manifests(Installation(home, **options))
    cluster.api.apply(*(each for each in found if not any(word in each["kind"] for word in left_out)))
    wait_for_rights(cluster.api)
    return home


def enforce_policies(cluster: Cluster, home: str, **options: Any) -> None:
    """Apply the admission policies of an installation, and wait until they are enforced."""
    found = manifests(Installation(home, **options))
    cluster.api.apply(*(each for each in found if POLICY in each["kind"]))
    wait_for_policies(cluster.api)


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    plane.start_scheduler()
    try:
        with Installed(plane, namespace=cluster.namespace(), name="installed") as running:
            running.wait_ready()
            yield running
            assert "forbidden" not in running.log_text().lower()
    finally:
        plane.kill("kube-scheduler")


def workloads(cluster: Cluster, within: str) -> dict[str, Any]:
    path = f"/apis/weir.dev/v1alpha1/namespaces/{within}/workloads"
    return {each["metadata"]["name"]: each for each in cluster.api.items(path)}


def phase(cluster: Cluster, within: str, name: str) -> str:
    found = workloads(cluster, within).get(name, {})
    return str(found.get("status", {}).get("phase", ""))


def one(within: str, name: str, gpus: int) -> Object:
    made = job(within, name, gpus, scheduler="default-scheduler")
    made["spec"]["template"]["spec"].pop("schedulerName", None)
    return made


def test_a_department_and_its_projects_are_applied_together(
    weir: Installed, cluster: Cluster, plane: ControlPlane
) -> None:
    """Each needs the one before, of which a watch tells the webhook later. Then a Job runs in each project."""
    cluster.add_nodes(1, gpus=4)
    a, b = cluster.namespace(), cluster.namespace()
    lab = {**project("", 0), "kind": "Department", "metadata": {"name": "lab"}, "spec": {}}
    teams = project("team-a", 2, [a], department="lab"), project("team-b", 2, [b], department="lab")
    plane.kubectl("apply", "-f", "-", stdin="---\n".join(yaml.safe_dump(each) for each in (lab, *teams)))
    for within in (a, b):
        cluster.api.create(one(within, "two", 2))
        cluster.until(lambda w=within: phase(cluster, w, "job-two") == "Running", "it to run")
    assert len(plane.kubectl("get", "projects").strip().split("\n")) == 3
    flows = f'requests_total{{flow_schema="{LEASE_FLOW}",priority_level="leader-election"}}'
    assert f"apiserver_flowcontrol_dispatched_{flows}" in cluster.api.text("/metrics")


def test_the_first_story_of_the_tour_with_the_stock_scheduler_beside(
    weir: Installed, cluster: Cluster, plane: ControlPlane
) -> None:
    """The printed commands one after another: pods without a schedulerName are Weir's where they ask for GPUs."""
    cluster.add_nodes(4, gpus=8)
    for words, _ in STORY:
        files = (str(EXAMPLES / word) if word.endswith(".yaml") else word for word in words.split())
        made = re.fullmatch(r"job.batch/(\S+) created\n", plane.kubectl(*files))
        if made is not None:
            within, name = words.split()[2], f"job-{made[1]}"
            cluster.until(lambda w=within, n=name: phase(cluster, w, n) == "Running", words)
    cluster.until(lambda: len(cluster.running("team-a")) == 3, "all work of team A to run again")
    pods = cluster.pods("team-a")
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"weir"}
    jobs = cluster.api.items("/apis/batch/v1/namespaces/team-a/jobs")
    assert not any(each["status"].get("failed") for each in jobs), "a preemption counted as a failure"
    cluster.api.create(pod("team-a", "plain", 0, scheduler="default-scheduler"))
    cluster.until(lambda: "plain" in cluster.running("team-a"), "a pod without GPUs to run")
    plain = cluster.api.get("/api/v1/namespaces/team-a/pods/plain")
    assert plain["spec"]["schedulerName"] == "default-scheduler"


def test_the_manifests_are_taken_as_a_whole_and_again(
    cluster: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    """The cluster has a class `train` of its own, and the pods are critical to it."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    cluster.api.create({**kind, "metadata": {"name": "train"}, "value": 1000})
    written = as_yaml(manifests(Installation("weir-too", "registry.example/weir:1", replicas=3)))
    path = tmp_path / "weir.yaml"
    path.write_text(written)
    for _ in range(2):
        plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(path))
    deployment = cluster.api.get("/apis/apps/v1/namespaces/weir-too/deployments/weir")
    assert deployment["spec"]["replicas"] == 3
    cluster.until(lambda: len(cluster.pods("weir-too")) == 3, "pods that the restricted profile lets in")
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert cluster.api.get(f"{classes}/train")["value"] == 1000
    assert cluster.api.get(f"{classes}/weir-train")["value"] == 50
    pod = cluster.pods("weir-too")[0]
    assert pod["spec"]["priority"] == 2_000_000_000, "the quota lets critical pods in"
    assert pod["spec"]["containers"][0]["image"] == "registry.example/weir:1"
    assert "runAsUser" not in str(pod["spec"])
    assert {each["kind"] for each in yaml.safe_load_all(written)} >= {
        "ClusterRole",
        "Role",
        "PodDisruptionBudget",
    }


def test_a_lead_changes_the_times_of_its_project_and_no_quota(cluster: Cluster, plane: ControlPlane) -> None:
    installed(cluster)
    cluster.api.create(project("vision", 4), project("other", 4))
    group = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["weir.dev"], "resources": ["projects"], "resourceNames": ["vision"]}
    cluster.api.apply(
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "lead-of-vision"},
            "rules": [{**rule, "verbs": ["get", "patch", "update"]}],
        },
        bound("lead-of-vision", "lead"),
        bound("weir-project-admin", "quotas"),
    )
    wait_for_rights(cluster.api)
    lead, admin = (plane.kubeconfig_for(user) for user in ("lead", "quotas"))

    def patched(kubeconfig: Path, name: str, spec: str) -> str:
        words = ("patch", "project", name, "--type=merge", "-p", f'{{"spec": {spec}}}')
        try:
            return plane.kubectl(*words, kubeconfig=kubeconfig)
        except RuntimeError as why:
            return str(why)

    more = '{"quota": {"gpu": 10}}'
    assert "spec.times alone" in patched(lead, "vision", more)
    assert "patched" in patched(lead, "vision", '{"times": {"maxRuntime": "8h"}}')
    assert "spec.times alone" in patched(lead, "vision", '{"limit": {"gpu": 9}, "quota": null}')
    assert "Forbidden" in patched(lead, "other", '{"times": {"maxRuntime": "8h"}}')
    assert "patched" in patched(admin, "vision", more)


def bound(role: str, user: str) -> Object:
    """Return the binding of a cluster role to a user."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{role}-{user}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


RARELY = {
    ("get", "pods"),  # after a binding without an answer
    ("patch", "persistentvolumeclaims"),  # of a pod whose volumes wait for its node
    ("patch", "persistentvolumes"),
    ("patch", "nodes"),  # of a node that is set aside for shares
    ("create", "secrets"),  # its own one, after a deletion
    ("create", "sharednodes"),  # what a patch of an absent object is authorized by, too
    ("delete", "apiservices"),  # when its namespace is deleted
    ("create", "tokenreviews"),  # of readers of metrics
    ("create", "subjectaccessreviews"),
    ("patch", "topologies/status"),
    ("patch", "resourceclaims/binding"),  # what the API server checks for the status of a claim, too
    ("update", "resourceclaims/binding"),
    ("list", "podgroups"),  # which this API server doesn't serve
    ("watch", "podgroups"),
    ("patch", "podgroups/status"),
    ("list", "devicetaintrules"),  # nor these
    ("watch", "devicetaintrules"),
    ("create", "resourceclaims"),  # of a pod that asks for an extended resource of a class
    ("delete", "resourceclaims"),
    ("get", "resourceclaimtemplates"),  # of a pod that names no scheduler and claims devices
    ("get", "sweeps"),  # before its trials change
    ("patch", "sweeps/status"),
    ("patch", "notificationrules/status"),  # of a rule that a person has made
    ("get", "jobs"),  # of a trial
    ("patch", "jobs"),  # of a Job that is idle
    *(("patch", each.resource) for each in load_kinds().suspensions),  # whose pods are to stop
}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def right_of(asked: Asked) -> tuple[str, str]:
    """The verb and the resource that a request is authorized by."""
    parts = asked.path.partition("?")[0].strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    resource = "/".join([parts[0], *parts[2:]])
    if asked.verb != "GET":
        return _VERBS[asked.verb], resource
    return ("watch" if asked.watch else "get" if len(parts) > 1 else "list"), resource


@needs_claims
def test_no_unused_right_is_given(cluster: Cluster, plane: ControlPlane) -> None:
    used: set[tuple[str, str]] = set()

    def note(asked: Asked) -> bool:
        if asked.path.startswith(("/api/", "/apis/")):
            used.add(right_of(asked))
        return False

    home = installed(cluster)
    cluster.api.apply(
        *registrations(
            {"url": "https://127.0.0.1:1"},
            scheduler="weir",
            devices=DeviceResources().resources,
            but_not_in=["x"],
        ),
        api_service(home, "weir"),
    )
    cluster.add_nodes(1, gpus=2)
    within = cluster.namespace()
    cluster.api.create({**project("", 0), "kind": "Department", "metadata": {"name": "d"}, "spec": {}})
    cluster.api.create(
        {**project("", 0), "kind": "SchedulerConfig", "metadata": {"name": "weir"}, "spec": {}}
    )
    given = {
        (verb, resource)
        for role in manifests(Installation(home))
        if role["kind"] in ("ClusterRole", "Role") and role["metadata"]["name"] in ("weir", "weir-namespaces")
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
    given.add(("get", "configmaps"))  # by a role of the cluster: who may speak for others
    absent = {watched.resource for watched in load_kinds().watched}

    def unused() -> set[tuple[str, str]]:
        return {each for each in given - used - RARELY if each[1] not in absent or each[0] != "watch"}

    with FaultProxy(plane, user=f"system:serviceaccount:{home}:weir") as proxy:
        proxy.faults = Faults(where=note)
        words = ["--namespace", home, "--service", "weir", "--host", "127.0.0.1"]
        with Weir(plane, proxy.kubeconfig, name="noted", arguments=words):
            cluster.api.create(project("p", 1, [within], department="d"))
            cluster.api.create(job(within, "low", 2))
            cluster.until(lambda: phase(cluster, within, "job-low") == "Running")
            classes = next(
                each for each in manifests(Installation()) if each["metadata"]["name"] == "weir-build"
            )
            assert classes["kind"] == "PriorityClass"
            urgent = job(within, "urgent", 1)
            urgent["spec"]["template"]["spec"]["priorityClassName"] = "weir-build"
            cluster.api.create(urgent)
            cluster.until(lambda: phase(cluster, within, "job-urgent") == "Running")
            cluster.until(lambda: ("patch", "pods/status") in used, "why a pod waits to be on it")
            cluster.api.create(gpu_class(), gpu_slice("claims-1", 1), template(within, "one"))
            cluster.add([node("claims-1", gpus=0)])
            cluster.api.create(claiming(within, "claims", "one"))
            cluster.until(lambda: not unused(), lambda: f"these rights to be used: {unused()}")
    assert unused() == set()
    assert used - given == set()
