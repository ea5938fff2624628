"""Claims as the allocator sees them: requests with their classes, selectors and tolerations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from weir.kubernetes.api.resource_objects import (
    DeviceClass,
    DeviceSelector,
    DeviceToleration,
    ExactRequest,
    ResourceClaim,
)
from weir.kubernetes.claims.cel.evaluator import Selector, selector
from weir.kubernetes.claims.cel.literals import CelSyntaxError
from weir.kubernetes.claims.constraints import AttributeConstraint
from weir.kubernetes.claims.devices import PoolDevice
from weir.kubernetes.translate.quantities import exact, shown

DEVICES_MAX = 32
"""Limit of devices of one claim, since its status holds no more."""


class ClaimError(ValueError):
    """A claim can't be allocated as written; the message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class ExactDevices:
    """Devices of one class in a request; count None: all devices."""

    request: str
    subrequest: str
    device_class: DeviceClass
    selectors: tuple[Selector, ...]  # of the class, then of the request
    count: int | None
    admin: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: Mapping[str, Fraction]

    @property
    def name(self) -> str:
        """Return the name by which a result refers to it."""
        return f"{self.request}/{self.subrequest}" if self.subrequest else self.request

    def tolerates(self, device: PoolDevice) -> bool:
        """Return True if the taints of a device don't keep it from this request."""
        return all(
            any(_tolerates(toleration, *taint) for toleration in self.tolerations) for taint in device.taints
        )

    def describe(self) -> str:
        """Return the request in words: class, selectors and capacity."""
        words = [f"class {self.device_class.metadata.name}"]
        own = self.selectors[len(self.device_class.spec.selectors) :]
        words += [f"selector {condition.text.strip()}" for condition in own]
        words += [f"{name} of at least {shown(amount)}" for name, amount in self.capacity.items()]
        return ", ".join(words)


@dataclass(frozen=True, slots=True, eq=False)
class ClaimRequests:
    """A claim: for each request its alternatives, best first."""

    claim: ResourceClaim
    requests: tuple[tuple[ExactDevices, ...], ...]

    @property
    def name(self) -> str:
        """Return the name of the claim."""
        return self.claim.metadata.name

    def constraints(self) -> list[AttributeConstraint]:
        """Return the constraints, with no device chosen yet."""
        try:
            return [AttributeConstraint(constraint) for constraint in self.claim.spec.devices.constraints]
        except ValueError as error:
            raise ClaimError(str(error)) from None


def parse_claim(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> ClaimRequests:
    """Return a claim with its classes.

    Raises:
        ClaimError: a class is missing, or a part of the claim isn't supported.
    """
    requests = []
    for written in claim.spec.devices.requests:
        alternatives: Sequence[ExactRequest] = written.first_available
        if written.exactly is not None:
            alternatives = (written.exactly,)
        if not alternatives:
            raise ClaimError(f"its request {written.name} is of a kind that is not supported")
        subrequests = [alternative.name if written.exactly is None else "" for alternative in alternatives]
        requests.append(
            tuple(
                _parsed(written.name, subrequest, alternative, classes)
                for subrequest, alternative in zip(subrequests, alternatives, strict=True)
            )
        )
    parsed = ClaimRequests(claim, tuple(requests))
    parsed.constraints()
    return parsed


def class_of(claim: ResourceClaim, result: str) -> str:
    """Return the device class of the request that a result names; empty if the claim has no such request."""
    name, _, subrequest = result.partition("/")
    for written in claim.spec.devices.requests:
        if written.name == name:
            alternatives = (
                alternative for alternative in written.first_available if alternative.name == subrequest
            )
            request = written.exactly or next(alternatives, None)
            return "" if request is None else request.device_class_name
    return ""


def _parsed(
    request: str, subrequest: str, written: ExactRequest, classes: Mapping[str, DeviceClass]
) -> ExactDevices:
    device_class = classes.get(written.device_class_name)
    if device_class is None:
        raise ClaimError(
            f"its request {request} names the device class {written.device_class_name}, which doesn't exist"
        )
    if written.allocation_mode not in ("ExactCount", "All"):
        raise ClaimError(
            f"its request {request} has the allocation mode {written.allocation_mode}, which is not supported"
        )
    amounts = written.capacity.requests if written.capacity is not None else {}
    try:
        capacity = {name: exact(amount) for name, amount in amounts.items()}
    except ValueError as error:
        raise ClaimError(f"its request {request} can't be read: {error}") from None
    for name, amount in capacity.items():
        if amount < 0:
            raise ClaimError(f"its request {request} asks for a negative amount of {name}")
    return ExactDevices(
        request,
        subrequest,
        device_class,
        (
            *_compiled(device_class.spec.selectors, f"the device class {written.device_class_name}"),
            *_compiled(written.selectors, f"its request {request}"),
        ),
        None if written.allocation_mode == "All" else max(1, written.count),
        written.admin_access,
        tuple(written.tolerations),
        capacity,
    )


def _compiled(selectors: Sequence[DeviceSelector], owner: str) -> list[Selector]:
    compiled = []
    for device_selector in selectors:
        if device_selector.cel is None:
            raise ClaimError(f"{owner} has a selector of a kind that is not supported")
        try:
            compiled.append(selector(device_selector.cel.expression))
        except CelSyntaxError as error:
            raise ClaimError(f"{owner} has a selector that can't be used: {error}") from None
    return compiled


def _tolerates(toleration: DeviceToleration, key: str, value: str, effect: str) -> bool:
    if toleration.effect not in ("", effect) or toleration.key not in ("", key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == value
