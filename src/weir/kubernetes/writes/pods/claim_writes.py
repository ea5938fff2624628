"""Writes of resource claims right before a pod is bound."""

from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.resource_objects import RESOURCE_API, ResourceClaim
from weir.kubernetes.claims.allocation_status import NewAllocation
from weir.kubernetes.writes.operations import AllocateClaim, PatchObject


def allocation_write(pod: KubePod, allocation: NewAllocation) -> AllocateClaim:
    """Return the write that allocates a claim for a pod, or reserves one that has devices."""
    meta = allocation.claim.metadata
    path = path_of(RESOURCE_API, "resourceclaims", meta.namespace, meta.name)
    of_pod = pod.metadata.name, pod.metadata.uid
    return AllocateClaim(path, meta.uid, *of_pod, allocation.body, allocation.special)


def release_write(claim: ResourceClaim) -> PatchObject:
    """Return the write that removes the devices from a claim, unless the claim has changed meanwhile."""
    meta = claim.metadata
    path = path_of(RESOURCE_API, "resourceclaims", meta.namespace, meta.name)
    status = {"allocation": None, "reservedFor": None}
    return PatchObject(
        f"{path}/status", {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
    )
