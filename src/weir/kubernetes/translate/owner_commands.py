"""Commands of kubectl about the owners of pods: how to stop one for a while, and how to resume it."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from weir.kubernetes.translate.expressions import Steps, one_at
from weir.kubernetes.translate.kind_table import KindRule, group_of

_BUILTIN_GROUPS = ("", "apps", "batch")
_SCALED = (
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("apps", "ReplicaSet"),
    ("", "ReplicationController"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
)
"""Kinds that have no pods while `spec.replicas` is 0."""
_STOPPED_BY = {
    ("kubeflow.org", "Notebook"): "kubeflow-resource-stopped",
    ("serving.kserve.io", "InferenceService"): "serving.kserve.io/stop",
    ("serving.kserve.io", "LLMInferenceService"): "serving.kserve.io/stop",
}
"""Kinds whose controller removes the pods while the object has an annotation."""


def kubectl(verb: str, namespace: str, api_version: str, kind: str, name: str, *words: str) -> str:
    """Return a command about an object; its kind has the group, unless it is one of Kubernetes itself."""
    group = group_of(api_version)
    resource = kind.lower() if group in _BUILTIN_GROUPS else f"{kind.lower()}.{group}"
    return shlex.join(["kubectl", verb, "-n", namespace, resource, name, *words])


def suspension_command(
    namespace: str, api_version: str, kind: str, name: str, steps: Steps, *, suspend: bool
) -> str:
    """Return the command that suspends or resumes an object; empty if its kind has no such state.

    `steps`: the field that suspends it; empty without one.
    """
    of_kind = (group_of(api_version), kind)
    if steps:
        change: object = suspend
        for step in reversed(steps):
            change = {step: change}
        words = ["--type", "merge", "--patch", json.dumps(change)]
        return kubectl("patch", namespace, api_version, kind, name, *words)
    if of_kind in _SCALED:
        return kubectl("scale", namespace, api_version, kind, name, "--replicas", "0" if suspend else "1")
    if annotation := _STOPPED_BY.get(of_kind):
        word = f"{annotation}=true" if suspend else f"{annotation}-"
        return kubectl("annotate", namespace, api_version, kind, name, word)
    return ""


def suspending_field(rule: KindRule) -> Steps:
    """Return the field of objects of an entry that suspends them; empty if there is none."""
    condition = rule.suspended
    if condition is None or condition.type or condition.words or "*" in condition.steps:
        return ()
    return condition.steps


def resume_command(rule: KindRule, owner: Mapping[str, Any]) -> str:
    """Return the command that resumes an object of an entry; empty if there is none."""
    metadata = owner.get("metadata", {})
    named = (str(metadata.get("namespace", "")), str(owner.get("apiVersion", "")))
    kind, name = str(owner.get("kind", "")), str(metadata.get("name", ""))
    return suspension_command(*named, kind, name, suspending_field(rule), suspend=False)


def stop_reason(rule: KindRule, owner: Mapping[str, Any]) -> str:
    """Return why an object has no pods until it is resumed, as a clause; empty if it isn't stopped."""
    api_version, kind = str(owner.get("apiVersion", "")), str(owner.get("kind", ""))
    of_kind = (group_of(api_version), kind)
    annotation = _STOPPED_BY.get(of_kind, "")
    if rule.suspended is not None and rule.suspended.holds(owner):
        steps = suspending_field(rule)
        return f"{'.'.join(steps)} is true" if steps else "it is suspended"
    if annotation and annotation in (owner["metadata"].get("annotations") or {}):
        return f"it has the annotation {annotation}"
    if of_kind in _SCALED and one_at(owner, ("spec", "replicas")) == 0:
        return "spec.replicas is 0"
    return ""
