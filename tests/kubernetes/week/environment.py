"""The cluster of the week: its nodes, teams and quotas, and what situations ask about it."""

import random
from functools import cached_property
from itertools import count
from typing import Any

from tests.kubernetes.claim_objects import gpu_class, gpu_slice
from tests.kubernetes.group_plane import GROUPS_API
from tests.kubernetes.week.operators import Operators
from tests.kubernetes.week.oracle import RACK
from tests.kubernetes.week.pods import PodView
from tests.kubernetes.week.replicas import Replicas
from tests.kubernetes.week.snapshot import Gang, Snapshot
from tools.controlplane.api import MERGE, Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.weir import project

GPUS = 8
WHOLE_NODES, RACK_NODES = 6, 2
SHARED, CPU_NODE = "shared-0", "cpu-0"
CLAIMED, CLAIMED_GPUS = ("claims-0", "claims-1"), 4
"""Nodes whose GPUs are devices of slices."""
FREE = "free"
"""A namespace without a project: its pods are another scheduler's."""
STATIC_CLASS = "static"
WAITING_MAX, PODS_MAX = 24, 90
WEIR = "/apis/weir.dev/v1alpha1"
TEAMS = {
    "blue": ("research", 16, ("blue-a", "blue-b")),
    "green": ("research", 12, ("green-a",)),
    "red": ("product", 12, ("red-a",)),
    "guest": ("product", 2, ("guest-a",)),
}
"""Project: its department, its quota of GPUs, its namespaces."""
DEPARTMENTS = {"research": 28, "product": 14}


class Environment:
    """Everything that situations act on.

    Args:
        cluster: empty, with Weir's kinds.
        replicas: the instances of Weir.
        seed: decides everything that is left to chance.
    """

    def __init__(self, cluster: Cluster, replicas: Replicas, seed: int) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.replicas = replicas
        self.chance = random.Random(seed)
        self.operators = Operators(cluster.api)
        self.snapshot: Snapshot
        self.later: list[tuple[int, str, Any]] = []
        self.step = 0
        self._numbers = count(1)

    def set_up(self) -> None:
        """Make nodes, departments, projects and namespaces."""
        self.cluster.add([self.new_node(f"gpu-{at}", at) for at in range(WHOLE_NODES)])
        shared = node(SHARED, gpus=2, labels={"weir.dev/gpu-sharing": "true", RACK: "rack-9"})
        self.cluster.add([shared, node(CPU_NODE, gpus=0, cpu=32, memory_gib=64)])
        self.cluster.add([node(name, gpus=0) for name in CLAIMED])
        self.api.create(gpu_class(), *(gpu_slice(name, CLAIMED_GPUS) for name in CLAIMED))
        for name, gpus in DEPARTMENTS.items():
            self.api.create(_department(name, gpus))
        for name, (department, gpus, namespaces) in TEAMS.items():
            for namespace in namespaces:
                self.cluster.namespace(namespace)
            self.api.create(project(name, gpus, namespaces, department=department))
        self.cluster.namespace(FREE)
        topology = {"levels": [RACK, "kubernetes.io/hostname"]}
        self.api.create(_queue("Topology", "net", topology))
        self.api.apply(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": STATIC_CLASS},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "Immediate",
            }
        )

    @cached_property
    def has_groups(self) -> bool:
        """Return True if the API server has pod groups."""
        return self.api.maybe(f"/apis/{GROUPS_API}") is not None

    def new_node(self, name: str, rack: int, **more: Any) -> Object:
        """Return a node with whole GPUs, in a rack."""
        labels = {RACK: f"rack-{rack // RACK_NODES}", "pool": "main", **more.pop("labels", {})}
        return node(name, gpus=GPUS, labels=labels, **more)

    # What is there

    def name(self, prefix: str) -> str:
        """Return a name that nothing has had yet."""
        return f"{prefix}-{next(self._numbers)}"

    def pick(self, things: Any) -> Any:
        """Return one of these by chance, None if there are none."""
        listed = list(things)
        return self.chance.choice(listed) if listed else None

    def space(self) -> str:
        """Return a namespace of a project that takes work."""
        names = [
            namespace
            for each in self.snapshot.projects.values()
            if "deletionTimestamp" not in each["metadata"]
            for namespace in each["spec"].get("namespaces", [])
            if self.is_open(namespace) and len(self.snapshot.projects_of(namespace)) == 1
        ]
        return str(self.chance.choice(sorted(names) or ["blue-a"]))

    def is_open(self, namespace: str) -> bool:
        """Return True if objects can be made in a namespace."""
        found = self.snapshot.of["namespaces"].get(("", namespace))
        return found is not None and found["status"].get("phase") == "Active"

    def life_s(self) -> float:
        """Return a run time: some minutes to an hour, a hundred times shorter."""
        return min(40.0, self.chance.lognormvariate(1.8, 0.8))

    @property
    def is_full(self) -> bool:
        """Return True if enough waits already, so that a long run has no more objects than a short one."""
        waiting = sum(pod.waits for pod in self.snapshot.pods)
        return waiting > WAITING_MAX or len(self.snapshot.pods) > PODS_MAX

    def objects(self, resource: str, prefix: str = "") -> list[Object]:
        """Return the objects of a resource in open namespaces that aren't being deleted."""
        return [
            each
            for (namespace, name), each in sorted(self.snapshot.of[resource].items())
            if name.startswith(prefix)
            and "deletionTimestamp" not in each["metadata"]
            and namespace != self.replicas.installed.namespace
            and (not namespace or self.is_open(namespace))
        ]

    def pods(self, **wanted: bool) -> list[PodView]:
        """Return pods of which these properties hold, in the order of their names."""
        found = [pod for pod in self.snapshot.pods if pod.namespace != "kube-system"]
        found = [pod for pod in found if all(getattr(pod, word) == value for word, value in wanted.items())]
        return sorted(found, key=lambda pod: pod.full_name)

    def gangs(self) -> list[Gang]:
        """Return the gangs with pods, in the order of their names."""
        return sorted(self.snapshot.gangs.values(), key=lambda each: each.full_name)

    def gpu_nodes(self) -> list[str]:
        """Return the nodes with whole GPUs."""
        return sorted(name for name, each in self.snapshot.nodes.items() if each.gpus and name != SHARED)

    # What is done

    def create(self, *objects: Object) -> str:
        """Create objects, and say which."""
        self.api.create(*objects)
        return ", ".join(path_of(each) for each in objects)

    def patch(self, path: str, body: Object) -> None:
        self.api.patch(path, body, MERGE)

    def after(self, steps: int, what: str, act: Any) -> None:
        """Do something a number of steps later; leave out what is no longer possible then."""
        self.later.append((self.step + steps, what, act))


def path_of(each: Object) -> str:
    """Return how a step of the log calls an object."""
    metadata = each["metadata"]
    within = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{each['kind']} {within}{metadata['name']}"


def _department(name: str, gpus: int) -> Object:
    return _queue("Department", name, {"quota": {"gpu": gpus}})


def _queue(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "weir.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
