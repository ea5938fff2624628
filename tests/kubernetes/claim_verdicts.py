"""Random claims on a real cluster: they fit where they do for kube-scheduler."""

from typing import Any

from tests.unit.kubernetes.claims.random_claims import ClaimCase, classes, read_case, slice_index
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.work import pod

from weir.kubernetes.claims.allocator import ClaimRefusal
from weir.kubernetes.claims.placement import choose_devices
from weir.kubernetes.claims.selector_results import SelectorResults
from weir.model.nodes import Node

RESOURCES = "/apis/resource.k8s.io/v1"
ADMIN = {"resource.kubernetes.io/admin-access": "true"}
ANOTHER = {"apiGroup": "example.com", "resource": "things", "name": "one", "uid": "one"}
"""A consumer of which no controller knows: it never takes an allocation back."""


def consumer(case: ClaimCase, within: str) -> dict[str, Any]:
    """Return the pod that uses the claims of a case, for its node alone."""
    claims = [
        {"name": f"c{at}", "resourceClaimName": each["metadata"]["name"]}
        for at, each in enumerate(case.claims)
    ]
    body = pod(within, f"{case.node}-pod", gpus=0, scheduler="default-scheduler")
    body["spec"] |= {
        "resourceClaims": claims,
        "nodeSelector": {"kubernetes.io/hostname": case.node},
    }
    return body


def create(cluster: Cluster, cases: list[ClaimCase], within: str) -> None:
    api = cluster.api
    api.create_many(classes())
    api.create_many([each for case in cases for each in (*case.slices, *case.taint_rules)])
    claims = [each for case in cases for each in (*case.claims, *case.allocated)]
    for each in claims:
        each["metadata"] = {"name": each["metadata"]["name"], "namespace": within}
    api.create_many([{name: part for name, part in each.items() if name != "status"} for each in claims])

    def allocate_before(body: dict[str, Any]) -> None:
        path = f"{RESOURCES}/namespaces/{within}/resourceclaims/{body['metadata']['name']}"
        api.patch(f"{path}/status", {"status": {**body["status"], "reservedFor": [ANOTHER]}})

    api.at_once(allocate_before, [each for case in cases for each in case.allocated])


def verdict(body: dict[str, Any]) -> str:
    """Return "fits", the reason why kube-scheduler can't place a pod, or nothing as long as it hasn't tried."""
    if body["spec"].get("nodeName"):
        return "fits"
    for condition in body["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition["reason"])
    return ""


def compare(cluster: Cluster, kube_scheduler: ControlPlane, cases: list[ClaimCase]) -> None:
    """Have kube-scheduler try all cases, and compare its verdicts with those of the allocator."""
    within = cluster.namespace(labels=ADMIN)
    create(cluster, cases, within)
    cluster.add([node(case.node, gpus=0) for case in cases])
    kube_scheduler.start_scheduler()
    cluster.api.create_many([consumer(case, within) for case in cases])

    found: dict[str, str] = {}

    def all_tried() -> bool:
        found.update({body["metadata"]["name"]: verdict(body) for body in cluster.pods(within)})
        events = cluster.api.items(f"/api/v1/namespaces/{within}/events")
        bound = [each["involvedObject"]["name"] for each in events if each["reason"] == "Scheduled"]
        found.update(dict.fromkeys(bound, "fits"))  # a taint of its device may have evicted it since
        return len(found) == len(cases) and all(found.values())

    def untried() -> str:
        left = [f"{case.node}-pod" for case in cases if not found.get(f"{case.node}-pod")]
        log = kube_scheduler.log("kube-scheduler").read_text().splitlines()
        named = [line for line in log if any(f'{name}"' in line for name in left)]
        return f"kube-scheduler to try all pods: {left} are left; {named[-5:]}"

    cluster.until(all_tried, untried)
    results, index = SelectorResults(), slice_index(cases)
    differing = []
    for case in cases:
        read = read_case(case)
        pools = index.pools(Node(case.node, 0, 0, {}))  # a pool with counters concerns other nodes, too
        chosen = choose_devices(read.claims, pools, read.usage, results)
        fits = not isinstance(chosen, ClaimRefusal)
        theirs = found[f"{case.node}-pod"]
        if fits != (theirs == "fits"):
            mine = chosen.sentence if isinstance(chosen, ClaimRefusal) else "fits"
            differing.append(f"{case.node}: {mine}; kube-scheduler: {theirs}")
    assert not differing, f"{len(differing)} of {len(cases)} differ:\n" + "\n".join(differing)
    assert 0.1 < sum(each == "fits" for each in found.values()) / len(cases) < 0.9
