"""GPUs that the claims of pods count as, and GPUs in the slices of nodes."""

from collections.abc import Iterable, Sequence

from weir.kubernetes.claims.claim_requests import ClaimRequests, class_of
from weir.kubernetes.claims.extended_resources import ExtendedResources
from weir.kubernetes.claims.gpu_count import ClaimedGpus, GpuCounter, NodeGpus
from weir.kubernetes.claims.gpu_shares import holds_part
from weir.kubernetes.claims.pools import DevicePool
from weir.kubernetes.claims.selector_results import SelectorResults
from weir.kubernetes.state.claims.inventory import ClaimInventory, ClaimKey
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.model.nodes import Node

_KINDS_MAX = 32
"""Limit of nodes with different devices that are examined to count the GPUs of a claim."""


class ClaimGpus:
    """Counts the GPUs of claims and nodes by the device classes of the cluster."""

    def __init__(self, devices: DeviceResources, inventory: ClaimInventory, results: SelectorResults) -> None:
        self._inventory = inventory
        self._counter = GpuCounter(devices, results)
        self._counted_classes = 0

    def shared_classes(self, claims: Iterable[ClaimKey], node: str, *, are_gpus: bool) -> set[str]:
        """Return the device classes of shared GPUs on a node that these claims use.

        `are_gpus`: the devices counted as GPUs when the pod started. Later changes of the classes are
        ignored.
        """
        self._read_classes()
        pools = self._inventory.pools_of_node(node)
        parts = (part for part in self._inventory.allocated_to(claims) if holds_part(part[1], pools))
        classes = {class_of(claim, device.request) for claim, device in parts}
        return classes if are_gpus else set(filter(self._counter.counts, classes))

    def of_node(self, node: Node) -> NodeGpus:
        """Return the GPUs of a node that claims allocate."""
        self._read_classes()
        return self._counter.of_node(self._inventory.pools(node), node.name)

    def of_pod(
        self, claims: Sequence[ClaimRequests], extended: ExtendedResources | None, *, is_plugged: bool
    ) -> tuple[ClaimedGpus, tuple[str, ...]]:
        """Return the GPUs that claims count as, and the extended resources that are counted among them.

        Devices that the pod requests by number count as GPUs, unless the pod also claims GPUs. `is_plugged`:
        the pod runs, and device plugins provide all of its extended resources.

        Raises:
            ClaimError: the class of an extended resource can't be used.
        """
        if extended is None or is_plugged:
            return self._claimed(claims), ()
        if extended.share is not None and not claims:
            share = extended.share
            return ClaimedGpus(share.devices, share.milli), extended.names
        classes, by_class = self._inventory.classes, extended.by_class
        if by_class:
            gpus = self._claimed([*claims, extended.claim_requests(by_class, classes)])
        else:
            gpus = self._claimed(claims)
        if not gpus.devices or by_class == extended.names:
            return gpus, by_class
        return self._claimed([*claims, extended.claim_requests(extended.names, classes)]), extended.names

    def _claimed(self, claims: Sequence[ClaimRequests]) -> ClaimedGpus:
        self._read_classes()
        kinds: dict[tuple[object, ...], Sequence[DevicePool]] = {}
        for pools in self._inventory.known_pools() if claims else ():
            kind = tuple((pool.key[0], len(pool.devices)) for pool in pools)
            if len(kinds) < _KINDS_MAX:
                kinds.setdefault(kind, pools)
        return self._counter.claimed(claims, list(kinds.values()))

    def _read_classes(self) -> None:
        if self._counted_classes != self._inventory.class_changes:
            self._counted_classes = self._inventory.class_changes
            self._counter.set_classes(self._inventory.classes)
