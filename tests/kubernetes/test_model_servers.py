"""Model servers of KServe and Knative on a real API server: where a user writes the minimum, and what it keeps.

The tests make the objects that the controllers of both would make; a real controller makes the pods.
"""

from collections.abc import Iterator, Mapping

import pytest
from tests.kubernetes.constraints import scheduling
from tests.kubernetes.gang_kinds import CUSTOM_KINDS, KNATIVE_CHAIN, Makers
from tests.kubernetes.test_gangs_by_kind import definition, remove_definitions
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project
from tools.controlplane.work import pod_spec

KINDS = ("InferenceService", *KNATIVE_CHAIN)
RAW = ("InferenceService", "Deployment")
THROUGH_KNATIVE = ("InferenceService", *KNATIVE_CHAIN, "Deployment")
KNATIVE_ALONE = (*KNATIVE_CHAIN, "Deployment")
MIN_REPLICAS, MIN_SCALE = "weir.dev/min-replicas", "autoscaling.knative.dev/min-scale"


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    custom = {kind: CUSTOM_KINDS[kind] for kind in KINDS}
    plane.api.apply(*(definition(*api.split("/"), kind, plural) for kind, (api, plural) in custom.items()))
    paths = [f"/apis/{api}/{plural}" for api, plural in custom.values()]
    there = Cluster(plane)
    there.until(lambda: all(plane.api.maybe(path) is not None for path in paths), "the kinds")
    try:
        with scheduling(plane, "weir-model-servers") as running:
            yield running
    finally:
        remove_definitions(there, [f"{plural}.{api.partition('/')[0]}" for api, plural in custom.values()])


def serve(it: Makers, chain: tuple[str, ...], written: Mapping[str, Mapping[str, str]], replicas: int) -> str:
    """Make a service of these objects, each above the next, with annotations by kind; return its workload."""
    labels = {"app": "chat"}
    spec = pod_spec(1, restartPolicy="Always", terminationGracePeriodSeconds=1)
    template = {"metadata": {"labels": labels}, "spec": spec}
    deployed = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    above = None
    for kind in chain:
        name, body = ("chat-server", deployed) if kind == "Deployment" else ("chat", {})
        above = it.make(kind, name, body, above, written.get(kind))
    return f"/apis/weir.dev/v1alpha1/namespaces/{it.namespace}/workloads/deployment-chat-server"


def min_pods(cluster: Cluster, path: str) -> int | None:
    return ((cluster.api.maybe(path) or {}).get("spec") or {}).get("minPods")


CASES = [
    pytest.param(RAW, {"InferenceService": {MIN_REPLICAS: "2"}}, id="raw"),
    pytest.param(
        THROUGH_KNATIVE,
        {
            "InferenceService": {MIN_REPLICAS: "2"},
            "Revision": {MIN_SCALE: "1"},
            "Deployment": {MIN_SCALE: "1"},
        },
        id="through-knative",
    ),
    pytest.param(KNATIVE_ALONE, {"Service": {MIN_REPLICAS: "2"}}, id="knative-service"),
    pytest.param(
        KNATIVE_ALONE, {"Revision": {MIN_REPLICAS: "2"}, "Deployment": {MIN_REPLICAS: "2"}}, id="template"
    ),
    pytest.param(
        KNATIVE_ALONE, {"Revision": {MIN_SCALE: "2"}, "Deployment": {MIN_SCALE: "2"}}, id="min-scale"
    ),
]


@pytest.mark.parametrize(("chain", "written"), CASES)
def test_a_model_server_keeps_its_minimum_and_borrows_the_rest(
    weir: Weir, cluster: Cluster, chain: tuple[str, ...], written: Mapping[str, Mapping[str, str]]
) -> None:
    cluster.add_nodes(1, gpus=8)
    alpha, beta = cluster.namespace(), cluster.namespace()
    cluster.api.create(project(alpha, 5), project(beta, 3))
    path = serve(Makers(cluster, beta), chain, written, replicas=8)
    cluster.until(lambda: len(cluster.running(beta)) == 8, "five replicas over the quota")
    cluster.until(lambda: min_pods(cluster, path) == 2, "the minimum")

    serve(Makers(cluster, alpha), ("Deployment",), {}, replicas=5)
    cluster.until(lambda: len(cluster.running(alpha)) == 5, "what was borrowed to be given back")
    assert len(cluster.running(beta)) == 3, "as many as its quota"
    weir.check()


def test_a_minimum_that_changes_above_is_in_force_without_new_pods(weir: Weir, cluster: Cluster) -> None:
    cluster.add_nodes(1, gpus=8)
    within = cluster.namespace()
    cluster.api.create(project(within, 4))
    path = serve(Makers(cluster, within), KNATIVE_ALONE, {}, replicas=4)
    cluster.until(lambda: len(cluster.running(within)) == 4, "the service to run")
    before = cluster.running(within)
    api, plural = CUSTOM_KINDS["Service"]
    service = f"/apis/{api}/namespaces/{within}/{plural}/chat"
    for kept in (3, 2):
        cluster.api.patch(service, {"metadata": {"annotations": {MIN_REPLICAS: str(kept)}}})
        cluster.until(lambda kept=kept: min_pods(cluster, path) == kept, f"a minimum of {kept}")
    assert cluster.running(within) == before
    weir.check()
