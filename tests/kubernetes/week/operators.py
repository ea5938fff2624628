"""Controllers of custom kinds, reduced to what a scheduler sees of them: they make pods, and make them again.

A Job, StatefulSet or Deployment is made by the real controllers. The others are objects with the spec that
people write, and an annotation with the list of pods that their controller would make.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from tests.kubernetes.week.objects import template
from tests.kubernetes.week.snapshot import MIN
from tools.controlplane.api import Api, ApiError, Object
from tools.controlplane.nodes import RUNS

PODS = "week.example.com/pods"
RUNS_S = "week.example.com/runs"
KINDS: Mapping[str, tuple[str, str]] = {
    "PyTorchJob": ("kubeflow.org/v1", "pytorchjobs"),
    "MPIJob": ("kubeflow.org/v2beta1", "mpijobs"),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "jobsets"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    "RayCluster": ("ray.io/v1", "rayclusters"),
    "SparkApplication": ("sparkoperator.k8s.io/v1beta2", "sparkapplications"),
}
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CONFLICT, _NOT_FOUND = 409, 404


class Operators:
    """Simulated operators of a cluster, which act on request."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.installed: set[str] = set()
        self.objects: dict[str, dict[tuple[str, str], Object]] = {}

    def install(self, kind: str, more_versions: Sequence[str] = ()) -> None:
        """Define a kind; again with further versions, as an upgrade of its operator does."""
        api_version, plural = KINDS[kind]
        group, _, version = api_version.partition("/")
        anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        versions = [
            {
                "name": name,
                "served": True,
                "storage": name == version,
                "schema": anything,
                "subresources": {"status": {}},
            }
            for name in (version, *more_versions)
        ]
        names = {"kind": kind, "plural": plural, "singular": kind.lower()}
        approved = {"api-approved.kubernetes.io": "unapproved, for tests"}
        self._api.apply(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.{group}", "annotations": approved},
                "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
            }
        )
        self.installed.add(kind)

    def uninstall(self) -> None:
        """Remove all kinds."""
        for kind in self.installed:
            api_version, plural = KINDS[kind]
            self._api.delete(f"{_DEFINITIONS}/{plural}.{api_version.partition('/')[0]}")

    def submit(
        self,
        kind: str,
        namespace: str,
        name: str,
        spec: Object,
        pods: Sequence[tuple[str, int, Mapping[str, str]]],
        *,
        least: int,
        runs_s: float | None,
        marks: Mapping[str, str] | None = None,
    ) -> Object:
        """Create an object and the list of its pods: (name, GPUs, labels) each.

        Args:
            least: how many of the pods it can't do without.
            runs_s: how long each pod runs; None for ever.
            marks: further annotations of the object.
        """
        api_version, plural = KINDS[kind]
        annotations = {PODS: json.dumps(pods), MIN: str(least), **(marks or {})}
        if runs_s is not None:
            annotations[RUNS_S] = f"{runs_s:.1f}s"
        made = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            "spec": spec,
        }
        return self._api.post(f"/apis/{api_version}/namespaces/{namespace}/{plural}", made)

    def path(self, kind: str, found: Object) -> str:
        """Return where an object is."""
        api_version, plural = KINDS[kind]
        metadata = found["metadata"]
        return f"/apis/{api_version}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"

    def work(self, pods: Mapping[tuple[str, str], Object]) -> None:
        """Look at all objects once: make the pods they lack, and end those whose pods have ended."""
        for kind in sorted(self.installed):
            api_version, plural = KINDS[kind]
            try:
                found = self._api.items(f"/apis/{api_version}/{plural}")
            except ApiError as why:
                if why.code != _NOT_FOUND:
                    raise
                continue  # not served yet
            self.objects[kind] = {}
            for each in found:
                metadata = each["metadata"]
                self.objects[kind][metadata["namespace"], metadata["name"]] = each
                if "deletionTimestamp" not in metadata:
                    with suppress(ApiError):  # its namespace is going, or a pod of that name is
                        self._tend(kind, each, pods)

    def _tend(self, kind: str, owner: Object, pods: Mapping[tuple[str, str], Object]) -> None:
        metadata = owner["metadata"]
        annotations = metadata["annotations"]
        wanted: list[tuple[str, int, dict[str, str]]] = json.loads(annotations[PODS])
        phases = []
        is_suspended = is_owner_suspended(owner)
        for name, gpus, labels in wanted:
            there = pods.get((metadata["namespace"], name))
            if is_suspended:
                if there is not None and "deletionTimestamp" not in there["metadata"]:
                    self._api.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{name}")
                continue
            phase = "" if there is None else there["status"].get("phase", "")
            phases.append(phase)
            if phase == "Failed" and "deletionTimestamp" not in there["metadata"]:  # type: ignore[index]
                self._api.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{name}")
            elif there is None and not _is_over(owner):
                self._create(kind, owner, name, gpus, labels)
        if phases and all(phase == "Succeeded" for phase in phases):
            self._end(kind, owner)

    def _create(self, kind: str, owner: Object, name: str, gpus: int, labels: Mapping[str, str]) -> None:
        metadata = owner["metadata"]
        runs = metadata["annotations"].get(RUNS_S)
        made: dict[str, Any] = template(gpus, labels=labels, annotations={RUNS: runs} if runs else {})
        reference = {"apiVersion": KINDS[kind][0], "kind": kind, "controller": True}
        reference |= {"name": metadata["name"], "uid": metadata["uid"], "blockOwnerDeletion": True}
        made["metadata"] |= {"name": name, "namespace": metadata["namespace"], "ownerReferences": [reference]}
        try:
            self._api.create({"apiVersion": "v1", "kind": "Pod", **made})
        except ApiError as why:
            if why.code != _CONFLICT:
                raise

    def _end(self, kind: str, owner: Object) -> None:
        """Write that it is over, and delete it a while later as its time to live says."""
        if _is_over(owner):
            self._api.delete(self.path(kind, owner))
            return
        word = {"JobSet": "Completed"}.get(kind, "Succeeded")
        condition = {"type": word, "status": "True", "reason": word, "message": ""}
        status = {"conditions": [condition], "applicationState": {"state": "COMPLETED"}}
        self._api.patch(f"{self.path(kind, owner)}/status", {"status": status})


def is_owner_suspended(owner: Object) -> bool:
    """Return True if an object is suspended, by whichever field its kind has for that."""
    spec = owner.get("spec") or {}
    return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))


def _is_over(owner: Object) -> bool:
    conditions = (owner.get("status") or {}).get("conditions") or []
    return any(each["type"] in ("Succeeded", "Completed") for each in conditions)
