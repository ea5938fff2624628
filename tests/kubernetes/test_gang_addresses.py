"""Ranks and addresses of a gang's pods, against the API server and the controllers of Jobs and Services."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.command_line import Run, answering, runner
from tests.kubernetes.test_installed import installed_without_policies
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project

INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
JOBS = "/apis/batch/v1/namespaces/team-a/jobs"
SERVICES = "/api/v1/namespaces/team-a/services"
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def run(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(plane, monkeypatch, capsys)


@pytest.fixture
def team(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Two nodes of two GPUs, a project, and a Weir that answers."""
    home = installed_without_policies(cluster)
    monkeypatch.setenv("WEIR_NAMESPACE", home)
    cluster.add_nodes(2, gpus=2)
    cluster.namespace("team-a")
    cluster.api.create(project("team-a", 4))
    with answering(cluster, home):
        yield cluster


def words(name: str, *options: str) -> tuple[str, ...]:
    fixed = ("-p", "team-a", "--gpus", "1", "--image", "busybox", "--name", name)
    return ("submit", *fixed, "--workers", "3", *options, "--", "sleep", "3600")


def variables(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    return {
        each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in container.get("env", ())
    }


def kubeconfig_of_ann(team: Cluster, plane: ControlPlane) -> Path:
    """Return the kubeconfig of a person who may change Jobs of the namespace, and no Services."""
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "create", "patch"]},
        {"apiGroups": ["weir.dev"], "resources": ["projects"], "verbs": ["get", "list"]},
        {"apiGroups": ["query.weir.dev"], "resources": ["*"], "verbs": ["get", "list"]},
    ]
    role = {"kind": "ClusterRole", "name": "jobs-alone"}
    team.api.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role["name"]},
            "rules": rules,
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role["name"]},
            "roleRef": {"apiGroup": RBAC, **role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "ann"}],
        },
    )
    wait_for_rights(team.api)
    return plane.kubeconfig_for("ann")


def test_each_pod_of_a_gang_has_its_rank_and_an_address_until_the_job_is_gone(
    run: Run, team: Cluster
) -> None:
    code, _, err = run(*words("train"))
    assert (code, "warning" in err) == (0, False), err
    team.until(lambda: len(running(team)) == 3, "the gang to run")
    (service,) = team.api.items(SERVICES)
    subdomain = service["metadata"]["name"]
    pods = {pod["spec"]["hostname"]: pod for pod in running(team)}
    for index in range(3):
        pod = pods[f"train-{index}"]
        assert pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == str(index)
        assert pod["spec"]["subdomain"] == subdomain
        found = variables(pod)
        assert (found["RANK"], found["WORLD_SIZE"]) == (INDEX, "3")
        assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == (f"train-0.{subdomain}", "29500")
        ((label, job),) = service["spec"]["selector"].items()
        assert pod["metadata"]["labels"][label] == job == "train", "the Service finds the pod"
    spec = team.api.get(f"{JOBS}/train")["spec"]
    assert (spec["completionMode"], spec["suspend"]) == ("Indexed", False)
    assert service["spec"]["clusterIP"] == "None"
    lost = pods["train-1"]["metadata"]
    team.api.delete(f"/api/v1/namespaces/team-a/pods/{lost['name']}", grace_s=0)

    def is_replaced() -> bool:
        names = {pod["spec"]["hostname"]: pod["metadata"]["uid"] for pod in running(team)}
        return len(names) == 3 and names["train-1"] != lost["uid"]

    team.until(is_replaced, "another pod of the same name")
    code, _, err = run("stop", "team-a/job-train")
    assert code == 0, err
    team.until(lambda: not team.api.items(SERVICES), "the Service to go with its Job")


def test_a_person_without_rights_on_services_submits_a_gang(
    run: Run, team: Cluster, plane: ControlPlane
) -> None:
    code, out, err = run(*words("plain"), kubeconfig=kubeconfig_of_ann(team, plane))
    assert (code, out) == (0, "team-a/job-plain\n"), err
    assert "you lack the right `create` on `services` in the namespace team-a." in err
    team.until(lambda: len(running(team)) == 3, "the gang to run")
    for pod in running(team):
        assert "subdomain" not in pod["spec"]
        assert variables(pod).keys() == {"JOB_COMPLETION_INDEX"}, "that of the Job's controller alone"
    assert not team.api.items(SERVICES)


def test_a_gang_runs_without_a_service_that_a_quota_refuses(run: Run, team: Cluster) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "team-a"}}
    team.api.create({**quota, "spec": {"hard": {"count/services": "0"}}})
    team.until(lambda: _is_refused(team), "the quota to be enforced")
    code, _, err = run(*words("short"))
    assert (code, "the API server refuses their Service: " in err, "exceeded quota" in err) == (0, True, True)
    team.until(lambda: len(running(team)) == 3, "the gang to run")
    assert not team.api.items(SERVICES)


def _is_refused(team: Cluster) -> bool:
    """Return True if the API server refuses any Service."""
    spec = {"clusterIP": "None"}
    try:
        team.api.post(f"{SERVICES}?dryRun=All", {"metadata": {"name": "tried"}, "spec": spec})
    except ApiError as why:
        return "exceeded quota" in why.message
    return False


def running(team: Cluster) -> list[dict[str, Any]]:
    return [pod for pod in team.pods("team-a") if (pod.get("status") or {}).get("phase") == "Running"]
