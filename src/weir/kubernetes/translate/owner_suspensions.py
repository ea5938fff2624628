"""Suspensions of owners: by Weir instead of evictions, as the table of kinds defines them, and by others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir.kubernetes.translate.annotations import OWNER_MARK, PREFIX
from weir.kubernetes.translate.kind_table import KindRule
from weir.kubernetes.translate.owner_commands import resume_command

RESTARTS = f"{PREFIX}{OWNER_MARK}"
"""Annotation of an owner that Weir has suspended to stop its pods, and resumes once they are gone.

Its value is the uid of the owner and the name of the scheduler: a copy of the owner has another uid.
"""

MANAGED_BY = ("spec", "managedBy")
"""Field of a Job, and of other kinds, that names the controller in charge of it."""
_KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_OWN_CONTROLLERS = ("", "kubernetes.io/job-controller")
"""Values of the field for Kubernetes' own controller."""


@dataclass(frozen=True, slots=True)
class OwnerSuspension:
    """Field that suspends an owner. The pods of these roles aren't evicted: the owner would fail for good."""

    group: str
    resource: str
    field: tuple[str, ...]
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatedSuspension:
    """Suspension that an object states."""

    field: str  # field and its object: spec.suspend of Job train; empty: no single field
    resumer: str  # clause: the program that resumes the object; empty if people do
    command: str = ""  # command that resumes the object; empty if there is none


def stated_suspension(rule: KindRule, owner: Mapping[str, Any]) -> StatedSuspension | None:
    """Return the suspension of an object; None if it isn't suspended."""
    condition = rule.suspended
    if condition is None or not condition.holds(owner):
        return None
    is_field = not (condition.type or condition.words)
    name = f"{owner.get('kind', '')} {owner.get('metadata', {}).get('name', '')}"
    field = f"{'.'.join(condition.steps)} of {name}" if is_field else ""
    return StatedSuspension(field, resumed_by(owner), resume_command(rule, owner))


def suspension_of(rule: KindRule) -> OwnerSuspension | None:
    """Return the suspension of objects of an entry; None if their pods are evicted."""
    if rule.suspends is None or rule.suspended is None:
        return None
    return OwnerSuspension(rule.group, rule.resource, rule.suspended.steps, tuple(rule.suspends.roles))


def usable_suspension(rule: KindRule, body: Mapping[str, Any]) -> OwnerSuspension | None:
    """Return the suspension of an object; None if its pods are evicted."""
    suspends = rule.suspends
    if suspends is None or (suspends.when is not None and not suspends.when.holds(body)):
        return None
    return suspension_of(rule) if _has_namespace(body) else None


def _has_namespace(body: Mapping[str, Any]) -> bool:
    """Return True if an object is in a namespace.

    Pods of any namespace may name one without: Weir would suspend it for all of them.
    """
    return bool(body.get("metadata", {}).get("namespace"))


def missing_remedy(rule: KindRule, body: Mapping[str, Any]) -> str:
    """Return the text to add so that an object can be suspended; empty if it can, or needn't."""
    suspends = rule.suspends
    if suspends is None or not _has_namespace(body) or usable_suspension(rule, body) is not None:
        return ""
    return suspends.remedy


def mark_of(rule: KindRule, body: Mapping[str, Any]) -> OwnerSuspension | None:
    """Return the suspension by which Weir suspended an object to restart it; None without one."""
    return suspension_of(rule) if is_marked(body) and _has_namespace(body) else None


def is_marked(body: Mapping[str, Any]) -> bool:
    """Return True if an object has a mark of Weir's suspension that is its own, and not a copied one."""
    return bool(suspended_by(body))


def suspended_by(body: Mapping[str, Any]) -> str:
    """Return the scheduler that marked an object as suspended; empty without a mark of its own."""
    metadata = body.get("metadata", {})
    uid, _, scheduler = str((metadata.get("annotations") or {}).get(RESTARTS, "")).partition(" ")
    return scheduler if uid and uid == metadata.get("uid") else ""


def resumed_by(owner: Mapping[str, Any]) -> str:
    """Return the clause about the program that resumes a suspended object; empty if people resume it."""
    labels = owner.get("metadata", {}).get("labels") or {}
    queue = str(labels.get(_KUEUE_QUEUE) or "")
    if queue:
        return f"Kueue resumes it, from its queue {queue}"
    controller = str((owner.get("spec") or {}).get("managedBy") or "")
    if owner.get("kind") != "Job" or controller in _OWN_CONTROLLERS:
        return ""
    return f"the controller {controller}, which spec.managedBy names, resumes it"
