"""GPU pods of namespaces without a project, with the webhooks on and with Weir away."""

from collections.abc import Iterator

import pytest
from tools.controlplane.api import ApiError, Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import pod

from weir.kubernetes.crd.without_project import WithoutProject
from weir.kubernetes.install.policies.admission_policies import OptionalPolicies

RULE = WithoutProject("queue", "shared", (("tier", "research"),))


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane) -> Iterator[Weir]:
    options = OptionalPolicies(without_project=RULE)
    home = cluster.namespace()
    with Installed(plane, namespace=home, name="without-project", optional=options) as running:
        running.wait_ready()
        yield running


def refusal(cluster: Cluster, one: Object) -> str:
    try:
        cluster.api.create(one)
    except ApiError as why:
        return why.message
    return ""


def test_pods_without_a_project_are_queued_and_get_past_weir_neither_up_nor_down(
    weir: Weir, cluster: Cluster
) -> None:
    cluster.add_nodes(1, gpus=4)
    research, free = cluster.namespace(labels={"tier": "research"}), cluster.namespace()
    cluster.api.create(project("shared", 4, ["nobody"]))

    def own(within: str, name: str, gpus: int = 1) -> Object:
        return pod(within, name, gpus, scheduler="default-scheduler")

    reported = f"add the namespace {research} to spec.namespaces of one"

    def is_queued() -> bool:
        why = refusal(cluster, own(research, "queued"))
        assert not why or reported in why
        if why:  # by the policy, which knows the labels before the webhook
            return False
        (made,) = cluster.pods(research)
        if made["spec"]["schedulerName"] == "weir":
            return True
        cluster.api.delete(f"/api/v1/namespaces/{research}/pods/queued", grace_s=0)
        return False

    cluster.until(is_queued, "the webhook to know the labels of the namespace")
    cluster.until(lambda: "queued" in cluster.running(research), "it to run for the default project")
    assert refusal(cluster, own(free, "free")) == ""
    assert cluster.pods(free)[0]["spec"]["schedulerName"] == "default-scheduler"

    weir.kill()
    assert reported in refusal(cluster, own(research, "late"))
    assert refusal(cluster, own(research, "no-gpus", 0)) == ""
    assert refusal(cluster, pod(research, "waits", 1)) == ""
    assert refusal(cluster, own(free, "free-too")) == ""
