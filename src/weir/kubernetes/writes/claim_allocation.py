"""Allocation of a resource claim for a pod that is about to be bound, as a scheduler has to write it.

The finalizer comes first, so that no claim with devices is removed. Then the devices and the pod for which
they are reserved, in one write. Each write names the version that was read: another scheduler's allocation is
never replaced. Sending it again after a lost answer changes nothing.

The claim for a pod's extended resources is made first, and the pod's status names it before the pod is bound.
One that an earlier try made for another node, and that has no devices, is deleted and made again.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import field

from weir.kubernetes.api.client import Patch
from weir.kubernetes.api.decoding import IgnoredObject
from weir.kubernetes.api.errors import Conflict, NotFound
from weir.kubernetes.api.objects import ApiStruct, OwnerReference
from weir.kubernetes.api.resource_objects import ResourceClaimSpec
from weir.kubernetes.writes.leader_guard import LeaderGuard
from weir.kubernetes.writes.operations import AllocateClaim

FINALIZER = "resource.kubernetes.io/delete-protection"
TRIES = 4
"""A claim that other writers change at the same moment is read again this many times."""


class _ClaimMetadata(ApiStruct):
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    finalizers: list[str] = field(default_factory=list)
    owner_references: list[OwnerReference] = field(default_factory=list)


class _ClaimStatus(ApiStruct):
    allocation: dict[str, Any] | None = None
    reserved_for: list[dict[str, Any]] = field(default_factory=list)


class _Claim(ApiStruct):
    """Fields of a claim that are written."""

    metadata: _ClaimMetadata
    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)
    status: _ClaimStatus = field(default_factory=_ClaimStatus)


async def allocate_claim(api: LeaderGuard, write: AllocateClaim) -> None:
    """Allocate a claim, or reserve one that has its devices already.

    Raises:
        ApiError: it isn't so, or it is unknown.
    """
    for left in reversed(range(TRIES)):
        try:
            await _try(api, write)
        except Conflict as error:
            if left == 0 or error.reason == _DECIDED:
                raise
        else:
            break
    if write.special is not None:
        status = {"extendedResourceClaimStatus": write.special.pod_status}
        body = {"metadata": {"uid": write.pod_uid}, "status": status}
        await api.patch(f"{write.pod_path}/status", body, Patch.MERGE, IgnoredObject)


async def _claim(api: LeaderGuard, write: AllocateClaim) -> _Claim:
    """Return the claim as it is; a special one that is missing, or that is like no other, is made."""
    special = write.special
    if special is None:
        claim = await api.get(write.path, _Claim)
        if claim.metadata.uid != write.uid:
            raise _refused(write, "is gone or is being deleted")
        return claim
    try:
        claim = await api.get(write.path, _Claim)
    except NotFound:
        return await api.post(write.path.rpartition("/")[0], special.body, _Claim)
    if all(each.uid != write.pod_uid for each in claim.metadata.owner_references):
        raise _refused(write, "was made for another pod")
    if claim.status.allocation is None and not special.requests(claim.spec):
        await _delete(api, write, claim.metadata)
        return await api.post(write.path.rpartition("/")[0], special.body, _Claim)
    return claim


async def _delete(api: LeaderGuard, write: AllocateClaim, meta: _ClaimMetadata) -> None:
    """Delete a special claim without devices."""
    if FINALIZER in meta.finalizers:
        kept = [each for each in meta.finalizers if each != FINALIZER]
        body = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": kept}}
        await api.patch(write.path, body, Patch.MERGE, IgnoredObject)
    await api.delete(write.path, uid=meta.uid)


async def _try(api: LeaderGuard, write: AllocateClaim) -> None:
    claim = await _claim(api, write)
    meta, status = claim.metadata, claim.status
    if meta.deletion_timestamp is not None:
        raise _refused(write, "is gone or is being deleted")
    change: dict[str, Any] = {}
    if status.allocation is None:
        if write.allocation is None:
            raise _refused(write, "has lost its devices meanwhile")
        if FINALIZER not in meta.finalizers:
            body = {
                "metadata": {
                    "resourceVersion": meta.resource_version,
                    "finalizers": [*meta.finalizers, FINALIZER],
                }
            }
            claim = await api.patch(write.path, body, Patch.MERGE, _Claim)
            meta = claim.metadata
        change["allocation"] = write.allocation
    elif write.allocation is not None and not _is_same(status.allocation, write.allocation):
        raise _refused(write, "was allocated by another scheduler meanwhile")
    if all(each.get("uid") != write.pod_uid for each in status.reserved_for):
        consumer = {"resource": "pods", "name": write.pod_name, "uid": write.pod_uid}
        change["reservedFor"] = [*status.reserved_for, consumer]
    if change:
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": change}
        await api.patch(f"{write.path}/status", body, Patch.MERGE, _Claim)


_DECIDED = "ClaimTaken"


def _refused(write: AllocateClaim, why: str) -> Conflict:
    return Conflict(409, _DECIDED, f"The resource claim {write.path.rpartition('/')[2]} {why}.")


def _is_same(allocation: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if two allocations have the same devices for the same requests, by the same shares."""
    return _devices(allocation) == _devices(other)


def _devices(allocation: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    results = allocation.get("devices", {}).get("results", [])
    names = ("request", "driver", "pool", "device", "shareID")
    return sorted(tuple(str(each.get(name, "")) for name in names) for each in results)
