"""Shares of GPUs beside whole ones, with webhooks, policies and the stock kube-scheduler."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tools.controlplane.api import STRATEGIC, ApiError, Object, collection
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import pod

from weir.kubernetes.crd.shared_nodes_spec import NAME as SHARED_NODES

SHARING = "weir.dev/gpu-sharing"
LIMITS = "weir.dev/gpu-memory-limits"
LIMIT_KEY = "weir.dev/gpu-memory-limit"
HALF = {"weir.dev/gpu-fraction": "0.5"}
PLAIN: dict[str, Any] = {"scheduler": "default-scheduler"}
EVERYTHING = [{"operator": "Exists"}]
ELSEWHERE = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": SHARING, "operator": "DoesNotExist"}]}]
        }
    }
}


VARIABLES = {
    "NVIDIA_VISIBLE_DEVICES": "weir.dev/gpus",
    "NVIDIA_GPU_MEMORY_REQUEST": "weir.dev/gpu-memory-limit",
    "NVIDIA_GPU_MEMORY_LIMIT": "weir.dev/gpu-memory-limit",
}
"""Variables of a share, each with its annotation."""


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    plane.start_scheduler()
    try:
        with Installed(plane, namespace=cluster.namespace(), name="sharing") as running:
            running.wait_ready()
            yield running
            assert "forbidden" not in running.log_text().lower()
    finally:
        plane.kill("kube-scheduler")


def label(cluster: Cluster, node: str, value: str | None) -> None:
    cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {SHARING: value}}})


def taints(cluster: Cluster, node: str) -> list[str]:
    return [each["key"] for each in cluster.api.get(f"/api/v1/nodes/{node}")["spec"].get("taints", [])]


def states(cluster: Cluster, node: str) -> list[str]:
    """Return the states of a node as Weir knows them; none while it doesn't answer."""
    with suppress(ApiError):
        rows = cluster.api.get("/apis/query.weir.dev/v1/nodes")["items"]
        return [state for row in rows if row["name"] == node for state in row["state"]]
    return []


def refusal(cluster: Cluster, one: Object) -> str:
    try:
        cluster.api.post(f"/api/v1/namespaces/{one['metadata']['namespace']}/pods?dryRun=All", one)
    except ApiError as why:
        return why.message
    return ""


def sentence(cluster: Cluster, within: str, name: str) -> str:
    path = f"/apis/weir.dev/v1alpha1/namespaces/{within}/workloads/pod-{name}"
    return str((cluster.api.maybe(path) or {}).get("status", {}).get("reason") or "")


def mutated(cluster: Cluster, share: Object) -> None:
    """Create a pod once Weir's webhook is called for it, which the API server does without if it is late."""
    pods = f"/api/v1/namespaces/{share['metadata']['namespace']}/pods"

    def is_weirs() -> bool:
        if cluster.api.post(pods, share)["spec"]["schedulerName"] == "weir":
            return True
        path = f"{pods}/{share['metadata']['name']}"
        cluster.api.delete(path, grace_s=0)
        cluster.until(lambda: cluster.api.maybe(path) is None, "the pod of another scheduler to be gone")
        return False

    cluster.until(is_weirs, "the webhook to be called")


def variables(of: Object) -> dict[str, str]:
    """Return the variables of a pod's container that read an annotation, each with the annotation."""
    entries = of["spec"]["containers"][0]["env"]
    paths = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in entries}
    return {
        name: path.removeprefix("metadata.annotations['").removesuffix("']") for name, path in paths.items()
    }


def isolation(cluster: Cluster, within: str, name: str) -> str | None:
    path = f"/apis/weir.dev/v1alpha1/namespaces/{within}/workloads/pod-{name}"
    stated: str | None = (cluster.api.maybe(path) or {}).get("status", {}).get("gpuMemoryIsolation")
    return stated


def test_share_is_enforced_where_the_node_limits_memory(weir: Installed, cluster: Cluster) -> None:
    (node,) = cluster.add_nodes(1, gpus=2)
    labels = {SHARING: "true", "nvidia.com/gpu.memory": "81920", LIMITS: "true"}
    cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
    team = cluster.namespace()
    weir.create_queues(project("vision", 4, [team]))
    mutated(cluster, pod(team, "half", 0, annotations=HALF, **PLAIN))
    mutated(cluster, pod(team, "bytes", 0, annotations={"weir.dev/gpu-memory": "8Gi"}, **PLAIN))
    cluster.until(lambda: len(cluster.running(team)) == 2, "the shares to run")
    placed = {each["metadata"]["name"]: each for each in cluster.pods(team)}
    limits = {name: each["metadata"]["annotations"][LIMIT_KEY] for name, each in placed.items()}
    assert limits == {"half": str(40 << 30), "bytes": str(8 << 30)}
    cluster.until(lambda: isolation(cluster, team, "half") == "enforced", "the share to be enforced")
    cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {LIMITS: None}}})
    cluster.until(lambda: isolation(cluster, team, "half") == "none", "the share to be enforced no longer")
    for wrong in ({LIMIT_KEY: "1"}, {LIMIT_KEY: None}):
        with pytest.raises(ApiError, match="written by Weir alone"):
            cluster.api.patch(f"/api/v1/namespaces/{team}/pods/half", {"metadata": {"annotations": wrong}})


def test_pod_that_only_says_that_it_has_the_variables_is_refused(weir: Installed, cluster: Cluster) -> None:
    team = cluster.namespace()
    weir.create_queues(project("vision", 4, [team]))
    says = {"weir.dev/share-variables": "true"}
    refused = "written by Weir's webhook"
    cluster.until(lambda: refused in refusal(cluster, pod(team, "a", 0, annotations=says, **PLAIN)))
    own = pod(team, "own", 0, annotations=says, **PLAIN)
    own["spec"]["containers"][0]["env"] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}}
        for name, key in VARIABLES.items()
    ]
    assert refusal(cluster, own) == ""
    own["spec"]["containers"][0]["env"].append({"name": "NVIDIA_GPU_MEMORY_LIMIT", "value": "99"})
    assert refused in refusal(cluster, own)
    own["spec"]["containers"][0]["env"].pop()
    own["spec"]["initContainers"] = [{"name": "init", "image": "busybox"}]
    assert refused in refusal(cluster, own)
    plain = pod(team, "plain", 0, **PLAIN)
    cluster.api.create(plain)
    with pytest.raises(ApiError, match=refused):
        cluster.api.patch(f"/api/v1/namespaces/{team}/pods/plain", {"metadata": {"annotations": says}})


def privileged(one: Object) -> Object:
    one["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    return one


def test_no_container_of_an_enforced_share_reaches_other_memory(weir: Installed, cluster: Cluster) -> None:
    """A container for debugging gets the variables or is refused; a privileged pod isn't enforced."""
    (node,) = cluster.add_nodes(1, gpus=2)
    labels = {SHARING: "true", "nvidia.com/gpu.memory": "81920", LIMITS: "true"}
    cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
    team = cluster.namespace()
    weir.create_queues(project("vision", 4, [team]))
    mutated(cluster, pod(team, "half", 0, annotations=HALF, **PLAIN))
    mutated(cluster, privileged(pod(team, "bold", 0, annotations=HALF, **PLAIN)))
    cluster.until(lambda: len(cluster.running(team)) == 2, "the shares to run")
    cluster.until(lambda: isolation(cluster, team, "half") == "enforced", "the share to be enforced")
    cluster.until(lambda: isolation(cluster, team, "bold") == "none", "the other to be told apart")

    pods = f"/api/v1/namespaces/{team}/pods"
    wants_all = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}

    def debug(name: str, container: str, **more: Any) -> str:
        made = {"name": container, "image": "busybox", **more}
        try:
            cluster.api.patch(
                f"{pods}/{name}/ephemeralcontainers", {"spec": {"ephemeralContainers": [made]}}, STRATEGIC
            )
        except ApiError as why:
            return why.message
        return ""

    for container, more in (("first", {"env": [wants_all]}), ("second", {})):
        cluster.until(lambda c=container, m=more: debug("half", c, **m) == "", "the webhook to add variables")
    added = cluster.api.get(f"{pods}/half")["spec"]["ephemeralContainers"]
    assert sorted(each["name"] for each in added) == ["first", "second"]
    for each in added:
        assert variables({"spec": {"containers": [each]}}) == VARIABLES
    sees_all = {"securityContext": {"privileged": True}}
    assert "a privileged container uses all GPUs of its node" in debug("half", "third", **sees_all)
    assert debug("bold", "other", env=[wants_all]) == "", "its memory isn't limited anyway"
    assert isolation(cluster, team, "half") == "enforced"
    says = {"metadata": {"annotations": {"weir.dev/share-variables": "true"}}}
    with pytest.raises(ApiError, match="a privileged container"):
        cluster.api.patch(f"{pods}/bold", says)
    weir.stop()
    assert "wait until Weir's webhook adds them" in debug("half", "late", env=[wants_all])


def test_shares_and_whole_devices_never_meet_on_a_node(weir: Installed, cluster: Cluster) -> None:
    shared, whole = cluster.add_nodes(2, gpus=2)
    team, other = cluster.namespace(), cluster.namespace()
    weir.create_queues(project("vision", 4, [team]))
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    first = pod(team, "first", 0, annotations=HALF, **PLAIN)
    first["spec"]["containers"][0]["env"] = env
    mutated(cluster, first)
    reported = f"kubectl label node NAME {SHARING}=true"
    cluster.until(lambda: reported in sentence(cluster, team, "first"), "what to do")

    label(cluster, shared, "true")
    cluster.until(lambda: cluster.running(team) == {"first": shared}, "the share to run")
    assert SHARING in taints(cluster, shared)
    placed = cluster.pods(team)[0]
    assert placed["metadata"]["annotations"]["weir.dev/gpus"] == "0"
    assert variables(placed) == VARIABLES
    assert any(each.get("key") == SHARING for each in placed["spec"]["tolerations"])

    cluster.api.create(pod(other, "fits", 2, **PLAIN), pod(other, "waits", 2, **PLAIN))
    cluster.until(lambda: whole in cluster.running(other).values(), "a whole pod of kube-scheduler")
    late = next(name for name in ("fits", "waits") if name not in cluster.running(other))
    mutated(cluster, pod(team, "mine", 2, **PLAIN))
    mutated(cluster, pod(team, "second", 0, annotations=HALF, **PLAIN))
    cluster.until(lambda: cluster.running(team).get("second") == shared, "a second share beside the first")
    unschedulable = cluster.until(
        lambda: cluster.api.get(f"/api/v1/namespaces/{other}/pods/{late}")["status"].get("conditions")
    )
    assert "untolerated taint" in unschedulable[0]["message"]
    assert set(cluster.running(team)) == {"first", "second"}

    aside = f"the node {shared} is set aside for shares of GPUs"
    named = pod(other, "named", 1, nodeName=shared, **PLAIN)
    cluster.until(lambda: aside in refusal(cluster, named), "the policy to know the node")
    for tolerations in (EVERYTHING, [{"key": SHARING, "operator": "Exists"}]):
        told_so = refusal(cluster, pod(other, "tolerant", 1, tolerations=tolerations, **PLAIN))
        assert "must not tolerate their taint" in told_so
        careful = pod(other, "careful", 1, tolerations=tolerations, affinity=ELSEWHERE, **PLAIN)
        assert refusal(cluster, careful) == ""
        assert refusal(cluster, pod(other, "no-gpus", 0, tolerations=tolerations, **PLAIN)) == ""
    assert refusal(cluster, pod(other, "elsewhere", 1, nodeName=whole, **PLAIN)) == ""

    names = f"/apis/weir.dev/v1alpha1/sharednodes/{SHARED_NODES}"
    assert cluster.api.get(names)["spec"]["nodes"] == [shared]
    with pytest.raises(ApiError, match="written by Weir alone"):
        cluster.api.patch(names, {"spec": {"nodes": []}})
    weir.kill()
    cluster.api.delete(names)
    cluster.until(lambda: refusal(cluster, named) == "", "no node to be set aside")
    weir.start()
    cluster.until(lambda: aside in refusal(cluster, named), "the list to be written again")

    label(cluster, shared, None)
    cluster.until(lambda: states(cluster, shared) == ["draining"], "Weir to hear of the label")
    mutated(cluster, pod(team, "third", 0, annotations=HALF, **PLAIN))
    cluster.until(lambda: reported in sentence(cluster, team, "third"), "the third to hear of no node")
    assert SHARING in taints(cluster, shared), "shares run on it still"
    for name in ("first", "second"):
        cluster.api.delete(f"/api/v1/namespaces/{team}/pods/{name}", grace_s=0)
    cluster.until(
        lambda: shared in {**cluster.running(other), **cluster.running(team)}.values(),
        "whole devices again",
    )
    cluster.until(lambda: SHARING not in taints(cluster, shared), "the taint to be gone")
    cluster.until(lambda: refusal(cluster, named) == "", "the policy to let whole devices name the node")


def test_an_installation_after_an_uninstallation_refuses_whole_devices_on_shared_nodes(
    cluster: Cluster, plane: ControlPlane
) -> None:
    """The API server reads the list of nodes again, although no binding named one for a while."""
    (node,) = cluster.add_nodes(1, gpus=2)
    label(cluster, node, "true")
    within = cluster.namespace()
    named = pod(within, "named", 1, nodeName=node, **PLAIN)
    plain = pod(within, "plain", 1, **PLAIN)
    aside = f"the node {node} is set aside for shares of GPUs"
    for name in ("first", "second"):
        with Installed(plane, namespace=cluster.namespace(), name=name, webhooks=False) as weir:
            cluster.until(lambda: aside in refusal(cluster, named), f"the policy of the {name} installation")
            assert refusal(cluster, plain) == ""
            weir.stop()
            for each in reversed(weir.objects()):
                if each["kind"] != "Namespace":
                    cluster.api.delete(f"{collection(each)}/{each['metadata']['name']}")
        cluster.until(lambda: refusal(cluster, named) == "", "the policy to be gone")
