"""Actions of tests on a control plane: add nodes and namespaces, wait for a state, and empty it again."""

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tools.controlplane.api import Api, ApiError, Object
from tools.controlplane.enforcement import wait_for_policies, wait_for_webhooks
from tools.controlplane.nodes import nodes as nodes_alike
from tools.controlplane.plane import ALL_RIGHTS, ControlPlane
from tools.controlplane.queries import named_apis, withdraw
from tools.controlplane.stored_keys import Stored, stored

Seen = TypeVar("Seen")
PATIENCE_S = 300.0
"""Time that a wait may take, on a slow and loaded machine too. No test waits that long when all is well."""
_HOOKS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}"
    for kind in (
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicies",
    )
)
_OWNERS = (
    *("/apis/batch/v1/cronjobs", "/apis/batch/v1/jobs"),
    *(f"/apis/apps/v1/{kind}" for kind in ("deployments", "daemonsets", "statefulsets", "replicasets")),
    "/api/v1/replicationcontrollers",
)
_WEIR = "/apis/weir.dev/v1alpha1"
_VOLUMES = "/api/v1/persistentvolumes"
_OTHERS = (
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/resourcequotas",
    "/apis/storage.k8s.io/v1/csistoragecapacities",
    *(f"/apis/resource.k8s.io/v1/{kind}" for kind in ("resourceclaims", "resourceslices", "deviceclasses")),
    f"{_WEIR}/workloads",
    f"{_WEIR}/sweeps",
    "/api/v1/nodes",
    _VOLUMES,
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    *(
        f"{_WEIR}/{kind}"
        for kind in ("projects", "departments", "topologies", "schedulerconfigs", "sharednodes")
    ),
)
_QUERIES = "v1.query.weir.dev"
_PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_BINDINGS_STAY = ("cluster-admin", "system:", ALL_RIGHTS)
"""Beginnings of the names of those of Kubernetes itself and of the plane."""
_STAYS = ("default", "kube-system", "kube-public", "kube-node-lease")
_NOT_READY = "node.kubernetes.io/not-ready"
"""Taint of a node that isn't ready; a controller takes it off a moment after the node is."""
_ONCE = "once-"
"""Prefix of namespaces that one test uses. They stay, because removing one takes a hundred requests."""
_numbers = itertools.count(1)


class Cluster:
    """A control plane as one test uses it."""

    def __init__(self, plane: ControlPlane, *, patience_s: float = PATIENCE_S) -> None:
        self.plane = plane
        self.api: Api = plane.api
        self._patience_s = patience_s

    def add_nodes(self, count: int, *, gpus: int = 8, **like: Any) -> list[str]:
        """Add equal, ready nodes (see nodes.py), and return their names."""
        return self.add(nodes_alike(count, gpus=gpus, **like))

    def add(self, nodes: Sequence[Object]) -> list[str]:
        """Add nodes, wait until they are ready and take pods, and return their names."""
        self.api.create_many(nodes)
        names = {node["metadata"]["name"] for node in nodes}
        self.until(lambda: names <= self._ready(), "the nodes to be ready")
        return sorted(names)

    def namespace(self, name: str | None = None, labels: dict[str, str] | None = None) -> str:
        """Make a namespace in which pods can be made; without a name, a new one is chosen."""
        if name is None:
            name = f"{_ONCE}{next(_numbers)}-{time.monotonic_ns() % 10**6}"
        else:
            self.until(lambda: not self._going(name), lambda: self._why_going(name))
        metadata = {"name": name, "labels": labels or {}}
        self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        self.api.apply({**account, "metadata": {"name": "default", "namespace": name}})
        return name

    def pods(self, namespace: str | None = None, selector: str = "") -> list[Object]:
        """Return all pods, or those of one namespace."""
        within = f"/namespaces/{namespace}" if namespace else ""
        return self.api.items(f"/api/v1{within}/pods" + (f"?labelSelector={selector}" if selector else ""))

    def running(self, namespace: str | None = None) -> dict[str, str]:
        """Node by name of each pod that runs and isn't being deleted."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.pods(namespace)
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def until(self, see: Callable[[], Seen], subject: str | Callable[[], str] = "it") -> Seen:
        """Wait for something to be true, and return it. It is looked for the seldomer the longer it takes.

        Raises:
            AssertionError: it didn't become true in time.
        """
        begun = time.monotonic()
        while not (seen := see()):
            if time.monotonic() > begun + self._patience_s:
                answer = subject if isinstance(subject, str) else subject()
                raise AssertionError(f"waited {self._patience_s:g} s for {answer}; last seen: {seen!r}")
            time.sleep(min(0.6, 0.08 + (time.monotonic() - begun) / 5))
        return seen

    def empty(self, *, policies: bool = True) -> None:
        """Remove what a test may have left: work, pods, nodes, people's rights, Weir's objects, namespaces.

        The kinds of Weir and the rights of its service accounts stay.

        Without `policies` the admission policies and webhooks stay, for the next test.
        """
        objects = stored(self.plane.etcd)
        self._withdraw(objects)
        for path in (*(_HOOKS if policies else ()), *_OWNERS):
            self._sweep(path, objects)
        if objects["pods"] or any(objects[_plural(path)] for path in _OWNERS):
            self.until(self._no_pods, self._why_pods)
            objects = stored(self.plane.etcd) | {_plural(path): objects[_plural(path)] for path in _HOOKS}
        for path in _OTHERS:
            self._sweep(path, objects)
        self._wait_for_volumes(objects)
        for kind in ("projects", "departments"):
            self._release(kind, objects)
        for _, name in objects["priorityclasses"]:
            if not name.startswith("system-"):
                self.api.delete(f"{_PRIORITIES}/{name}")
        self._unbind(objects)
        for _, name in objects["namespaces"]:
            if name not in _STAYS and not name.startswith(_ONCE):
                self.api.delete(f"/api/v1/namespaces/{name}")
        if not policies:
            return
        if objects["validatingadmissionpolicies"]:
            wait_for_policies(self.api)
        if any(objects[_plural(path)] for path in _HOOKS if "webhook" in path):
            wait_for_webhooks(self.api)

    def _withdraw(self, objects: Stored) -> None:
        """Delete the APIService: without what answers it, no namespace can end."""
        if any(name == _QUERIES for _, name in objects["apiservices"]):
            withdraw(self.api)

    def _unbind(self, objects: Stored) -> None:
        """Take away the rights of people in all namespaces: another test has people of the same names."""
        for _, name in objects["clusterrolebindings"]:
            if name.startswith(_BINDINGS_STAY):
                continue
            binding = self.api.maybe(f"{_BINDINGS}/{name}") or {}
            if any(subject["kind"] != "ServiceAccount" for subject in binding.get("subjects", ())):
                self.api.delete(f"{_BINDINGS}/{name}")

    def _release(self, kind: str, objects: Stored) -> None:
        """Take away the finalizers of queues: the Weir that would is gone."""
        for _, name in objects[kind]:
            with suppress(ApiError):  # it is gone
                self.api.patch(f"{_WEIR}/{kind}/{name}", {"metadata": {"finalizers": None}})

    def _wait_for_volumes(self, objects: Stored) -> None:
        """Wait until no volume is left: each stays until its claim is gone, and keeps its name until then."""
        if objects["persistentvolumes"]:
            self.until(lambda: not self.api.items(_VOLUMES), "the volumes to be gone")

    def _ready(self) -> set[str]:
        return {
            node["metadata"]["name"]
            for node in self.api.items("/api/v1/nodes")
            if any(
                one["type"] == "Ready" and one["status"] == "True"
                for one in node["status"].get("conditions", [])
            )
            and not any(one["key"] == _NOT_READY for one in node["spec"].get("taints", []))
        }

    def _going(self, name: str) -> bool:
        namespace = self.api.maybe(f"/api/v1/namespaces/{name}")
        return namespace is not None and namespace["status"]["phase"] == "Terminating"

    def _why_going(self, name: str) -> str:
        """Return a sentence with the obstacles of a namespace's end, which is tried again once a minute."""
        namespace = self.api.maybe(f"/api/v1/namespaces/{name}") or {"status": {}}
        holds = [
            one["message"] for one in namespace["status"].get("conditions", []) if one["status"] == "True"
        ]
        return f"the namespace {name} to be free: {' '.join(holds)}; {named_apis(self.api)}"

    def _no_pods(self) -> bool:
        left = self.pods()
        for namespace in {pod["metadata"]["namespace"] for pod in left}:
            self.api.delete(f"/api/v1/namespaces/{namespace}/pods", grace_s=0)
        return not left

    def _why_pods(self) -> str:
        """Return a sentence with the pods that are left and what keeps them."""
        pods = [pod["metadata"] for pod in self.pods()]
        left = [f"{pod['namespace']}/{pod['name']} {pod.get('finalizers', [])}" for pod in pods]
        return f"the pods to be gone, with their finalizers: {', '.join(left)}"

    def _sweep(self, path: str, objects: Stored) -> None:
        """Delete the objects of a kind that are there, by namespace."""
        root, _, plural = path.rpartition("/")
        for namespace in {namespace for namespace, _ in objects[plural]}:
            self.api.delete(f"{root}/namespaces/{namespace}/{plural}" if namespace else path, grace_s=0)


def _plural(path: str) -> str:
    return path.rpartition("/")[2]
