"""Work out from the API objects where pods fit: an independent and slow answer to the scheduler's question.

Rules that aren't modelled here (volumes, spreading, wishes) make a pod *unclear*: nothing is claimed of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.kubernetes.week.pods import PodView
from tests.kubernetes.week.snapshot import NodeView

SHARING = "weir.dev/gpu-sharing"
HOST = "kubernetes.io/hostname"
STEPS_MAX = 4000
_EFFECTS = ("NoSchedule", "NoExecute")


def is_unclear(pod: PodView) -> bool:
    """Return True if a rule of the pod isn't modelled here."""
    affinity = pod.spec.get("affinity") or {}
    terms = (affinity.get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or []
    by_host = all(each["topologyKey"] == HOST and not each.get("namespaceSelector") for each in terms)
    return bool(
        pod.claims
        or pod.spec.get("topologySpreadConstraints")
        or affinity.get("podAffinity")
        or not by_host
        or any("resourceClaimName" in each for each in pod.spec.get("resourceClaims") or ())
    )


def matches(pod: PodView, node: NodeView) -> bool:
    """Return True if the node could take the pod when nothing else is on it."""
    if node.cordoned or not _tolerated(pod, node) or not selects(pod, node):
        return False
    shared = node.labels.get(SHARING) in ("true", "auto")
    if (pod.gpus and shared) or (pod.devices_shared and not shared):
        return False
    if pod.claimed > node.claimable:
        return False
    devices = max(pod.gpus, pod.devices_shared)
    return devices <= node.gpus and pod.cpu_m <= node.cpu_m and pod.memory <= node.memory


def fits(pod: PodView, node: NodeView) -> bool:
    """Return True if the node can take the pod beside those on it."""
    there = node.pods
    if not matches(pod, node) or len(there) >= node.pods_max:
        return False
    if sum(each.cpu_m for each in there) + pod.cpu_m > node.cpu_m:
        return False
    if sum(each.memory for each in there) + pod.memory > node.memory:
        return False
    if pod.gpus and node.gpus_held + pod.gpus > node.gpus:
        return False
    if pod.claimed and sum(each.claimed for each in there) + pod.claimed > node.claimable:
        return False
    if pod.devices_shared and (node.gpus_held or not _has_parts(pod, node)):
        return False
    if any(each.ports & pod.ports for each in there):
        return False
    return not any(_repels(pod, each) or _repels(each, pod) for each in there)


def place(pods: Sequence[PodView], nodes: Mapping[str, NodeView]) -> dict[str, str] | None:
    """Return nodes by the names of pods if all fit together; None if no way was found within the limit of steps."""
    waiting = sorted(pods, key=lambda pod: (-pod.gpus, -pod.cpu_m, pod.name))
    found: dict[str, str] = {}
    steps = [STEPS_MAX]

    def place_rest(at: int) -> bool:
        if at == len(waiting):
            return True
        pod = waiting[at]
        tried: set[tuple[object, ...]] = set()
        for node in sorted(nodes.values(), key=lambda each: (each.gpus - each.gpus_held, each.name)):
            state = (node.name,) if node.pods else (node.gpus, str(node.labels), str(node.taints))
            if state in tried or steps[0] <= 0 or not fits(pod, node):
                continue
            tried.add(state)
            steps[0] -= 1
            node.pods.append(pod)
            found[pod.name] = node.name
            if place_rest(at + 1):
                return True
            node.pods.pop()
            del found[pod.name]
        return False

    return found if place_rest(0) else None


def selects(pod: PodView, node: NodeView) -> bool:
    """Return True if the pod's selector and required affinity let it be on the node."""
    if any(node.labels.get(key) != value for key, value in (pod.spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(
        all(_holds(each, node.labels) for each in term.get("matchExpressions") or [])
        for term in required["nodeSelectorTerms"]
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise AssertionError(f"the operator {expression['operator']} isn't modelled")


def _tolerated(pod: PodView, node: NodeView) -> bool:
    tolerations = pod.spec.get("tolerations") or []
    return all(
        any(_tolerates(each, taint) for each in tolerations)
        for taint in node.taints
        if taint.get("effect") in _EFFECTS
    )


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint["key"]
    return bool(
        toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", "")
    )


def _has_parts(pod: PodView, node: NodeView) -> bool:
    """Return True if enough devices have the part left, by the indices that the pods on the node name."""
    left = dict.fromkeys(range(node.gpus), 1000)
    for each in node.pods:
        if each.devices_shared and not each.index:
            return False  # on its way: which device it takes isn't known yet
        for index in each.index if each.devices_shared else ():
            left[index] = left.get(index, 0) - node.share_milli(each)
    wanted = node.share_milli(pod)
    return sum(each >= wanted for each in left.values()) >= pod.devices_shared


def _repels(pod: PodView, other: PodView) -> bool:
    """Return True if the pod doesn't want to be on one node with the other."""
    affinity = (pod.spec.get("affinity") or {}).get("podAntiAffinity") or {}
    terms: Iterable[Mapping[str, Any]] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return any(
        other.namespace == pod.namespace
        and all(
            other.labels.get(key) == value
            for key, value in (term.get("labelSelector") or {}).get("matchLabels", {}).items()
        )
        for term in terms
    )
