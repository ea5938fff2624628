"""Capacity of nodes for resource claims: GPUs in place of a device plugin's, and copies of sets of claims."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from weir.kubernetes.claims.gpu_count import NodeGpus
from weir.kubernetes.state.node_usage import PodUsage
from weir.kubernetes.translate.claim_constraints import CLAIMED_DEVICES
from weir.kubernetes.translate.requests import DEVICES_LABEL
from weir.model.nodes import Node
from weir.model.resources import CLAIMS_PREFIX
from weir.model.workloads import Request


class ClaimedNodes:
    """GPUs and copies of claims by node."""

    def __init__(self) -> None:
        self.changed: set[str] = set()  # nodes on which a pod with claims started or ended
        self._gpus: dict[str, NodeGpus] = {}
        self._copies: dict[str, Mapping[str, int]] = {}

    def set_gpus(self, name: str, gpus: NodeGpus) -> bool:
        """Take in the GPUs that claims allocate on a node; return whether they are others than before."""
        before = self._gpus.get(name, NodeGpus())
        if gpus.count:
            self._gpus[name] = gpus
        else:
            self._gpus.pop(name, None)
        return before != gpus

    def set_copies(self, name: str, copies: Mapping[str, int], pods: Iterable[PodUsage]) -> bool:
        """Take in the copies of claims that fit a node beside these pods; return whether that is a change."""
        capacity = dict(copies)
        for each in pods:
            for resource, amount in claim_needs(each.request):
                capacity[resource] = capacity.get(resource, 0) + amount
        before = self._copies.get(name, {})
        if capacity:
            self._copies[name] = capacity
        else:
            self._copies.pop(name, None)
        return before != capacity

    def capacity(self, name: str) -> Mapping[str, int]:
        """Return the copies of claims of a node, with those that its pods have, as resources."""
        return self._copies.get(name, {})

    def with_gpus(self, node: Node | None) -> Node | None:
        """Return a node with the GPUs that claims allocate; one with a device plugin's GPUs keeps those."""
        if node is None:
            return None
        kind = node.labels.get(DEVICES_LABEL)
        if node.gpus and kind != CLAIMED_DEVICES:
            return node
        gpus = self._gpus.get(node.name)
        if gpus is None and kind is None:
            return node
        labels = {name: value for name, value in node.labels.items() if name != DEVICES_LABEL}
        if gpus is None:
            return replace(node, gpus=0, gpu_memory=0, gpu_model=None, labels=labels)
        labels[DEVICES_LABEL] = CLAIMED_DEVICES
        return replace(node, gpus=gpus.count, gpu_memory=gpus.memory, gpu_model=gpus.model, labels=labels)

    def note(self, node: str, request: Request) -> None:
        """Note that a pod with this request started or ended on a node."""
        if claim_needs(request):
            self.changed.add(node)

    def take_changed(self) -> set[str]:
        """Return the nodes on which a pod with claims started or ended since the last call."""
        changed, self.changed = self.changed, set()
        return changed


def claim_needs(request: Request) -> list[tuple[str, int]]:
    """Return the copies of claims that a request needs, as resources."""
    return [(name, amount) for name, amount in request.further if name.startswith(CLAIMS_PREFIX)]
