"""The cluster at one moment, as typed views: pods, nodes, quotas, and which pods belong together."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.kubernetes.week.mirror import Key, Mirror
from tests.kubernetes.week.pods import GPU, OVER, PodView, milli, size, view
from tools.controlplane.api import Object

MIN = "week.example.com/min"
"""An annotation of owners of custom kinds: how many of their pods are needed together."""
GROUP = "leaderworkerset.sigs.k8s.io/group-index"
PREEMPTIBLE_BELOW = 100
"""Work whose pods name a PriorityClass is preemptible below this value, unless it says otherwise."""
_SERVICES = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "LeaderWorkerSet")
PLURALS = {
    "ReplicaSet": "replicasets",
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "Job": "jobs",
    "PodGroup": "podgroups",
}
_TOPMOST = ("CronJob",)
"""Kinds above which a workload isn't looked for."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The topmost object above a pod."""

    kind: str
    name: str
    uid: str
    found: Object | None  # None: it isn't there, or isn't mirrored

    def word(self, key: str) -> str:
        """Return what an annotation or label of it says."""
        metadata = (self.found or {}).get("metadata", {})
        name = f"weir.dev/{key}"
        return str(
            (metadata.get("annotations") or {}).get(name) or (metadata.get("labels") or {}).get(name) or ""
        )


@dataclass(slots=True)
class Gang:
    """Pods that start together."""

    namespace: str
    name: str  # of its Workload
    owner: Owner
    pods: list[PodView] = field(default_factory=list)

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def holding(self) -> list[PodView]:
        return [pod for pod in self.pods if pod.holds]

    @property
    def waiting(self) -> list[PodView]:
        return [pod for pod in self.pods if pod.waits]

    def word(self, key: str) -> str:
        """Return what the owner says, or else the first pod that says something."""
        return self.owner.word(key) or next((answer for pod in self.pods if (answer := pod.word(key))), "")

    @property
    def succeeded(self) -> int:
        """Return how many of its pods have ended well."""
        counted = int(((self.owner.found or {}).get("status") or {}).get("succeeded") or 0)
        return max(counted, sum(pod.phase == "Succeeded" for pod in self.pods))

    @property
    def needs(self) -> int:
        """Return how many pods it can't do without."""
        spec = (self.owner.found or {}).get("spec") or {}
        answer = self.word("min-pods")
        if self.owner.kind == "Job":
            completions = spec.get("completions")
            left = (completions or 10**6) - self.succeeded
            whole = spec.get("parallelism", 1) if spec.get("completionMode") == "Indexed" else 1
            return max(0, min(int(answer or whole), left))
        if answer:
            return max(0, int(answer))
        if self.owner.kind == "PodGroup":
            return int((spec["schedulingPolicy"].get("gang") or {}).get("minCount", 1))
        marks = ((self.owner.found or {}).get("metadata") or {}).get("annotations") or {}
        return int(marks.get(MIN, 1))

    @property
    def topology(self) -> str:
        """Return the topology that it asks for, as the annotation would say it."""
        spec = (self.owner.found or {}).get("spec") or {}
        listed = (spec.get("schedulingConstraints") or {}).get("topology")
        return f"label:required={listed[0]['key']}" if listed else self.word("topology")

    @property
    def preemptible(self) -> bool:
        answer = self.word("preemptible")
        if answer:
            return answer == "true"
        if self.owner.kind in _SERVICES and self.word("min-replicas"):
            return True  # all but its minimum; and that too, once its project is over quota without it
        classed = next((pod for pod in self.pods if pod.spec.get("priorityClassName")), None)
        if classed is not None:
            return int(classed.spec.get("priority", 0)) < PREEMPTIBLE_BELOW
        kind = self.word("type") or ("inference" if self.owner.kind in _SERVICES else "train")
        return kind == "train"

    @property
    def milli(self) -> int:
        """Return thousandths of devices that its pods hold."""
        return sum(pod.milli for pod in self.holding)


class Snapshot:
    """Views of one copy of the mirror."""

    def __init__(self, copy: Mapping[str, Mapping[Key, Object]], mirror: Mirror, at_s: float) -> None:
        self.at_s = at_s
        self.mirror = mirror
        self.of = {"podgroups": {}, **copy}
        self.pods = [_view(pod) for pod in copy["pods"].values()]
        self.nodes = {key[1]: NodeView.read(node) for key, node in copy["nodes"].items()}
        for each in copy["resourceslices"].values():
            if (node := self.nodes.get(each["spec"].get("nodeName", ""))) is not None:
                node.claimable += len(each["spec"].get("devices") or [])
        for pod in self.pods:
            if pod.holds and pod.node in self.nodes:
                self.nodes[pod.node].pods.append(pod)
        self.projects = {key[1]: each for key, each in copy["projects"].items()}
        self.departments = {key[1]: each for key, each in copy["departments"].items()}
        self.workloads = copy["workloads"]
        self.owned = self._owned()
        self.gangs = {key: gang for key, gang in self.owned.items() if any(pod.is_weirs for pod in gang.pods)}
        self.by_pod = {pod.uid: gang for gang in self.gangs.values() for pod in gang.pods}

    def projects_of(self, namespace: str) -> list[str]:
        """Return the projects that list a namespace."""
        return [
            name for name, each in self.projects.items() if namespace in each["spec"].get("namespaces", [])
        ]

    def project_of(self, gang: Gang) -> str:
        """Return the project a gang counts for, or nothing if that can't be said."""
        listed = self.projects_of(gang.namespace)
        answer = gang.word("project")
        if answer:
            return answer if answer in listed else ""
        return listed[0] if len(listed) == 1 else ""

    def path(self, project: str) -> list[Object]:
        """Return a project and the departments above it, lowest first."""
        found = [self.projects[project]]
        above = found[0]["spec"].get("department", "")
        while above in self.departments:
            found.append(self.departments[above])
            above = found[-1]["spec"].get("parent", "")
        return found

    def free(self) -> "dict[str, NodeView]":
        """Return copies of the nodes, to be filled."""
        return {name: node.copy() for name, node in self.nodes.items()}

    def owners_above(self, pod: PodView) -> Iterator[Owner]:
        """Yield the owners of a pod, lowest first, up to the first that isn't mirrored."""
        reference = pod.controller
        while reference is not None and reference["kind"] not in _TOPMOST:
            kind, name, uid = reference["kind"], reference["name"], reference["uid"]
            found = self._find(kind, pod.namespace, name, uid)
            yield Owner(kind, name, uid, found)
            references = ((found or {}).get("metadata") or {}).get("ownerReferences") or []
            reference = next((each for each in references if each.get("controller")), None)

    def _find(self, kind: str, namespace: str, name: str, uid: str) -> Object | None:
        found = self.of.get(PLURALS.get(kind, kind), {}).get((namespace, name))
        return found if found is not None and found["metadata"]["uid"] == uid else None

    def _group_of(self, pod: PodView) -> Owner | None:
        """Return the pod group that a pod names, if it is there: it counts before the owners."""
        found = self.of["podgroups"].get((pod.namespace, pod.group))
        return None if found is None else Owner("PodGroup", pod.group, found["metadata"]["uid"], found)

    def _owned(self) -> dict[str, Gang]:
        """Return the pods by their topmost owner; other schedulers may have placed all of one's."""
        gangs: dict[str, Gang] = {}
        for pod in self.pods:
            chain = list(self.owners_above(pod))
            owner = self._group_of(pod) or (
                chain[-1]
                if chain
                else Owner("Pod", pod.name, pod.uid, {"metadata": pod.metadata, "spec": {}})
            )
            name = f"{owner.kind.lower()}-{owner.name}"
            if owner.kind == "LeaderWorkerSet":
                name = f"{name}-{pod.labels.get(GROUP, '')}"
            key = f"{pod.namespace}/{name}/{owner.uid}"
            gangs.setdefault(key, Gang(pod.namespace, name, owner)).pods.append(pod)
        return gangs


@dataclass(slots=True, kw_only=True)
class NodeView:
    """A node, and what is on it."""

    name: str
    labels: Mapping[str, str]
    taints: list[Mapping[str, str]]
    cordoned: bool
    gpus: int
    cpu_m: int
    memory: int
    pods_max: int
    mib: int  # of each device
    claimable: int = 0  # devices of its slices
    pods: list[PodView] = field(default_factory=list)

    @classmethod
    def read(cls, node: Object) -> "NodeView":
        has = node["status"].get("allocatable") or {}
        labels = node["metadata"].get("labels") or {}
        return cls(
            name=node["metadata"]["name"],
            labels=labels,
            taints=node["spec"].get("taints") or [],
            cordoned=bool(node["spec"].get("unschedulable")),
            gpus=int(has.get(GPU, 0)),
            cpu_m=milli(has.get("cpu", "0")),
            memory=size(has.get("memory", "0")),
            pods_max=int(has.get("pods", 0)),
            mib=int(labels.get("nvidia.com/gpu.memory", 0)),
        )

    def copy(self) -> "NodeView":
        return NodeView(
            name=self.name,
            labels=self.labels,
            taints=self.taints,
            cordoned=self.cordoned,
            gpus=self.gpus,
            cpu_m=self.cpu_m,
            memory=self.memory,
            pods_max=self.pods_max,
            mib=self.mib,
            claimable=self.claimable,
            pods=list(self.pods),
        )

    @property
    def gpus_held(self) -> int:
        """Return the whole devices of all pods, of any scheduler."""
        return sum(pod.gpus for pod in self.pods)

    def share_milli(self, pod: PodView) -> int:
        """Return thousandths of each device that a share takes here."""
        return round(pod.part_mib * 1000 / self.mib) if pod.part_mib and self.mib else pod.part_milli


_views: dict[str, tuple[str, PodView]] = {}


def _view(pod: Object) -> PodView:
    """Read a pod, once for each of its versions."""
    uid, version = pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]
    known = _views.get(uid)
    if known is None or known[0] != version:
        if len(_views) > 20_000:
            _views.clear()
        known = _views[uid] = version, view(pod)
    return known[1]


def total_milli(pods: Iterable[PodView], nodes: Mapping[str, NodeView]) -> int:
    """Return thousandths of devices that pods take, each on its node."""
    found = 0
    for pod in pods:
        shared = nodes[pod.node].share_milli(pod) if pod.node in nodes else pod.part_milli
        found += (pod.gpus + pod.claimed) * 1000 + pod.devices_shared * shared
    return found


def is_over(pod: PodView) -> bool:
    return pod.phase in OVER
