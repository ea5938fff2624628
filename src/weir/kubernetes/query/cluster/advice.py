"""Suggestions on a cluster: the field, the annotation or the command that carries one out."""

import json
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from weir.api.answers import Suggestion
from weir.kubernetes.crd.objects import OwnerFields
from weir.kubernetes.translate.owner_commands import kubectl

_FIXED_TEMPLATES = ("Job", "Pod")
"""Kinds whose pod templates can't be changed after their creation."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Writes the commands that change the owner of a workload's pods."""

    namespace: str
    owner: OwnerFields
    pod_annotations: Collection[str] = ()
    resumer: str = ""  # clause: the program that resumes it; empty if people do
    resume: str = ""  # command that resumes it, for kinds other than Jobs; empty if there is none

    @property
    def is_fixed(self) -> bool:
        """Return True if a change needs new pods."""
        return self.owner.kind in _FIXED_TEMPLATES

    def kubectl(self, verb: str, *words: str) -> str:
        """Return a kubectl command about the object."""
        owner = self.owner
        return kubectl(verb, self.namespace, owner.api_version, owner.kind, owner.name, *words)

    def annotate(self, name: str, value: str) -> str:
        """Return how to set an annotation."""
        key = f"weir.dev/{name}"
        if self.owner.kind == "Pod" or key in self.pod_annotations:
            return f"{self.again()} with the annotation {key}: {json.dumps(value)}"
        return self.kubectl("annotate", f"{key}={value}", "--overwrite")

    def field(self, words: str) -> str:
        """Return how to change a field of the pods."""
        if self.is_fixed:
            return f"{self.again()} with {words}"
        return f"{self.kubectl('edit')}: {words}"

    def again(self) -> str:
        """Return the remedy for an object whose pods can't be changed."""
        return f"its pods can't be changed: delete the {self.owner.kind} and make it again"


def advised(
    suggestion: Suggestion, name: str, owner: Owner, gpu_resource: str, classes: Mapping[int, str]
) -> Suggestion:
    """Return the suggestion with how to follow it; `classes` are the cluster's PriorityClasses by value."""
    return suggestion.model_copy(
        update={"how": _how(suggestion.change, name, owner, gpu_resource, classes) or ""}
    )


def _how(
    change: Mapping[str, object], name: str, owner: Owner, gpu_resource: str, classes: Mapping[int, str]
) -> str | None:
    action: str | None = None
    match change:
        case {"suspended": False} if owner.resumer:
            action = owner.resumer
        case {"suspended": False} if owner.owner.kind == "Job":
            action = f"weir resume {name}"
        case {"suspended": False}:
            action = owner.resume
        case {"pods": int(pods)}:
            action = owner.annotate("min-pods", str(pods))
        case {"gpus": int(gpus)}:
            action = owner.field(f"{gpu_resource}: {gpus} in the limits of its containers")
        case {"topology": {"name": topology, "preferred": level}}:
            action = owner.annotate("topology", f"{topology}:preferred={level}")
        case {"priority": int(priority)} if priority in classes:
            action = owner.field(f"priorityClassName: {classes[priority]}")
        case {"preemptible": True}:
            action = owner.annotate("preemptible", "true")
        case {"quota": {**quotas}}:
            limits = change.get("limit")
            action = _quota_patch(quotas, limits if isinstance(limits, dict) else {})
        case {"cpu": _} | {"memory": _}:
            requests = [f"{key}: {change[key]}" for key in ("cpu", "memory") if key in change]
            action = owner.field(f"{', '.join(requests)} in the requests of its containers")
    return action


def _quota_patch(quotas: Mapping[object, object], limits: Mapping[object, object]) -> str:
    """Return the kubectl command that sets the GPU quota of a project, and its limit if one is given."""
    ((project, gpus),) = quotas.items()
    spec = {"quota": {"gpu": gpus}, **({"limit": {"gpu": limits[project]}} if project in limits else {})}
    words = ["kubectl", "patch", "projects.weir.dev", str(project), "--type", "merge"]
    return shlex.join([*words, "--patch", json.dumps({"spec": spec})])
