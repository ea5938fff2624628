"""The claims that a pod names, and why they can't be allocated yet."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from weir.engine.placement.feasibility import matches_affinity
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.api.resource_objects import ResourceClaim
from weir.kubernetes.claims.claim_requests import ClaimRequests
from weir.kubernetes.state.claims.inventory import ClaimKey
from weir.kubernetes.translate.node_terms import terms
from weir.model.nodes import Node
from weir.model.workloads import NodeAffinityRule

CONSUMERS_MAX = 256
"""Limit of pods for which one claim can be reserved."""


@dataclass(slots=True)
class NamedClaims:
    """The claims that a pod names: those charged to it, and those among them without devices."""

    rules: tuple[NodeAffinityRule, ...] = ()
    counted: list[tuple[str, ClaimRequests]] = field(default_factory=list)
    missing: list[tuple[str, ClaimRequests]] = field(default_factory=list)
    is_unread: bool = False
    error: str = ""


def claims_of(pod: KubePod) -> list[tuple[str, str]]:
    """Return the claims of a pod by the pod's name for them; an empty name if a claim doesn't exist yet."""
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    claims = []
    for pod_claim in pod.spec.resource_claims:
        if pod_claim.resource_claim_name:
            claims.append((pod_claim.name, pod_claim.resource_claim_name))
        elif pod_claim.name not in made or made[pod_claim.name]:
            claims.append((pod_claim.name, made.get(pod_claim.name, "")))
    return claims


def why_waiting(pod: KubePod, claims: Mapping[ClaimKey, ResourceClaim], special: str) -> str | None:
    """Return why a pod's claims can't be allocated yet; `special` is one that Weir makes itself.

    The answer is None if they can.
    """
    for label, name in claims_of(pod):
        claim = claims.get((pod.metadata.namespace, name))
        if not name:
            see = "kubectl describe pod says why if it takes long"
            return f"waits for its resource claim {label} to be made from its template: {see}"
        if claim is None:
            return (
                f"waits for its resource claim {name}, which doesn't exist: create it, or name one that does"
            )
        why = _why_unusable(pod, claim)
        if why:
            return f"waits for its resource claim {name}, which {why}"
    claim = claims.get((pod.metadata.namespace, special))
    why = "" if claim is None else _why_unusable(pod, claim)
    return f"waits for its resource claim {special}, which {why}" if why else None


def _why_unusable(pod: KubePod, claim: ResourceClaim) -> str:
    """Return why a claim can't be allocated for a pod; empty if it can."""
    is_named = claim.metadata.name in {
        pod_claim.resource_claim_name for pod_claim in pod.spec.resource_claims
    }
    is_own = any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references)
    reserved = claim.status.reserved_for
    if claim.metadata.deletion_timestamp is not None:
        return "is being deleted: create it again when it is gone" if is_named else "is being deleted"
    if not is_own and not is_named:
        return "was made for another pod: delete that claim"
    if len(reserved) >= CONSUMERS_MAX and all(consumer.uid != pod.metadata.uid for consumer in reserved):
        return f"{CONSUMERS_MAX} pods use: name another one"
    return ""


def reach(claim: ResourceClaim) -> tuple[NodeAffinityRule, ...]:
    """Return the rule for the nodes that reach the devices of a claim; None if all nodes do."""
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return ()
    return (NodeAffinityRule(terms(allocation.node_selector.node_selector_terms)),)


def reaches(node: Node, claim: ResourceClaim) -> bool:
    """Return True if a node reaches the devices of a claim."""
    return all(matches_affinity(node, rule) for rule in reach(claim))
