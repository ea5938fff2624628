"""Conditions of allocated devices that hold a binding back until a driver has prepared the devices.

A slice names the conditions of a device, and the allocation repeats them. The driver sets them in the status
of the claim. The pod is bound once all of them are true. If one of its failures is true, or the time is over,
the devices are released, and the pod is placed again. All of it is in the claim: another Weir goes on there.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import field

from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.api.object_numbers import moment, seconds_of
from weir.kubernetes.api.objects import ApiStruct, ObjectCondition

BINDING_TIMEOUT_S = 600.0
"""Time from the allocation within which the conditions must be true, as with Kubernetes' own scheduler."""


class DevicesPending(ApiError):
    """The devices of a claim are being prepared: the binding is tried again."""


class DeviceStatus(ApiStruct):
    """Status of an allocated device, as its driver reports it."""

    driver: str
    pool: str
    device: str
    share_id: str | None = field(default=None, name="shareID")
    conditions: list[ObjectCondition] = field(default_factory=list)


class AllocatedStatus(ApiStruct):
    """Fields of a claim's status that say if its devices are ready."""

    allocation: dict[str, Any] | None = None
    reserved_for: list[dict[str, Any]] = field(default_factory=list)
    devices: list[DeviceStatus] = field(default_factory=list)


def stamped(allocation: dict[str, Any], now_s: float) -> dict[str, Any]:
    """Return an allocation with its time, if devices have conditions: their time limit starts there."""
    if not any(result.get("bindingConditions") for result in _results(allocation)):
        return allocation
    return {**allocation, "allocationTimestamp": moment(now_s)}


def why_failed(status: AllocatedStatus, now_s: float) -> str:
    """Return why the devices of a claim can't be used; empty if they can, or are still being prepared."""
    pending = why_pending(status)
    for device, result, conditions in _conditional(status):
        for name in result.get("bindingFailureConditions") or ():
            condition = conditions.get(name)
            if condition is not None and condition.status == "True":
                detail = f" ({condition.message})" if condition.message else ""
                return f"the driver reports {name} for the device {device}{detail}"
    allocated_s = seconds_of((status.allocation or {}).get("allocationTimestamp"))
    if pending and allocated_s and now_s > allocated_s + BINDING_TIMEOUT_S:
        return f"{pending} within {BINDING_TIMEOUT_S:.0f} s"
    return ""


def why_pending(status: AllocatedStatus) -> str:
    """Return the first condition of a claim's devices that isn't true yet; empty if all are."""
    for device, result, conditions in _conditional(status):
        for name in result["bindingConditions"]:
            if name not in conditions or conditions[name].status != "True":
                return f"the driver hasn't reported {name} for the device {device}"
    return ""


def _conditional(
    status: AllocatedStatus,
) -> Iterator[tuple[str, dict[str, Any], dict[str, ObjectCondition]]]:
    """Yield the name, the result and the conditions of each allocated device that has binding conditions."""
    reported = {
        (
            device_status.driver,
            device_status.pool,
            device_status.device,
            device_status.share_id,
        ): device_status
        for device_status in status.devices
    }
    for result in _results(status.allocation or {}):
        if result.get("bindingConditions"):
            key = (result["driver"], result["pool"], result["device"], result.get("shareID"))
            device_status = reported.get(key)
            conditions = (
                {}
                if device_status is None
                else {condition.type: condition for condition in device_status.conditions}
            )
            yield "/".join(key[:3]), result, conditions


def _results(allocation: dict[str, Any]) -> Sequence[dict[str, Any]]:
    results: Sequence[dict[str, Any]] = allocation.get("devices", {}).get("results", ())
    return results
