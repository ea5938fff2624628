"""Pods without GPUs that belong to an owner with GPUs: the launchers, heads, drivers and leaders of gangs.

A gang starts when all its pods can be placed together, so Weir places these as well. The pod alone doesn't
say that its owner has GPUs: the owner's other templates do. A pod that slips through is placed by another
scheduler, and counts as present in its gang all the same.

A Job of such pods gets the defaults of Jobs that Weir schedules: its pods are evicted with their gang.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from weir.kubernetes.admission.reviews import DEFAULT_SCHEDULER, PodRules, QuotaTree, defaulting_patch
from weir.kubernetes.api.objects import OwnerReference

NEVER_MEMBERS = ("DaemonSet", "Node", "ReplicaSet", "ReplicationController")
"""Owners whose pods are never sent here. Those of a DaemonSet have their nodes. All pods of a ReplicaSet have
one template, so that those without GPUs have no owner with GPUs."""


@dataclass(frozen=True, slots=True)
class MemberCandidate:
    """A pod or Job that becomes Weir's if its owner has GPUs, with the JSON patch for that case."""

    namespace: str
    controller: OwnerReference
    patch: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ReviewedTemplate:
    """A pod, or that of a Job's template, in a namespace of a project, left to the default scheduler."""

    kind: str  # Pod or Job
    namespace: str
    spec: Mapping[str, Any]
    owners: Sequence[Mapping[str, Any]]


def reviewed_template(request: Mapping[str, Any], quota_tree: QuotaTree) -> ReviewedTemplate | None:
    """Return the pod of a new object; None if it names another scheduler or a node, or has no project."""
    made, namespace = request.get("object") or {}, str(request.get("namespace", ""))
    kind, spec = (request.get("kind") or {}).get("kind", ""), made.get("spec") or {}
    pod = spec if kind == "Pod" else (spec.get("template") or {}).get("spec") or {}
    scheduler = pod.get("schedulerName") or DEFAULT_SCHEDULER
    if scheduler != DEFAULT_SCHEDULER or pod.get("nodeName") or not quota_tree.projects_of(namespace):
        return None
    return ReviewedTemplate(kind, namespace, pod, (made.get("metadata") or {}).get("ownerReferences") or ())


def candidate(request: Mapping[str, Any], quota_tree: QuotaTree, reading: PodRules) -> MemberCandidate | None:
    """Return the pod or Job whose owner has to be read; None if its owner doesn't matter."""
    pod = reviewed_template(request, quota_tree)
    if pod is None:
        return None
    written = next((owner for owner in pod.owners if owner.get("controller")), None)
    if written is None or written.get("kind") in NEVER_MEMBERS:
        return None
    patch = _of_pod(reading) if pod.kind == "Pod" else with_scheduler(request, quota_tree, reading)
    return MemberCandidate(pod.namespace, msgspec.convert(written, OwnerReference), patch) if patch else None


def _of_pod(reading: PodRules) -> list[dict[str, Any]]:
    return [{"op": "add", "path": "/spec/schedulerName", "value": reading.scheduler}]


def with_scheduler(
    request: Mapping[str, Any], quota_tree: QuotaTree, reading: PodRules
) -> list[dict[str, Any]]:
    """Return the patch that gives a pod, or the pods of a Job, to Weir."""
    made = request["object"]
    if request["kind"]["kind"] == "Pod":
        named = {**made, "spec": {**made["spec"], "schedulerName": reading.scheduler}}
        return [*_of_pod(reading), *defaulting_patch({**request, "object": named}, quota_tree, reading)]
    template = made["spec"]["template"]
    template = {**template, "spec": {**template["spec"], "schedulerName": reading.scheduler}}
    return defaulting_patch(
        {**request, "object": {**made, "spec": {**made["spec"], "template": template}}}, quota_tree, reading
    )
