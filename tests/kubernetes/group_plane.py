"""A control plane that serves the pod groups of `scheduling.k8s.io`, which no release serves by default."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tools.controlplane.api import Object
from tools.controlplane.binaries import RELEASE, Binaries, chosen_release
from tools.controlplane.plane import ControlPlane


@dataclass(frozen=True, slots=True)
class GroupForm:
    """Form of pod groups in one release of Kubernetes."""

    api: str
    features: tuple[str, ...]
    condition: str = ""  # of a group that is placed; empty: groups have no status
    stops_whole: object = None  # the disruption mode of pods that are stopped together
    in_workload: bool = False  # groups are parts of a `Workload`
    has_topology: bool = True

    def group(self, namespace: str, name: str, least: int = 0, **spec: Any) -> Object:
        """Return a pod group: of pods that start together, or of pods that don't."""
        policy: Object = {"gang": {"minCount": least}} if least else {"basic": {}}
        groups: Object = {"podGroups": [{"name": "pods", "policy": policy}]}
        return {
            "apiVersion": self.api,
            "kind": "Workload" if self.in_workload else "PodGroup",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {**(groups if self.in_workload else {"schedulingPolicy": policy}), **spec},
        }

    def reference(self, name: str) -> Object:
        """Return the fields of a pod's spec that name a group."""
        if self.in_workload:
            return {"workloadRef": {"name": name, "podGroup": "pods"}}
        return {"schedulingGroup": {"podGroupName": name}}

    def path(self, namespace: str, name: str) -> str:
        """Return the path of a group."""
        kind = "workloads" if self.in_workload else "podgroups"
        return f"/apis/{self.api}/namespaces/{namespace}/{kind}/{name}"

    def workload(self, name: str) -> str:
        """Return the name of Weir's workload of a group."""
        return f"workload-{name}-pods" if self.in_workload else f"podgroup-{name}"

    def missing(self, name: str) -> str:
        """Return the sentence of a pod whose group isn't there."""
        if self.in_workload:
            return f"Its pod group pods of its Workload {name} isn't there."
        return f"Its PodGroup {name} isn't there."


_FORMS = {
    "1.35": GroupForm(
        "scheduling.k8s.io/v1alpha1",
        ("GenericWorkload", "GangScheduling"),
        in_workload=True,
        has_topology=False,
    ),
    "1.36": GroupForm(
        "scheduling.k8s.io/v1alpha2",
        ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"),
        condition="PodGroupScheduled",
        stops_whole="PodGroup",
    ),
    "1.37": GroupForm(
        "scheduling.k8s.io/v1beta1",
        ("GenericWorkload", "TopologyAwareWorkloadScheduling"),
        condition="PodGroupInitiallyScheduled",
        stops_whole={"all": {}},
    ),
}
GROUPS_API = _FORMS.get(chosen_release(), _FORMS[RELEASE]).api


def form_of(binaries: Binaries) -> GroupForm:
    """Return the form of pod groups of a control plane; skip the test if its release has none."""
    if binaries.release not in _FORMS:
        pytest.skip(f"Kubernetes {binaries.release} has no pod groups.")
    return _FORMS[binaries.release]


@contextmanager
def plane_with_groups(
    binaries: Binaries, features: Sequence[str] = (), apis: Sequence[str] = ()
) -> Iterator[ControlPlane]:
    """Run such a control plane, with further features and APIs."""
    os.environ.setdefault("GOGC", "800")
    form = form_of(binaries)
    features, apis = (*form.features, *features), (form.api, *apis)
    with ControlPlane(binaries, features=features, alpha_apis=apis) as running:
        running.grant_all("weir")
        yield running
