"""PodDisruptionBudgets and the eviction API of a real control plane: who is evicted, and what the rest says."""

from collections.abc import Iterator

import pytest
from tests.kubernetes.constraints import scheduling
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import job, pod_spec

PREEMPTIBLE = {"weir.dev/preemptible": "true"}
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-budgets") as running:
        yield running


class Teams:
    """Six nodes full of Deployments of one team, of which two thirds are borrowed, and the owner of the rest."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        cluster.add_nodes(6, gpus=8)
        self.borrower, self.owner = cluster.namespace(), cluster.namespace()
        for team in (self.borrower, self.owner):
            cluster.api.create(project(team, 16))
        for at in range(6):
            cluster.api.create(deployment(self.borrower, f"e{at}", 8))
        cluster.until(lambda: len(cluster.running(self.borrower)) == 6, "six Deployments to run")

    def protect(self, name: str) -> None:
        """Create a budget that allows no eviction of a Deployment."""
        self.cluster.api.post(BUDGETS.format(self.borrower), budget(name, app=name))

    def protected(self, *names: str) -> bool:
        """Return True if the controller has counted the pods of these budgets."""
        found = self.cluster.api.items(BUDGETS.format(self.borrower))
        healthy = {each["metadata"]["name"]: each["status"].get("currentHealthy") for each in found}
        return all(healthy.get(name) == 1 for name in names)

    def runs(self, team: str, name: str) -> bool:
        """Return True if a pod of this owner runs."""
        return any(pod.startswith(f"{name}-") for pod in self.cluster.running(team))

    def reason_of(self, team: str, name: str) -> str:
        """Return why a workload waits."""
        path = f"/apis/weir.dev/v1alpha1/namespaces/{team}/workloads/{name}"
        reason = (self.cluster.api.maybe(path) or {}).get("status", {}).get("reason") or {}
        return str(reason.get("sentence", ""))


def deployment(namespace: str, name: str, gpus: int) -> Object:
    spec = pod_spec(gpus, grace_s=1)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "annotations": PREEMPTIBLE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": PREEMPTIBLE},
                "spec": {**spec, "restartPolicy": "Always"},
            },
        },
    }


def budget(name: str, **labels: str) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": labels}},
    }


def test_owner_gets_back_what_was_borrowed_before_its_budget_was_written(
    cluster: Cluster, weir: Weir
) -> None:
    """Under the default rule after its grace period, and under `override`."""
    teams = Teams(cluster)
    config = {"apiVersion": "weir.dev/v1alpha1", "kind": "SchedulerConfig", "metadata": {"name": "weir"}}
    cluster.api.create({**config, "spec": {"policy": {"budgets": {"grace": "3s"}}}})
    names = [f"e{at}" for at in range(6)]
    for name in names:
        teams.protect(name)
    cluster.until(lambda: teams.protected(*names), "the budgets to be counted")
    cluster.api.create(job(teams.owner, "back", 8))
    cluster.until(lambda: teams.runs(teams.owner, "back"), "the owner to have a node back")

    rules = {"policy": {"budgets": {"borrowed": "override", "grace": "3s"}}}
    cluster.api.patch("/apis/weir.dev/v1alpha1/schedulerconfigs/weir", {"spec": rules})
    cluster.api.create(job(teams.owner, "more", 8))
    cluster.until(lambda: teams.runs(teams.owner, "more"), "the owner to have its quota")
    assert len(cluster.running(teams.borrower)) == 4


def test_owner_gets_what_no_budget_protects_and_a_reason_for_the_rest(cluster: Cluster, weir: Weir) -> None:
    teams = Teams(cluster)
    protected = [f"e{at}" for at in range(1, 6)]
    for name in protected:
        teams.protect(name)
    cluster.until(lambda: teams.protected(*protected), "the budgets to be counted")
    cluster.api.create(job(teams.owner, "back", 8))
    cluster.until(lambda: teams.runs(teams.owner, "back"), "the owner to run")
    assert not teams.runs(teams.borrower, "e0")
    assert all(teams.runs(teams.borrower, name) for name in protected)

    cluster.api.create(job(teams.owner, "more", 8))
    words = "GPUs are held by workloads that PodDisruptionBudgets"
    cluster.until(lambda: words in teams.reason_of(teams.owner, "job-more"), "a reason that names budgets")
    assert f"{teams.borrower}/e" in teams.reason_of(teams.owner, "job-more")
    assert all(teams.runs(teams.borrower, name) for name in protected)

    cluster.api.delete(f"{BUDGETS.format(teams.borrower)}/e3")
    cluster.until(lambda: teams.runs(teams.owner, "more"), "the owner to run once a budget is gone")
    assert all(teams.runs(teams.borrower, name) for name in protected if name != "e3")
    weir.check()


def test_work_that_no_budget_lets_go_does_not_borrow(cluster: Cluster, weir: Weir) -> None:
    cluster.add_nodes(1, gpus=8)
    team = cluster.namespace()
    cluster.api.create(project(team, 0))
    cluster.api.post(BUDGETS.format(team), budget("never", app="kept"))
    path = f"/apis/weir.dev/v1alpha1/namespaces/{team}/workloads/deployment-kept"

    def answer() -> str:
        reason = (cluster.api.maybe(path) or {}).get("status", {}).get("reason") or {}
        return str(reason.get("sentence", ""))

    cluster.api.create(deployment(team, "kept", 8))
    words = f"PodDisruptionBudget {team}/never protects it from eviction, so it may not go over quota"
    cluster.until(lambda: words in answer(), "the reason to name the budget")
    assert not cluster.running(team)
    cluster.api.delete(f"{BUDGETS.format(team)}/never")
    cluster.until(lambda: cluster.running(team), "it to borrow once the budget is gone")
    weir.check()
