"""The optional admission policies, enforced by the real API server: no GPU pod goes past Weir."""

from collections.abc import Callable

import pytest
from tests.kubernetes.claim_objects import needs_claims
from tests.kubernetes.policy_site import FREE, GPUS, START, Site, answer
from tests.properties.budget import EFFORT
from tools.controlplane.api import Api, Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.work import pod

ON_DEMAND = pytest.mark.skipif(EFFORT == 1, reason="Run with WEIR_EFFORT=2 or more.")


def owned_by_daemonset(one: Object) -> Object:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "none", "uid": "none", "controller": True}
    return {**one, "metadata": {**one["metadata"], "ownerReferences": [owner]}}


def ways_around(within: str) -> dict[str, Object]:
    """Return pods that get GPUs past Weir: none of these is refused without the options."""
    shared = {"weir.dev/gpu-fraction": "0.5"}
    container = {"name": "card", "image": "work", "resources": {"limits": {"a.io/card-7": "1"}}}
    return {
        "node": pod(within, "node", 8, nodeName="gpu-0"),
        "shared-node": pod(within, "shared-node", 0, annotations=shared, nodeName="gpu-0"),
        "daemonset": owned_by_daemonset(pod(within, "daemonset", 8, **FREE)),
        "other": pod(within, "other", 8, scheduler="other-scheduler"),
        "default": pod(within, "default", 8, **FREE),
        "card": pod(within, "card", 0, scheduler="other-scheduler", containers=[container]),
        "initial": pod(within, "initial", 0, scheduler="other-scheduler", initContainers=[container]),
    }


def test_without_options_pods_choose_their_node_and_scheduler(
    cluster: Cluster, act_as: Callable[..., Api]
) -> None:
    site = Site(cluster, act_as)
    for name, one in ways_around(site.within).items():
        assert site.refusal(one, dry=True) == "", name


def test_with_the_options_no_gpu_pod_goes_past_weir(cluster: Cluster, act_as: Callable[..., Api]) -> None:
    operator = cluster.namespace()
    site = Site(
        cluster,
        act_as,
        refuse_node_name=True,
        require_scheduler=True,
        daemonset_namespaces=(operator,),
        exempt_namespaces=("gpu-operator",),
    )
    ways = ways_around(site.within)
    forged = owned_by_daemonset(pod(site.within, "forged", 8))
    for name, each in ways.items():
        assert site.refusal(each, dry=True), name
    node = "but a pod that asks for GPUs can't name its node: leave it out, and write a nodeSelector"
    assert f"spec.nodeName is gpu-0, {node}" in site.refusal(ways["node"])
    assert f"spec.nodeName is gpu-0, {node}" in site.refusal(ways["shared-node"])
    written = "but Weir places pods that ask for GPUs: write schedulerName: weir"
    assert site.refusal(ways["other"]) == f"spec.schedulerName is other-scheduler, {written}"
    assert site.refusal(ways["default"]) == f"spec.schedulerName is default-scheduler, {written}"
    reported = f"the namespace {site.within} can't have GPU pods of DaemonSets, only {operator} can"
    assert site.refusal(forged) == f"{reported}: use a Deployment or a Job"

    assert site.refusal(pod(site.within, "good", 8)) == ""
    assert site.refusal(pod(site.within, "plain", 0, nodeName="gpu-0", **FREE)) == ""
    late = {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}
    reported = "a pod that exists can't begin to ask for GPUs this way: make a new pod"
    assert answer(lambda: site.tenant.patch(site.path("plain"), late)) == reported
    assert answer(lambda: site.tenant.patch(site.path("plain", "status"), late)) == reported

    # Pods that Weir placed have a node; their updates pass.
    name = cluster.add_nodes(1)[0]
    site.bind(site.weir, "good", name, {GPUS: "0,1,2,3,4,5,6,7", START: "1"})
    site.tenant.patch(site.path("good"), {"metadata": {"labels": {"team": "x"}}})
    cluster.until(lambda: cluster.api.get(site.path("good"))["status"].get("phase") == "Running")

    site.add_tenant(operator)
    listed = owned_by_daemonset(pod(operator, "listed", 1, **FREE))
    cluster.api.post(f"/api/v1/namespaces/{operator}/pods", listed)
    cluster.namespace("gpu-operator")
    cluster.api.post(
        "/api/v1/namespaces/gpu-operator/pods", pod("gpu-operator", "x", 1, nodeName=name, **FREE)
    )


@needs_claims
def test_with_the_option_for_claims_no_pod_with_a_claim_goes_past_weir(
    cluster: Cluster, act_as: Callable[..., Api]
) -> None:
    operator = cluster.namespace()
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}
    site = Site(
        cluster,
        act_as,
        require_scheduler=True,
        refuse_node_name=True,
        require_scheduler_for_claims=True,
        daemonset_namespaces=(operator,),
    )
    sentence = "but Weir places pods with resource claims: write schedulerName: weir"
    default = pod(site.within, "default", 0, **FREE, **claims)
    assert site.refusal(default) == f"spec.schedulerName is default-scheduler, {sentence}"
    other = pod(site.within, "other", 0, scheduler="other-scheduler", nodeName="gpu-0", **claims)
    assert site.refusal(other) == f"spec.schedulerName is other-scheduler, {sentence}"
    daemon = owned_by_daemonset(pod(site.within, "daemon", 0, **FREE, **claims))
    assert site.refusal(daemon, dry=True)
    site.add_tenant(operator)
    listed = owned_by_daemonset(pod(operator, "listed", 0, **FREE, **claims))
    cluster.api.post(f"/api/v1/namespaces/{operator}/pods", listed)
    assert site.refusal(pod(site.within, "good", 0, **claims)) == ""
    assert site.refusal(pod(site.within, "plain", 0, **FREE)) == ""
    system = pod("kube-system", "exempt", 0, **FREE, **claims)
    cluster.api.post("/api/v1/namespaces/kube-system/pods?dryRun=All", system)


@ON_DEMAND
def test_a_kubelet_reports_static_pods_with_gpus(cluster: Cluster, act_as: Callable[..., Api]) -> None:
    site = Site(cluster, act_as, refuse_node_name=True, require_scheduler=True)
    named = pod(site.within, "static", 1, nodeName="gpu-0", **FREE)
    assert site.refusal(named, dry=True)
    kubelet = act_as("system:node:gpu-0", "system:nodes", "system:masters")
    path = f"/api/v1/namespaces/{site.within}/pods?dryRun=All"
    assert answer(lambda: kubelet.post(path, named)) == ""


def test_the_api_server_finds_no_fault_with_any_expression(
    cluster: Cluster, act_as: Callable[..., Api]
) -> None:
    Site(
        cluster,
        act_as,
        refuse_node_name=True,
        require_scheduler=True,
        daemonset_namespaces=("a", "b"),
        require_scheduler_for_claims=True,
    )

    def checked() -> list[Object]:
        found = cluster.api.items("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies")
        return found if all("typeChecking" in each.get("status", {}) for each in found) else []

    found = cluster.until(checked, "the types to be checked")
    assert len(found) >= 12
    assert [each["status"]["typeChecking"] for each in found] == [{}] * len(found)
