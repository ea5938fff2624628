"""What tests do with a control plane: nodes, namespaces, waiting for something, and emptying it again."""

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tools.controlplane.api import Api, ApiError, Object
from tools.controlplane.nodes import nodes as nodes_alike
from tools.controlplane.plane import ControlPlane

Seen = TypeVar("Seen")
_OWNERS = (
    *(
        "/apis/batch/v1/cronjobs",
        "/apis/batch/v1/jobs",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/daemonsets",
    ),
    *("/apis/apps/v1/statefulsets", "/apis/apps/v1/replicasets", "/api/v1/replicationcontrollers"),
)
_NAMESPACED = (
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/resourcequotas",
    "/apis/storage.k8s.io/v1/csistoragecapacities",
    "/apis/resource.k8s.io/v1/resourceclaims",
)
_HOOKS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}"
    for kind in (
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicies",
    )
)
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_WHOLE = (
    *("/api/v1/nodes", "/api/v1/persistentvolumes"),
    *(f"/apis/storage.k8s.io/v1/{kind}" for kind in ("storageclasses", "csinodes")),
)
_WEIR = "/apis/weir.dev/v1alpha1"
_STAYS = ("default", "kube-system", "kube-public", "kube-node-lease")
_ONCE = "once-"
"""How namespaces of one test are named. Nobody comes to them again; removing one takes a hundred requests."""
_numbers = itertools.count(1)


class Cluster:
    """A control plane as one test uses it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.api: Api = plane.api

    def add_nodes(self, count: int, *, gpus: int = 8, **like: Any) -> list[str]:
        """So many nodes alike (see nodes.py), ready; their names."""
        return self.add(nodes_alike(count, gpus=gpus, **like))

    def add(self, nodes: Sequence[Object]) -> list[str]:
        """These nodes, ready; their names."""
        self.api.create_many(nodes)
        names = {node["metadata"]["name"] for node in nodes}
        self.until(lambda: names <= self._ready(), 60, "the nodes to be ready")
        return sorted(names)

    def namespace(self, name: str | None = None, labels: dict[str, str] | None = None) -> str:
        """A namespace in which pods can be made; without a name one nobody has."""
        name = name or f"{_ONCE}{next(_numbers)}-{time.monotonic_ns() % 10**6}"
        self.until(lambda: not self._going(name), 60, f"the namespace {name} to be free")
        metadata = {"name": name, "labels": labels or {}}
        self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        self.until(lambda: self.api.maybe(account), 120, f"the service account of {name}")
        return name

    def pods(self, namespace: str | None = None, selector: str = "") -> list[Object]:
        """All pods, or those of one namespace."""
        within = f"/namespaces/{namespace}" if namespace else ""
        return self.api.items(f"/api/v1{within}/pods" + (f"?labelSelector={selector}" if selector else ""))

    def running(self, namespace: str | None = None) -> dict[str, str]:
        """Node by name of each pod that runs and isn't being deleted."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.pods(namespace)
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def until(
        self, see: Callable[[], Seen], seconds: float = 120, what: str | Callable[[], str] = "it"
    ) -> Seen:
        """Wait for something to be true, and return it. It is looked for the seldomer the longer it takes.

        Raises:
            AssertionError: it didn't become true in time.
        """
        begun = time.monotonic()
        end = begun + seconds
        while not (seen := see()):
            if time.monotonic() > end:
                said = what if isinstance(what, str) else what()
                raise AssertionError(f"waited {seconds:g} s for {said}; last seen: {seen!r}")
            time.sleep(min(0.3, 0.03 + (time.monotonic() - begun) / 10))
        return seen

    def empty(self) -> None:
        """Remove what a test may have left: work, pods, nodes, Weir's objects, namespaces. Its kinds stay."""
        had_policies = bool(self.api.items(_POLICIES))
        for path in _HOOKS:
            self._sweep(path)
        for path in _OWNERS:
            self._sweep_everywhere(path)
        self.until(self._no_pods, 120, "the pods to be gone")
        for path in (*_NAMESPACED, f"{_WEIR}/workloads"):
            self._sweep_everywhere(path)
        for path in (
            *_WHOLE,
            *(f"{_WEIR}/{kind}" for kind in ("projects", "departments", "topologies", "schedulerconfigs")),
        ):
            self._sweep(path)
        self._release_queues()
        for one in self.api.items("/apis/scheduling.k8s.io/v1/priorityclasses"):
            if not one["metadata"]["name"].startswith("system-"):
                self.api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{one['metadata']['name']}")
        for one in self.api.items("/api/v1/namespaces"):
            name = one["metadata"]["name"]
            if name not in _STAYS and not name.startswith(_ONCE):
                self.api.delete(f"/api/v1/namespaces/{name}")
        if had_policies:
            self.until(self._takes_any_pod, 120, "the policies to be out of force")

    def _release_queues(self) -> None:
        """Take away the finalizers of queues: the Weir that would is gone."""
        for kind in ("projects", "departments"):
            with suppress(ApiError):  # the kind isn't installed, or an object is gone meanwhile
                for one in self.api.items(f"{_WEIR}/{kind}"):
                    if one["metadata"].get("finalizers"):
                        path = f"{_WEIR}/{kind}/{one['metadata']['name']}"
                        self.api.patch(path, {"metadata": {"finalizers": None}})

    def _takes_any_pod(self) -> bool:
        """Return True if a pod passes that any policy of Weir would refuse."""
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "none", "uid": "none"}
        gpu = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        probe = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "probe", "annotations": {"weir.dev/gpus": "0"}, "ownerReferences": [owner]},
            "spec": {"nodeName": "none", "schedulerName": "none", "containers": [gpu]},
        }
        try:
            self.api.post("/api/v1/namespaces/default/pods?dryRun=All", probe)
        except ApiError:
            return False
        return True

    def _ready(self) -> set[str]:
        return {
            node["metadata"]["name"]
            for node in self.api.items("/api/v1/nodes")
            if any(
                one["type"] == "Ready" and one["status"] == "True"
                for one in node["status"].get("conditions", [])
            )
        }

    def _going(self, name: str) -> bool:
        there = self.api.maybe(f"/api/v1/namespaces/{name}")
        return there is not None and there["status"]["phase"] == "Terminating"

    def _no_pods(self) -> bool:
        left = self.pods()
        for namespace in {pod["metadata"]["namespace"] for pod in left}:
            self.api.delete(f"/api/v1/namespaces/{namespace}/pods", grace_s=0)
        return not left

    def _sweep_everywhere(self, path: str) -> None:
        try:
            there = self.api.items(path)
        except ApiError as why:
            if why.code == 404:
                return  # a kind that isn't installed
            raise
        root, _, plural = path.rpartition("/")
        for namespace in {one["metadata"]["namespace"] for one in there}:
            self._sweep(f"{root}/namespaces/{namespace}/{plural}")

    def _sweep(self, path: str) -> None:
        try:
            self.api.delete(path, grace_s=0)
        except ApiError as why:
            if why.code != 405:
                raise
