"""Pods without GPUs that belong to an owner with GPUs: the launchers, heads, drivers and leaders of gangs.

A gang starts when all its pods can be placed together, so Weir places these as well. The pod alone doesn't
say that its owner has GPUs: the owner's other templates do. A pod that slips through is placed by another
scheduler, and counts as present in its gang all the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from weir.backends.kubernetes.admission.admission import DEFAULT_SCHEDULER, Known, Reading
from weir.backends.kubernetes.api.objects import OwnerReference

NEVER_MEMBERS = ("DaemonSet", "Node", "ReplicaSet", "ReplicationController")
"""Owners whose pods are never sent here. Those of a DaemonSet have their nodes. All pods of a ReplicaSet have
one template, so that those without GPUs have no owner with GPUs."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that is a member if its owner has GPUs."""

    namespace: str
    controller: OwnerReference


def candidate(request: Mapping[str, Any], known: Known) -> Candidate | None:
    """Return whose pod it is, if it may become Weir's by its owner."""
    pod, namespace = request.get("object") or {}, str(request.get("namespace", ""))
    spec, metadata = pod.get("spec") or {}, pod.get("metadata") or {}
    scheduler = spec.get("schedulerName") or DEFAULT_SCHEDULER
    if scheduler != DEFAULT_SCHEDULER:
        return None
    if spec.get("nodeName") or not known.of(namespace):
        return None
    references = metadata.get("ownerReferences") or ()
    written = next((each for each in references if each.get("controller")), None)
    if written is None or written.get("kind") in NEVER_MEMBERS:
        return None
    return Candidate(namespace, msgspec.convert(written, OwnerReference))


def placed_by_weir(reading: Reading) -> list[dict[str, Any]]:
    """Return the JSON patch that has Weir place a pod."""
    return [{"op": "add", "path": "/spec/schedulerName", "value": reading.scheduler}]
