"""The aggregated API on the real API server: who sees what, and who isn't believed."""

import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kubernetes.test_installed import bound
from tools.controlplane.api import ApiError, Object
from tools.controlplane.certificates import Authority, Pair
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.queries import wait_for_queries, withdraw
from tools.controlplane.weir import project
from tools.controlplane.work import job

ROOT = "/apis/query.weir.dev/v1"
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    with Installed(plane, namespace=cluster.namespace(), name="queried", webhooks=False) as running:
        wait_for_queries(cluster.api)
        try:
            yield running
        finally:
            withdraw(cluster.api)
        assert "forbidden" not in running.log_text().lower()


def viewer(namespace: str, user: str) -> Object:
    """Return the binding of Weir's role for viewers in one namespace."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"view-{user}", "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "weir-view"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }


def why_of(cluster: Cluster, path: str) -> str:
    """Return the code of the reason of a workload; empty without one."""
    return str(((cluster.api.maybe(path) or {}).get("reason") or {}).get("why", ""))


def teams(cluster: Cluster) -> tuple[str, str]:
    """Create two teams with a node of two GPUs, work that runs in both, and work that waits in both."""
    cluster.add_nodes(1, gpus=2)
    a, b = cluster.namespace(), cluster.namespace()
    cluster.api.create(project("team-a", 1, [a]), project("team-b", 1, [b]))
    for within in (a, b):
        cluster.api.create(job(within, "runs", 1))
        cluster.until(lambda w=within: len(cluster.running(w)) == 1, "a pod to run in each namespace")
    for within in (a, b):  # after those, so that none borrows and is evicted
        cluster.api.create(job(within, "waits", 1))
    for within in (a, b):
        path = f"{ROOT}/namespaces/{within}/workloads"
        cluster.until(
            lambda p=path: why_of(cluster, f"{p}/job-waits") == "insufficient_capacity",
            "why a workload waits",
        )
        cluster.until(lambda p=path: statuses(cluster, p) == ["pending", "running"], "both to be listed")
        cluster.until(lambda p=path: cluster.api.get(f"{p}/job-waits/why")["queues"], "its queues")
    return a, b


def statuses(cluster: Cluster, path: str) -> list[str]:
    return sorted(row["status"] for row in cluster.api.get(path)["items"])


def test_a_person_with_rights_on_one_namespace_sees_that_namespace_and_no_other(
    weir: Installed, cluster: Cluster, plane: ControlPlane
) -> None:
    a, b = teams(cluster)
    cluster.api.apply(viewer(a, "ann"), bound("weir-view", "eve"))
    wait_for_rights(cluster.api)
    ann, eve = (plane.kubeconfig_for(user) for user in ("ann", "eve"))

    def raw(path: str, kubeconfig: Path) -> str:
        try:
            return plane.kubectl("get", "--raw", f"{ROOT}/{path}", kubeconfig=kubeconfig)
        except RuntimeError as error:
            return str(error)

    listed = json.loads(raw(f"namespaces/{a}/workloads", ann))
    assert {row["name"] for row in listed["items"]} == {f"{a}/job-runs", f"{a}/job-waits"}
    path = f"namespaces/{a}/workloads/waits/why"
    own = raw(path, ann)
    assert json.loads(own)["reason"]["why"] == "insufficient_capacity"
    assert [row["name"] for row in json.loads(own)["queues"]] == ["team-a"]
    assert (json.loads(own)["suggestions"], json.loads(own)["withheld"]) == ([], True)
    assert b not in own, own
    detail = json.loads(raw(f"namespaces/{a}/workloads/runs", ann))
    assert [row["status"] for row in detail["pod_rows"]] == ["running"]
    assert b not in json.dumps(detail)
    assert b not in raw(f"namespaces/{a}/events", ann)
    assert "scheduled" in raw(f"namespaces/{a}/events", ann)
    for path in ("workloads", "events", "nodes", "pools/cluster", "pools/cluster/snapshot"):
        assert "forbidden" in raw(path, ann), path
        assert "forbidden" not in raw(path, eve), path
    for path in ("workloads", "events", "workloads/job-runs", "workloads/job-waits/why"):
        assert "forbidden" in raw(f"namespaces/{b}/{path}", ann), path
    assert "all of them" in raw(f"namespaces/{a}/workloads/job-waits/decision", ann)
    assert {row["name"] for row in json.loads(raw("workloads", eve))["items"]} > {f"{b}/job-waits"}
    assert "fitting" in raw(f"namespaces/{b}/workloads/job-runs/decision", eve)
    everything = cluster.until(
        lambda: json.loads(raw(f"namespaces/{b}/workloads/waits/why?wait=10", eve))["suggestions"]
    )
    assert any("/job-runs" in each["sentence"] for each in everything), everything


def test_kubectl_discovers_the_api(weir: Installed, cluster: Cluster, plane: ControlPlane) -> None:
    a, _ = teams(cluster)
    named = plane.kubectl("api-resources", "--api-group=query.weir.dev", "-o", "name").split()
    assert set(named) == {
        f"{each}.query.weir.dev" for each in ("workloads", "events", "reports", "nodes", "pools")
    }
    rows = plane.kubectl("get", "workloads.query.weir.dev", "-n", a).splitlines()
    assert {row.split()[0] for row in rows[1:]} == {"job-runs", "job-waits"}
    assert "job-runs" in plane.kubectl("get", "workloads.query.weir.dev", "job-runs", "-n", a)
    assert "RUNNING" in plane.kubectl("get", "workloads", "-n", a), "the kind of Weir comes first"
    for path, status in (("nosuch", 404), (f"namespaces/{a}/workloads/nosuch", 404)):
        with pytest.raises(ApiError) as refused:
            cluster.api.get(f"{ROOT}/{path}")
        assert refused.value.code == status
    command = ("get", "workloads.query.weir.dev", "-n", a, "-o", "name")
    assert len(plane.kubectl(*command, "--chunk-size=1").split()) == 2, "kubectl asks for all pages"
    with pytest.raises(RuntimeError, match="no selectors"):
        plane.kubectl(*command, "--selector=team=x")
    with pytest.raises(ApiError, match="for reading alone"):
        cluster.api.post(f"{ROOT}/namespaces/{a}/workloads", {})


def test_headers_without_the_certificate_of_the_front_proxy_are_not_believed(
    weir: Installed, plane: ControlPlane, tmp_path: Path
) -> None:
    """Neither without a certificate, nor with one of the cluster's users, another authority, or another name."""
    forged = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    others = Authority(tmp_path / "others")
    callers: list[tuple[Callable[[], Pair | None], int]] = [  # a pair replaces the API server's of that name
        (lambda: None, 401),
        (lambda: plane.admin, 0),
        (lambda: others.client("front-proxy-client"), 0),
        (lambda: plane.front_proxy.client("somebody"), 401),
        (lambda: plane.front_proxy.server("impostor"), 0),
        (lambda: plane.front_proxy.client("front-proxy-client"), 200),
    ]
    for number, (pair, status) in enumerate(callers):
        assert answer(weir.port, pair(), forged) == status, number
    assert answer(weir.port, plane.front_proxy.client("front-proxy-client"), {}) == 401


def test_a_deleted_namespace_of_weir_takes_the_api_with_it(cluster: Cluster, plane: ControlPlane) -> None:
    """Else no namespace of the cluster could end any more."""
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.query.weir.dev"
    home = cluster.namespace()
    with Installed(plane, namespace=home, name="withdrawn", webhooks=False):
        wait_for_queries(cluster.api)
        cluster.api.delete(f"/api/v1/namespaces/{home}")
        cluster.until(lambda: cluster.api.maybe(path) is None, "the APIService to go")


def answer(port: int, pair: Pair | None, headers: dict[str, str]) -> int:
    """Return the status of a request straight to Weir's port; 0 if the connection is refused."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=context)
    try:
        connection.request("GET", f"{ROOT}/workloads", headers=headers)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()
