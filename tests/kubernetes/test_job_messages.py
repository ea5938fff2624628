"""Messages of pods about themselves on the real API server, with tokens that it binds to the pods."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.kubernetes.dashboard_site import DashboardProcess, SignedIn
from tests.kubernetes.test_dashboard import browser, go, opened
from tests.kubernetes.test_query_api import ROOT, viewer, weir
from tools.controlplane.api import Api, ApiError, Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import job

from weir.client.cluster_messages import ClusterMessages

__all__ = ["browser", "weir"]


def token_of(cluster: Cluster, pod: Object) -> str:
    """Return a token of the pod's service account that is bound to the pod, as the kubelet asks for it."""
    meta = pod["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
    path = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/trainer/token"
    spec = {"boundObjectRef": bound, "expirationSeconds": 3600}
    made = cluster.api.post(
        path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    )
    return str(made["status"]["token"])


def running(cluster: Cluster, namespace: str, name: str) -> Object:
    """Create a Job, and return its pod once the pod runs."""
    made = job(namespace, name, 1)
    made["spec"]["template"]["spec"]["serviceAccountName"] = "trainer"
    cluster.api.create(made)

    def found() -> list[Object]:
        pods = cluster.api.items(f"/api/v1/namespaces/{namespace}/pods")
        return [
            pod
            for pod in pods
            if pod["metadata"]["labels"].get("job-name") == name and pod["status"].get("phase") == "Running"
        ]

    (pod,) = cluster.until(found, "the pod to run")
    pod["metadata"]["namespace"] = namespace
    return pod


def refused(api: Api, path: str, body: Object) -> int:
    with pytest.raises(ApiError) as error:
        api.post(path, body)
    return error.value.code


def test_pod_reports_on_itself_and_on_no_other_and_the_page_draws_its_curves(
    weir: Installed, cluster: Cluster, plane: ControlPlane, browser: Any, tmp_path: Path
) -> None:
    cluster.add_nodes(1, gpus=4)
    a, b = cluster.namespace(), cluster.namespace()
    cluster.api.create(project("team-a", 2, [a]), project("team-b", 2, [b]))
    for namespace in (a, b):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}
        account["metadata"]["namespace"] = namespace  # type: ignore[index]
        cluster.api.create(account)
    own, sibling, other = running(cluster, a, "own"), running(cluster, a, "sibling"), running(cluster, b, "x")

    (tmp_path / "token").write_text(token_of(cluster, own))
    (tmp_path / "ca.crt").write_bytes(plane.authority.certificate.read_bytes())
    address = urlsplit(plane.url)
    variables = {
        "KUBERNETES_SERVICE_HOST": str(address.hostname),
        "KUBERNETES_SERVICE_PORT": str(address.port),
    }
    messages = ClusterMessages(variables, str(tmp_path))
    messages.checkpointed()
    messages.busy(3600.0, "indexing")
    messages.report(7, {"progress": 0.25, "loss": 1.5})
    messages.flush(30.0)

    detail = cluster.until(
        lambda: (
            found
            if (found := cluster.api.maybe(f"{ROOT}/namespaces/{a}/workloads/own"))
            and found["step"] is not None
            else None
        ),
        "the report to be shown",
    )
    assert (detail["step"], detail["progress"]) == (7, 0.25)
    assert detail["reported"] == {"progress": 0.25, "loss": 1.5}
    status = cluster.api.get(f"/apis/weir.dev/v1alpha1/namespaces/{a}/workloads/job-own")["status"]
    assert status["report"]["busyWhy"] == "indexing"
    assert detail["checkpointed_s"] is not None

    def path(pod: Object) -> str:
        meta = pod["metadata"]
        return f"{ROOT}/namespaces/{meta['namespace']}/pods/{meta['name']}/messages"

    api = Api(plane.url, plane.authority.certificate, token_of(cluster, own))
    message = {"report": {"values": {"progress": 0.9}}}
    try:
        assert refused(api, path(sibling), message) == 403
        assert refused(api, path(other), message) == 403
        assert refused(cluster.api, path(own), message) == 403, "an administrator is no pod"
        assert refused(api, path(own), {"report": {"values": {"progress": "x"}}}) == 400
        assert refused(api, path(own), {"report": {"values": {"x" * 65: 1}}}) == 400
        assert refused(api, path(own), {"busy": {"ageSeconds": -1, "forSeconds": 5}}) == 400
        assert refused(api, path(own), {"report": {"values": {"a": 1}}, "pad": "x" * (64 << 10)}) == 413
        with pytest.raises(ApiError) as error:
            api.get(f"{ROOT}/namespaces/{a}/workloads")
        assert error.value.code == 403, "the right to send gives no right to read"
        with pytest.raises(ApiError) as error:
            api.get(f"{ROOT}/namespaces/{a}/workloads/own/series")
        assert error.value.code == 403
        api.post(path(own), {"report": {"step": 8, "values": {"loss": 0.75}}})
    finally:
        api.close()
    draws_curves(cluster, plane, browser, a)
    untouched = cluster.api.get(f"{ROOT}/namespaces/{a}/workloads/sibling")
    assert (untouched["step"], untouched["progress"]) == (None, None)


def draws_curves(cluster: Cluster, plane: ControlPlane, browser: Any, namespace: str) -> None:
    """Assert that people with the right to a namespace see the curves of its workload, and others don't."""
    path = f"{ROOT}/namespaces/{namespace}/workloads/own/series"

    def points() -> dict[str, list[float]]:
        answer = cluster.api.get(path)
        return {each["name"]: [value for _, value in each["points"]] for each in answer["series"]}

    cluster.until(lambda: len(points().get("loss", ())) == 2, "the points of both messages")
    assert points() == {"progress": [0.25], "loss": [1.5, 0.75]}, "each value at its own times"
    cluster.api.create(viewer(namespace, "ann"))
    wait_for_rights(cluster.api)
    config = plane.kubeconfig_for("ann")
    plane.kubectl("config", "set-context", "--current", f"--namespace={namespace}", kubeconfig=config)
    wrong: list[str] = []
    with DashboardProcess(config) as served:
        page = opened(browser, served, wrong)
        number = cluster.api.get(f"{ROOT}/namespaces/{namespace}/workloads/own")["uid"]
        go(page, served, f"workload/{number}")
        curves = page.get_by_role("region", name="Curves").locator("figcaption")
        curves.get_by_text("loss").wait_for()
        curves.get_by_text("progress").wait_for()
    with DashboardProcess(config) as served, SignedIn(served) as ann:
        answer = ann.client.get("/api/v1/workloads/default%2Fjob-own/series")
        assert answer.status_code == 403, "of other namespaces she sees nothing"
    assert not wrong
