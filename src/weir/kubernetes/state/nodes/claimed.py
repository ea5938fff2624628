"""Capacity of nodes for resource claims: GPUs without a device plugin, and copies of sets of claims."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from weir.kubernetes.claims.gpu_count import NodeGpus
from weir.kubernetes.state.nodes.usage import PodUsage
from weir.kubernetes.translate.claim_constraints import CLAIMED_DEVICES, claim_needs
from weir.kubernetes.translate.requests import DEVICES_LABEL
from weir.model.nodes import Node


class ClaimedNodes:
    """Counts the GPUs of each node, and the copies of each set of claims that fit on it."""

    def __init__(self) -> None:
        self.changed: set[str] = set()  # nodes on which a pod with claims started or ended
        self._gpus: dict[str, NodeGpus] = {}
        self._held: dict[str, int] = {}  # minimum of GPUs by node, because its pods use them
        self._copies: dict[str, Mapping[str, int]] = {}

    def set_gpus(self, name: str, gpus: NodeGpus) -> None:
        """Set the GPUs in the ResourceSlices of a node; none while its driver is absent."""
        if not gpus.count and name in self._held:
            gpus = replace(self._gpus.get(name, gpus), count=0)
        self._gpus[name] = gpus
        self._tidy(name)

    def set_pods(self, name: str, pods: Iterable[PodUsage]) -> None:
        """Process Weir's pods on a node: while its driver is missing, their GPUs still count."""
        held = (max(usage.devices) + 1 for usage in pods if usage.devices and claim_needs(usage.request))
        self._held[name] = max(held, default=0)
        self._tidy(name)

    def _tidy(self, name: str) -> None:
        if not self._held.get(name):
            self._held.pop(name, None)
            if not self._gpus.get(name, NodeGpus()).count:
                self._gpus.pop(name, None)

    def _gpus_of(self, name: str) -> NodeGpus | None:
        gpus, held = self._gpus.get(name, NodeGpus()), self._held.get(name, 0)
        most = max(gpus.count, held)
        return replace(gpus, count=most) if most else None

    def set_copies(self, name: str, copies: Mapping[str, int], pods: Iterable[PodUsage]) -> bool:
        """Set the copies of claims that fit on a node; return True if that changed."""
        capacity = dict(copies)
        for usage in pods:
            for resource, amount in claim_needs(usage.request):
                capacity[resource] = capacity.get(resource, 0) + amount
        before = self._copies.get(name, {})
        if capacity:
            self._copies[name] = capacity
        else:
            self._copies.pop(name, None)
        return before != capacity

    def capacity(self, name: str) -> Mapping[str, int]:
        """Return the copies of claims on a node, used ones included, as amounts of resources.

        Extended resources that claims provide are included without a limit, because the copies are limited.
        """
        return self._copies.get(name, {})

    def with_claims(self, node: Node) -> Node:
        """Return a node with the copies of claims, and the resources that claims provide, in its capacity."""
        claims = self.capacity(node.name)
        return replace(node, capacity={**node.capacity, **claims}) if claims else node

    def with_gpus(self, node: Node | None) -> Node | None:
        """Return a node with the GPUs for claims; GPUs of a device plugin take precedence.

        The answer is None if both are unknown.
        """
        if node is None:
            return None
        kind = node.labels.get(DEVICES_LABEL)
        if node.gpus and kind != CLAIMED_DEVICES:
            return node
        gpus = self._gpus_of(node.name)
        if gpus is None and kind is None:
            return node
        labels = {name: value for name, value in node.labels.items() if name != DEVICES_LABEL}
        if gpus is None:
            return replace(node, gpus=0, gpu_memory=0, gpu_model=None, labels=labels)
        labels[DEVICES_LABEL] = CLAIMED_DEVICES
        return replace(node, gpus=gpus.count, gpu_memory=gpus.memory, gpu_model=gpus.model, labels=labels)

    def take_changed(self) -> set[str]:
        """Return the nodes on which a pod with claims started or ended since the last call."""
        changed, self.changed = self.changed, set()
        return changed
