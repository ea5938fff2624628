"""Resources by which pods and nodes count devices."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from weir.model.workloads import WHOLE_MILLI

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource of a device class, in pods and in Kubernetes' own quotas."""
GPU_CLASSES = ("gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com", "gpu.intel.com")
"""Device classes of GPUs if the configuration names none."""


@dataclass(frozen=True, slots=True)
class DeviceResources:
    """Device resources, and which of them the nodes offer. A name may end in `*`.

    `no_shares` is the sentence that refuses shares; empty if a node accepts them.
    """

    resources: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
    present: frozenset[str] = field(default_factory=frozenset)
    no_shares: str = ""
    # Thousandths of a GPU by resource, for those that don't count as one GPU
    weights: tuple[tuple[str, int], ...] = ()
    # Further device classes whose extended resource is a device
    further_classes: frozenset[str] = frozenset()

    @classmethod
    def weighted(cls, weights: Mapping[str, int]) -> "DeviceResources":
        """Return devices of these resources, each with the thousandths of a GPU that it counts as."""
        others = tuple((name, milli) for name, milli in weights.items() if milli != WHOLE_MILLI)
        return cls(tuple(weights), weights=others)

    def gpu_weight_milli(self, resource: str) -> int:
        """Return the thousandths of a GPU that a device of this resource counts as."""
        if not self.weights:
            return WHOLE_MILLI
        name = next((pattern for pattern in self.resources if _is_named(resource, pattern)), "")
        return dict(self.weights).get(name, WHOLE_MILLI)

    def names(self, resource: str) -> bool:
        """Return True if a name is that of a resource of devices."""
        return any(_is_named(resource, pattern) for pattern in self.resources)

    def has_gpus(self, resource: str) -> bool:
        """Return True if a resource is one of devices, or that of a device class of GPUs."""
        of_class = resource.removeprefix(CLASS_PREFIX)
        is_class = of_class != resource and (of_class in self.classes or of_class in self.further_classes)
        return is_class or self.names(resource)

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the device classes that count as GPUs: the listed ones, or else the usual ones."""
        listed = tuple(
            pattern.removeprefix(CLASS_PREFIX)
            for pattern in self.resources
            if pattern.startswith(CLASS_PREFIX)
        )
        return listed or GPU_CLASSES


def _is_named(resource: str, name: str) -> bool:
    return resource.startswith(name[:-1]) if name.endswith("*") else resource == name
