"""Pods without unread fields: equal texts are one object, and pods of one template share their spec."""

from collections.abc import Callable

import msgspec

from weir.kubernetes.api.objects import KubePod, Metadata, OwnerReference, PodSpec, PodStatus
from weir.kubernetes.state.owners.chain import meaningful
from weir.kubernetes.state.owners.stated import stated_by
from weir.kubernetes.translate.annotations import means_something
from weir.kubernetes.translate.bound_pods import OWNER_KEY

_STATUS = {phase: PodStatus(phase) for phase in ("Pending", "Running", "Succeeded", "Failed")}


class InternedPods:
    """Shared copies of equal texts and specs of pods."""

    def __init__(self, shared_reference: Callable[[OwnerReference], OwnerReference]) -> None:
        self.specs: dict[bytes, PodSpec] = {}
        self._texts: dict[str, str] = {}
        self._shared_reference = shared_reference

    def shrink_metadata(self, metadata: Metadata) -> None:
        """Share equal texts of a pod's metadata and drop its unread fields."""
        once = self._texts.setdefault
        metadata.labels = {once(name, name): once(value, value) for name, value in metadata.labels.items()}
        written = metadata.annotations
        metadata.annotations = {once(name, name): written[name] for name in written if means_something(name)}
        if stated := stated_by(metadata):
            metadata.annotations[OWNER_KEY] = once(stated, stated)
        metadata.namespace = once(metadata.namespace, metadata.namespace)
        metadata.owner_references = [
            self._shared_reference(reference)
            for reference in metadata.owner_references
            if reference.controller
        ]
        metadata.resource_version = ""

    def with_shared_spec(self, pod: KubePod) -> KubePod:
        """Give a pod the spec of its template, and a status without unread fields."""
        spec = pod.spec
        spec.node_name = ""
        spec.volumes = [
            volume for volume in spec.volumes if volume.persistent_volume_claim or volume.ephemeral
        ]
        alike = msgspec.json.encode(spec)
        shared = self.specs.get(alike)
        if shared is None:
            shared = self.specs[alike] = spec
        pod.spec = shared
        claims, extended = pod.status.resource_claim_statuses, pod.status.extended_resource_claim_status
        pod.status = _STATUS.get(pod.status.phase) or PodStatus(pod.status.phase)
        if claims or extended:
            pod.status = PodStatus(
                pod.status.phase, resource_claim_statuses=claims, extended_resource_claim_status=extended
            )
        return pod

    def forget_texts(self, most: int) -> bool:
        """Forget the texts if there are more than this number; return True if there are more specs, too."""
        if len(self._texts) > most:
            self._texts.clear()
        return len(self.specs) > most


def reads_alike(pod: KubePod, other: KubePod) -> bool:
    """Return True if two states of a pod are the same in all fields that are read."""
    first, second = pod.metadata, other.metadata
    return (
        pod.spec is other.spec
        and first.labels == second.labels
        and first.owner_references == second.owner_references
        and pod.status.resource_claim_statuses == other.status.resource_claim_statuses
        and pod.status.extended_resource_claim_status == other.status.extended_resource_claim_status
        and meaningful(first) == meaningful(second)
        and stated_by(first) == stated_by(second)
        and (bool(first.owner_references) or pod.status.phase == other.status.phase)
    )
