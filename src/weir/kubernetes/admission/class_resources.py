"""Device classes of GPUs for reviews: their names, and their extended resources."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from weir.kubernetes.api.changes import Change, keep
from weir.kubernetes.api.resource_objects import DeviceClass
from weir.kubernetes.claims.extended_resources import provided
from weir.kubernetes.claims.gpu_count import further_classes
from weir.kubernetes.claims.gpu_shares import share_resource
from weir.kubernetes.translate.device_resources import DeviceResources


class ClassResources:
    """Keeps the device classes that count as GPUs. `deliver` processes changes of the classes."""

    def __init__(self, devices: DeviceResources) -> None:
        self.devices = self._stated = devices
        self._classes: dict[str, DeviceClass] = {}
        self._provided: frozenset[str] = frozenset()

    def deliver(self, changes: Sequence[Change[Any]]) -> None:
        """Process changes of device classes."""
        keep(changes, self._classes, lambda device_class: device_class)
        further = further_classes(self._classes, self._stated)
        self.devices = replace(self._stated, further_classes=further)
        class_of = provided(self._classes)
        self._provided = frozenset(name for name, of_class in class_of.items() if self.is_gpu_class(of_class))

    @property
    def share_resource(self) -> str:
        """Return the resource by which pods with a fraction request shared GPUs; empty without a class."""
        return share_resource(self._classes)

    def is_gpu_class(self, name: str) -> bool:
        """Return True if the devices of a class count as GPUs."""
        return name in self.devices.classes or name in self.devices.further_classes

    def is_device(self, resource: str) -> bool:
        """Return True if a container that has this resource has GPUs."""
        return resource in self._provided or self.devices.has_gpus(resource)
