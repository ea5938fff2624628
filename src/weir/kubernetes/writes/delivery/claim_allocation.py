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
from weir.kubernetes.api.objects import ApiStruct, FinalizedMetadata
from weir.kubernetes.api.resource_objects import ResourceClaimSpec
from weir.kubernetes.writes.delivery.device_conditions import (
    AllocatedStatus,
    DevicesPending,
    stamped,
    why_failed,
    why_pending,
)
from weir.kubernetes.writes.delivery.leader_guard import LeaderGuard
from weir.kubernetes.writes.operations import AllocateClaim

FINALIZER = "resource.kubernetes.io/delete-protection"
TRIES = 4
"""Attempts to write a claim that other writers change at the same time; it is read again before each."""


class AllocatedClaim(ApiStruct):
    """Fields of a claim that are written."""

    metadata: FinalizedMetadata
    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)
    status: AllocatedStatus = field(default_factory=AllocatedStatus)


async def allocate_claim(api: LeaderGuard, write: AllocateClaim) -> AllocatedClaim:
    """Allocate a claim, or reserve one that has its devices already; return its new state.

    Raises:
        ApiError: the write failed, or its outcome is unknown.
    """
    claim = await _tried(api, write)
    if write.special is not None:
        status = {"extendedResourceClaimStatus": write.special.pod_status}
        body = {"metadata": {"uid": write.pod_uid}, "status": status}
        await api.patch(f"{write.pod_path}/status", body, Patch.MERGE, IgnoredObject)
    return claim


async def check_devices(api: LeaderGuard, write: AllocateClaim, claim: AllocatedClaim) -> None:
    """Check that the drivers have prepared the devices of a claim; release devices that can't be used.

    Raises:
        DevicesPending: the devices aren't prepared yet.
        Conflict: the devices can't be used.
    """
    failure = why_failed(claim.status, api.clock())
    if failure:
        others = [consumer for consumer in claim.status.reserved_for if consumer.get("uid") != write.pod_uid]
        status = {"reservedFor": others} if others else {"allocation": None, "reservedFor": None}
        body = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
        await api.patch(f"{write.path}/status", body, Patch.MERGE, IgnoredObject)
        raise _refused(write, f"has lost its devices: {failure}")
    pending = why_pending(claim.status)
    if pending:
        raise DevicesPending(f"The resource claim {write.path.rpartition('/')[2]} waits: {pending}.")


async def _tried(api: LeaderGuard, write: AllocateClaim) -> AllocatedClaim:
    for left in reversed(range(TRIES)):
        try:
            return await _try(api, write)
        except Conflict as error:
            if left == 0 or error.reason == _DECIDED:
                raise
    raise AssertionError("the last try returns or raises")


async def _claim(api: LeaderGuard, write: AllocateClaim) -> AllocatedClaim:
    """Return the claim as it is; a special claim is created if it is missing, or replaced if it differs."""
    special = write.special
    if special is None:
        claim = await api.get(write.path, AllocatedClaim)
        if claim.metadata.uid != write.uid:
            raise _refused(write, "is gone or is being deleted")
        return claim
    try:
        claim = await api.get(write.path, AllocatedClaim)
    except NotFound:
        return await api.post(write.path.rpartition("/")[0], special.body, AllocatedClaim)
    if all(owner.uid != write.pod_uid for owner in claim.metadata.owner_references):
        raise _refused(write, "was made for another pod")
    if claim.status.allocation is None and not special.requests(claim.spec):
        await _delete(api, write, claim.metadata)
        return await api.post(write.path.rpartition("/")[0], special.body, AllocatedClaim)
    return claim


async def _delete(api: LeaderGuard, write: AllocateClaim, meta: FinalizedMetadata) -> None:
    """Delete a special claim without devices."""
    if FINALIZER in meta.finalizers:
        kept = [finalizer for finalizer in meta.finalizers if finalizer != FINALIZER]
        body = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": kept}}
        await api.patch(write.path, body, Patch.MERGE, IgnoredObject)
    await api.delete(write.path, uid=meta.uid)


async def _try(api: LeaderGuard, write: AllocateClaim) -> AllocatedClaim:
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
            claim = await api.patch(write.path, body, Patch.MERGE, AllocatedClaim)
            meta = claim.metadata
        change["allocation"] = stamped(dict(write.allocation), api.clock())
    elif write.allocation is not None and not _is_same(status.allocation, write.allocation):
        raise _refused(write, "was allocated by another scheduler meanwhile")
    if all(consumer.get("uid") != write.pod_uid for consumer in status.reserved_for):
        consumer = {"resource": "pods", "name": write.pod_name, "uid": write.pod_uid}
        change["reservedFor"] = [*status.reserved_for, consumer]
    if change:
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": change}
        claim = await api.patch(f"{write.path}/status", body, Patch.MERGE, AllocatedClaim)
    return claim


_DECIDED = "ClaimTaken"


def _refused(write: AllocateClaim, why: str) -> Conflict:
    return Conflict(409, _DECIDED, f"The resource claim {write.path.rpartition('/')[2]} {why}.")


def _is_same(allocation: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if two allocations have the same devices for the same requests, by the same shares."""
    return _devices(allocation) == _devices(other)


def _devices(allocation: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    results = allocation.get("devices", {}).get("results", [])
    names = ("request", "driver", "pool", "device", "shareID")
    return sorted(tuple(str(result.get(name, "")) for name in names) for result in results)
