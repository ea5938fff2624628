"""Claims that Weir makes itself, for extended resources that device classes provide.

Each pod has one at most, whose name is derived from the pod. After a crash, the next leader finds the claim
that the previous one created, and uses or replaces it.
"""

from dataclasses import replace

from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.api.resource_objects import ResourceClaim
from weir.kubernetes.claims.claim_requests import ClaimError
from weir.kubernetes.claims.extended_resources import (
    ExtendedResources,
    SpecialClaim,
    extended_resources,
    provided,
    special_name,
)
from weir.kubernetes.claims.gpu_count import further_classes
from weir.kubernetes.claims.gpu_shares import GpuShare, ShareAmounts, is_shared, share_amounts
from weir.kubernetes.claims.selector_results import SelectorResults
from weir.kubernetes.state.claims.inventory import ClaimInventory
from weir.kubernetes.translate.annotations import read_one
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.model.nodes import Node


class ExtendedClaims:
    """Finds the extended resources of pods that device classes provide, and the claims for them."""

    def __init__(self, inventory: ClaimInventory, devices: DeviceResources, results: SelectorResults) -> None:
        self._inventory = inventory
        self._results = results
        self._devices = devices
        self._class_of: dict[str, str] = {}  # by resource
        self._further: frozenset[str] = frozenset()
        self._read_changes = 0
        self._has_changed = False

    def take_changed(self) -> bool:
        """Return True if classes provide other resources since the last call."""
        self._read()
        changed, self._has_changed = self._has_changed, False
        return changed

    def _read(self) -> None:
        if self._read_changes != self._inventory.class_changes:
            self._read_changes = self._inventory.class_changes
            class_of = provided(self._inventory.classes)
            self._has_changed = self._has_changed or class_of != self._class_of
            self._class_of = class_of
            self._further = further_classes(self._inventory.classes, self._devices)

    @property
    def further_classes(self) -> frozenset[str]:
        """Return the classes that count as GPUs because their extended resource is one of devices."""
        self._read()
        return self._further

    def resources_of(self, pod: KubePod) -> ExtendedResources | None:
        """Return the extended resources of a pod that classes provide; None without any."""
        self._read()
        extended = extended_resources(pod.spec, self._class_of, self._devices) if self._class_of else None
        share = None if extended is None else self._share(pod, extended)
        return extended if extended is None or share is None else replace(extended, share=share)

    def _share(self, pod: KubePod, extended: ExtendedResources) -> GpuShare | None:
        """Return the share that a pod requests; None if it requests whole devices."""
        if len(extended.classes) != 1 or not is_shared(self._inventory.classes[extended.classes[0][1]]):
            return None
        annotations, _ = read_one(pod.metadata)
        if not annotations.fraction_milli:
            return None
        return GpuShare(annotations.fraction_milli, annotations.devices or 1)

    def amounts_on(self, node: Node, extended: ExtendedResources) -> ShareAmounts:
        """Return the amounts of a share on a node; none without a share.

        Raises:
            ClaimError: the class can't be used.
        """
        if extended.share is None:
            return ()
        (request,) = extended.claim_requests(extended.names, self._inventory.classes).requests
        return share_amounts(extended.share, request, self._inventory.pools(node), self._results)

    def name(self, pod: KubePod) -> str:
        """Return the name of a pod's claim, even if it doesn't exist yet; empty if the pod needs none."""
        is_named = pod.status.extended_resource_claim_status is not None
        return special_name(pod) if is_named or self.resources_of(pod) is not None else ""

    def seen(self, pod: KubePod) -> ResourceClaim | None:
        """Return a pod's claim if there is one."""
        return self._inventory.claims.get((pod.metadata.namespace, self.name(pod)))

    def is_claimed(self, pod: KubePod) -> bool:
        """Return True if a pod has a claim for its extended resources, or its status names one."""
        return pod.status.extended_resource_claim_status is not None or self.seen(pod) is not None

    def needed_on(self, node: Node, pod: KubePod) -> SpecialClaim | None:
        """Return the claim that a pod needs on a node; None if device plugins have all its devices."""
        extended = self.resources_of(pod)
        names = () if extended is None else extended.claimed_on(node)
        if extended is None or not names:
            return None
        try:
            return extended.special_claim(pod, special_name(pod), names, self.amounts_on(node, extended))
        except ClaimError:
            return extended.special_claim(pod, special_name(pod), names)  # choosing its devices says why
