"""Extended resources of device classes, and the claim for those of a pod.

A pod asks for such a resource by number and names no claim. Where a device plugin has the resource, it is a
number like any other. On other nodes the scheduler makes one claim for the pod, as Kubernetes' own scheduler
does: the pod owns it, and the pod's status says which request of it serves which container.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from msgspec import convert, to_builtins

from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.api.objects import Container, KubePod, PodSpec
from weir.kubernetes.api.resource_objects import RESOURCE_API, DeviceClass, ResourceClaim, ResourceClaimSpec
from weir.kubernetes.claims.claim_requests import ClaimRequests, parse_claim
from weir.kubernetes.claims.gpu_shares import SHARED_DEVICE, GpuShare, ShareAmounts
from weir.kubernetes.translate.device_resources import CLASS_PREFIX, DeviceResources
from weir.kubernetes.translate.quantities import exact
from weir.kubernetes.translate.requests import DEVICES_LABEL
from weir.model.nodes import Node

EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of the claims that a scheduler makes for extended resources."""
_NAME_MAX = 200
_SHARE = "share"
"""Name of the request of a claim for shares of GPUs."""


@dataclass(frozen=True, slots=True)
class _ContainerDevices:
    """A container with the number of each resource that it asks for."""

    position: int  # position among init containers and containers
    name: str
    ends_early: bool  # an init container that isn't a sidecar
    counts: tuple[tuple[str, int, int], ...]  # resource, number, and position among the container's requests

    def request_for(self, resource: str) -> tuple[int, str]:
        """Return the number of devices, and the name of a request of the claim for them."""
        for name, count, place in self.counts:
            if name == resource:
                return count, f"container-{self.position}-request-{place}"
        return 0, ""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Devices that a claim requests for a container."""

    name: str
    device_class: str
    count: int


@dataclass(frozen=True, slots=True)
class SpecialClaim:
    """The claim of a pod's extended resources, and the part of the pod's status that names it."""

    body: Mapping[str, Any]
    pod_status: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return the name of the claim."""
        return str(self.pod_status["resourceClaimName"])

    def claim(self, made: ResourceClaim | None) -> ResourceClaim:
        """Return the claim as the API server shows it; without a uid if it isn't created yet."""
        is_made = made is not None and self.requests(made.spec)
        return made if made is not None and is_made else convert(self.body, ResourceClaim)

    def requests(self, spec: ResourceClaimSpec) -> bool:
        """Return True if the claim has exactly the requests of this spec."""
        return _comparable(spec) == _comparable(convert(self.body["spec"], ResourceClaimSpec))


@dataclass(frozen=True, slots=True)
class ExtendedResources:
    """The extended resources of a pod that device classes provide."""

    classes: tuple[tuple[str, str], ...]  # by resource
    amounts: tuple[str, ...]  # resources that nodes count in amounts instead of devices
    by_class: tuple[str, ...]  # resources that only a device class provides
    containers: tuple[_ContainerDevices, ...]
    share: GpuShare | None = None  # share of its devices, if it has one resource

    @property
    def names(self) -> tuple[str, ...]:
        """Return the resources."""
        return tuple(name for name, _ in self.classes)

    def claimed_on(self, node: Node) -> tuple[str, ...]:
        """Return the resources that no device plugin of a node provides, so that they need a claim."""
        plugged = node.labels.get(DEVICES_LABEL) if node.gpus else None
        return tuple(name for name in self.names if name != plugged and not node.capacity.get(name))

    def claim_requests(
        self, names: Collection[str], classes: Mapping[str, DeviceClass], amounts: ShareAmounts = ()
    ) -> ClaimRequests:
        """Return the requests of a claim of some of the resources, of whichever pod.

        `amounts` are those of a share on the node.

        Raises:
            ClaimError: its class is missing, or something in it isn't supported.
        """
        return parse_claim(
            convert({"metadata": {"name": ""}, "spec": self._spec(names, amounts)}, ResourceClaim), classes
        )

    def _spec(self, names: Collection[str], amounts: ShareAmounts) -> dict[str, Any]:
        if self.share is not None:
            exactly = {
                "deviceClassName": self.classes[0][1],
                "allocationMode": "ExactCount",
                "count": self.share.devices,
                "selectors": [{"cel": {"expression": SHARED_DEVICE}}],
                "capacity": {"requests": dict(amounts)},
            }
            return {"devices": {"requests": [{"name": _SHARE, "exactly": exactly}]}}
        wanted = [request for one in self._requested_each(names) for request in one[0]]
        requests = [
            {
                "name": request.name,
                "exactly": {
                    "deviceClassName": request.device_class,
                    "allocationMode": "ExactCount",
                    "count": request.count,
                },
            }
            for request in sorted(wanted, key=lambda request: request.name)
        ]
        return {"devices": {"requests": requests}}

    def special_claim(
        self, pod: KubePod, name: str, names: Collection[str], amounts: ShareAmounts = ()
    ) -> SpecialClaim:
        """Return the claim of a pod for some of the resources."""
        meta = pod.metadata
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": meta.name,
            "uid": meta.uid,
            "controller": True,
        }
        body = {
            "apiVersion": RESOURCE_API,
            "kind": "ResourceClaim",
            "metadata": {
                "name": name,
                "namespace": meta.namespace,
                "annotations": {EXTENDED_CLAIM: "true"},
                "ownerReferences": [owner],
            },
            "spec": self._spec(names, amounts),
        }
        mappings = [
            {"containerName": container.name, "resourceName": self.names[0], "requestName": _SHARE}
            for container in (self.containers if self.share is not None else ())
        ] or [
            {"containerName": container, "resourceName": resource, "requestName": request}
            for _, uses in self._requested_each(names)
            for container, resource, request in uses
        ]
        return SpecialClaim(body, {"resourceClaimName": name, "requestMappings": mappings})

    def _requested_each(
        self, names: Collection[str]
    ) -> list[tuple[list[_Wanted], list[tuple[str, str, str]]]]:
        return [self._requested(name, device_class) for name, device_class in self.classes if name in names]

    def _requested(
        self, resource: str, device_class: str
    ) -> tuple[list[_Wanted], list[tuple[str, str, str]]]:
        """Return the requested devices of one resource, and their assignment to containers.

        An init container uses the devices of containers that start after it, and the devices beyond those are
        wanted once for all init containers.
        """
        lasting: list[tuple[int, _Wanted]] = []
        uses: list[tuple[str, str, str]] = []
        for container_devices in self.containers:
            count, name = container_devices.request_for(resource)
            if count and not container_devices.ends_early:
                lasting.append((container_devices.position, _Wanted(name, device_class, count)))
                uses.append((container_devices.name, resource, name))
        most: _Wanted | None = None
        early: list[tuple[str, str]] = []
        for container_devices in self.containers:
            count, name = container_devices.request_for(resource)
            if not count or not container_devices.ends_early:
                continue
            for _, later in (one for one in lasting if one[0] >= container_devices.position):
                if count <= 0:
                    break
                count -= later.count
                uses.append((container_devices.name, resource, later.name))
            if count > 0:
                early.append((container_devices.name, name))
                if most is None or most.count < count:
                    most = _Wanted(name, device_class, count)
        if most is not None:
            uses += [(container, resource, most.name) for container, _ in early]
        return [request for _, request in lasting] + ([most] if most is not None else []), uses


def _comparable(spec: ResourceClaimSpec) -> object:
    """Return a spec whose amounts are numbers: the API server writes them in its own way."""
    amounts = [
        sorted((name, exact(amount)) for name, amount in request.exactly.capacity.requests.items())
        for request in spec.devices.requests
        if request.exactly is not None and request.exactly.capacity is not None
    ]
    fields = to_builtins(spec)
    for request in fields["devices"]["requests"]:
        (request.get("exactly") or {}).pop("capacity", None)
    return fields, amounts


def extended_resources(
    spec: PodSpec, class_of: Mapping[str, str], devices: DeviceResources
) -> ExtendedResources | None:
    """Return the extended resources of a pod that classes provide; None without any."""
    containers = []
    classes: dict[str, str] = {}
    for index, container in enumerate((*spec.init_containers, *spec.containers)):
        counts = _counts(container, class_of)
        if counts:
            ends_early = index < len(spec.init_containers) and container.restart_policy != "Always"
            containers.append(_ContainerDevices(index, container.name, ends_early, counts))
            classes |= {name: class_of[name] for name, _, _ in counts}
    if not classes:
        return None
    implicit = {name for name in classes if name.startswith(CLASS_PREFIX)}
    amounts = tuple(sorted(name for name in classes.keys() - implicit if not devices.names(name)))
    by_class = tuple(sorted({*amounts, *implicit}))
    return ExtendedResources(tuple(sorted(classes.items())), amounts, by_class, tuple(containers))


def _counts(container: Container, class_of: Mapping[str, str]) -> tuple[tuple[str, int, int], ...]:
    stated = {**container.resources.limits, **container.resources.requests}
    if class_of.keys().isdisjoint(stated):
        return ()
    counts = []
    for place, name in enumerate(sorted(stated)):
        if name not in class_of:
            continue
        try:
            count = exact(stated[name])
        except ValueError:
            continue  # such a pod is refused elsewhere
        if count > 0 and count.denominator == 1:
            counts.append((name, int(count), place))
    return tuple(counts)


def provided(classes: Mapping[str, DeviceClass]) -> dict[str, str]:
    """Return the class of each extended resource; of several that name the same one, the newest."""
    by_name: Sequence[str] = sorted(classes, reverse=True)
    class_of = {f"{CLASS_PREFIX}{name}": name for name in by_name}
    for name in sorted(
        by_name, key=lambda class_name: seconds_of(classes[class_name].metadata.creation_timestamp)
    ):
        resource = classes[name].spec.extended_resource_name or ""
        if _is_extended(resource):
            class_of[resource] = name
    return class_of


def _is_extended(resource: str) -> bool:
    """Return True unless Kubernetes counts a resource itself: a class can't provide CPUs."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def special_name(pod: KubePod) -> str:
    """Return the name of the claim for a pod's extended resources, which depends only on the pod."""
    named = pod.status.extended_resource_claim_status
    if named is not None and named.resource_claim_name:
        return named.resource_claim_name
    base = pod.metadata.name[:_NAME_MAX].rstrip("-.")
    return f"{base}-extended-resources-{sha256(pod.metadata.uid.encode()).hexdigest()[:8]}"
