"""Rules that taint devices, on a real API server that serves them, beside kube-scheduler and the eviction.

WEIR_EFFORT multiplies the number of random claims.
"""

import os
from collections.abc import Iterator
from random import Random

import pytest
from tests.kubernetes.claim_objects import (
    GPU,
    TAINT_RULES_API,
    TAINT_RULES_FEATURES,
    TAINT_RULES_SERVED,
    claiming,
    gpu_class,
    gpu_slice,
    needs_claims,
    needs_shared_devices,
    template,
)
from tests.kubernetes.claim_verdicts import compare
from tests.kubernetes.constraints import scheduling
from tests.unit.kubernetes.claims.random_claims import add_taint_rules, random_case
from tools.controlplane.api import Object, collection
from tools.controlplane.binaries import Binaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, project

pytestmark = needs_claims

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
CASES = 60 * EFFORT
SICK = "example.com/sick"


@pytest.fixture(scope="module")
def tainting(binaries: Binaries) -> Iterator[ControlPlane]:
    options = {"features": TAINT_RULES_FEATURES, "alpha_apis": TAINT_RULES_SERVED}
    with ControlPlane(binaries, **options) as running:
        running.grant_all("weir")
        yield running


@pytest.fixture
def tainted(tainting: ControlPlane) -> Iterator[Cluster]:
    here = Cluster(tainting)
    yield here
    for each in here.api.items(f"/apis/{TAINT_RULES_API}/devicetaintrules"):
        here.api.delete(f"/apis/{TAINT_RULES_API}/devicetaintrules/{each['metadata']['name']}")
    here.empty()


def rule(effect: str = "NoSchedule", **chosen: str) -> Object:
    taint = {"key": SICK, "value": "yes", "effect": effect}
    return {
        "apiVersion": TAINT_RULES_API,
        "kind": "DeviceTaintRule",
        "metadata": {"name": "sick"},
        "spec": {"deviceSelector": chosen, "taint": taint},
    }


@pytest.mark.kubernetes
@needs_shared_devices
def test_tainted_devices_fit_where_they_do_for_kube_scheduler(
    tainting: ControlPlane, tainted: Cluster
) -> None:
    chance = Random(f"taints/{EFFORT}")
    cases = [random_case(chance, f"taints-{number}") for number in range(CASES)]
    for case in cases:
        add_taint_rules(case, chance)
        for each in case.taint_rules:
            each["apiVersion"] = TAINT_RULES_API
    try:
        compare(tainted, tainting, cases)
    finally:
        tainting.kill("kube-scheduler")


@pytest.fixture
def weir(tainting: ControlPlane) -> Iterator[Weir]:
    with scheduling(tainting, "weir-taints") as running:
        yield running


@pytest.mark.kubernetes
def test_a_rule_keeps_pods_from_a_device_and_evicts_those_that_do_not_tolerate_it(
    tainted: Cluster, weir: Weir
) -> None:
    cluster, within = tainted, tainted.namespace()
    exists = {"key": SICK, "operator": "Exists"}  # that the eviction heeds only if it names the effect
    tolerating = {"tolerations": [exists, {**exists, "effect": "NoExecute"}]}
    cluster.api.create(project(within, 4), gpu_class(), gpu_slice("n1", 1), rule(driver=GPU, device="gpu-0"))
    cluster.api.create(template(within, "one"), template(within, "tolerant", **tolerating))
    cluster.add([node("n1", gpus=0)])
    cluster.api.create(claiming(within, "waits", "one"))
    path = f"/apis/weir.dev/v1alpha1/namespaces/{within}/workloads/pod-waits"

    def sentence() -> str:
        status = (cluster.api.maybe(path) or {}).get("status", {})
        return str((status.get("reason") or {}).get("sentence", ""))

    words = "1 device that matches has a taint that the claim doesn't tolerate"
    cluster.until(lambda: words in sentence(), lambda: f"the taint in the reason: {sentence()}")
    cluster.api.create(claiming(within, "tolerates", "tolerant"))
    cluster.until(lambda: cluster.running(within) == {"tolerates": "n1"}, "the pod that tolerates it")
    cluster.api.delete(f"/api/v1/namespaces/{within}/pods/tolerates", grace_s=0)
    path_of_rule = f"{collection(rule())}/sick"
    cluster.api.delete(path_of_rule)
    cluster.until(lambda: cluster.running(within) == {"waits": "n1"}, "the pod without a toleration")
    # Kubernetes' own controller evicts the pod, and Weir gives the device to no other one
    cluster.api.create(rule("NoExecute", driver=GPU), claiming(within, "later", "one"))
    cluster.until(lambda: not cluster.running(within), "the eviction")
    path = f"/apis/weir.dev/v1alpha1/namespaces/{within}/workloads/pod-later"
    cluster.until(lambda: words in sentence(), lambda: f"the taint in the reason: {sentence()}")
    later = cluster.api.get(f"/api/v1/namespaces/{within}/pods/later")
    assert not later["spec"].get("nodeName")
    cluster.api.create(claiming(within, "again", "tolerant"))
    cluster.until(lambda: cluster.running(within) == {"again": "n1"}, "the pod that tolerates it")
