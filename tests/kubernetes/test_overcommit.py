"""More devices in use than a node has: told to people without cutting any number, and healed by stopping loans."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kubernetes.test_cli import Run, run
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import pod

from weir.kubernetes.install.pods.deployment import PodOptions

__all__ = ["run"]
THEIRS: dict[str, Any] = {"scheduler": "another-scheduler"}
FIXED = {"weir.dev/preemptible": "false"}


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    home = cluster.namespace()
    monkeypatch.setenv("WEIR_NAMESPACE", home)
    with Installed(
        plane, namespace=home, name="overcommit", pods=PodOptions(overcommit_grace="2s")
    ) as running:
        running.wait_ready()
        yield running
        assert "forbidden" not in running.log_text().lower()


def workload(cluster: Cluster, within: str, name: str) -> dict[str, Any]:
    path = f"/apis/weir.dev/v1alpha1/namespaces/{within}/workloads/pod-{name}"
    return (cluster.api.maybe(path) or {}).get("status", {})


def condition(cluster: Cluster, within: str, name: str) -> str:
    found = workload(cluster, within, name).get("conditions") or []
    return "".join(each["message"] for each in found if each["type"] == "GPUOvercommitted")


def events(cluster: Cluster, reason: str, namespace: str = "default") -> list[str]:
    found = cluster.api.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return [each["note"] for each in found if each["reason"] == reason]


def answered(run: Run, *words: str) -> Any:
    code, out, err = run(*words, "-o", "json")
    assert code == 0, err
    return json.loads(out)


def node_in_states(cluster: Cluster, run: Run, *states: str) -> Any:
    """Wait until the only node is in these states, and return its row."""
    rows: list[Any] = []

    def is_there() -> bool:
        rows[:] = answered(run, "nodes")
        return [row["state"] for row in rows] == [[*states]]

    cluster.until(is_there, lambda: f"{states}, not {rows}")
    return rows[0]


def in_use(node: str, total: int, of: int, own: int, others: int) -> str:
    by = f"{own} by Weir's workloads, {others} by pods of other schedulers"
    return f"{total} of {of} GPUs of node {node} are in use: {by}"


def test_an_overcommitted_node_is_reported_and_healed(weir: Installed, cluster: Cluster, run: Run) -> None:
    (node,) = cluster.add_nodes(1, gpus=8)
    a, b, other = (cluster.namespace() for _ in range(3))
    weir.create_queues(project("a", 2, [a]), project("b", 0, [b]))
    cluster.api.create(pod(a, "fixed", 2, annotations=FIXED))
    cluster.until(lambda: cluster.running(a), "it to run")
    cluster.api.create(
        pod(other, "six", 6, nodeName=node, **THEIRS), pod(other, "one", 1, nodeName=node, **THEIRS)
    )
    reported = in_use(node, 9, 8, 2, 7)
    cluster.until(lambda: condition(cluster, a, "fixed") == f"{reported}.", "a condition")
    cluster.until(lambda: events(cluster, "GPUOvercommitStays"), "an event that nothing may be stopped")
    assert set(cluster.running(a)) == {"fixed"}
    row = node_in_states(cluster, run, "overcommitted by 1")
    assert (row["allocated"]["gpu"], row["capacity"]["gpu"], row["others"]) == (9, 8, 7)
    assert len(row["devices"]) == 8
    status = answered(run, "status")
    assert (status["allocated"], status["devices"], status["others"]) == (9, 8, 7)
    assert "9 of 8" in run("nodes")[1]

    for name in ("six", "one"):
        cluster.api.delete(f"/api/v1/namespaces/{other}/pods/{name}", grace_s=0)
    cluster.until(lambda: not condition(cluster, a, "fixed"), "the condition to go")
    cluster.api.create(pod(b, "loan", 3))
    cluster.until(lambda: cluster.running(b), "a loan to run")
    cluster.api.create(pod(other, "back", 6, nodeName=node, **THEIRS))
    cluster.until(lambda: not cluster.running(b), "the loan to be stopped")
    reported = in_use(node, 11, 8, 5, 6)
    cluster.until(lambda: f"{reported} ({other}/back)." in events(cluster, "GPUOvercommitted"), "its event")
    cluster.until(lambda: f"{reported}." in events(cluster, "Preempted", b), "the event of the loan")
    assert set(cluster.running(a)) == {"fixed"}

    cluster.api.patch(f"/api/v1/nodes/{node}/status", {"status": {"allocatable": {"nvidia.com/gpu": "7"}}})
    cluster.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    reported = in_use(node, 8, 7, 2, 6)
    cluster.until(lambda: condition(cluster, a, "fixed") == f"{reported}.", "a condition again")
    row = node_in_states(cluster, run, "overcommitted by 1", "cordoned")
    assert (row["allocated"]["gpu"], len(row["devices"])) == (8, 7)
