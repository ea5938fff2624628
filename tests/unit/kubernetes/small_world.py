"""A small cluster for pictures: objects as the API has them, and a control that gets facts and decides nothing."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from weir.control.loop import Control
from weir.control.port import Effect, Fact
from weir.engine.plan import Plan
from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.objects import (
    Container,
    ContainerResources,
    FinalizedMetadata,
    KubeNode,
    KubePod,
    Metadata,
    NodeStatus,
    NodeTaint,
    OwnerReference,
    PodSpec,
    PodStatus,
)
from weir.kubernetes.crd.objects import QuotaObject
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.gpu_sharing import GPU_SHARING, SET_ASIDE
from weir.kubernetes.translate.kinds import load_kinds
from weir.model.policy import Policy
from weir.state.jobs import Phase

KINDS = load_kinds()
BEGAN = "2026-01-01T00:00:00Z"


def node(
    name: str,
    gpus: int = 4,
    *,
    cordoned: bool = False,
    labels: dict[str, str] | None = None,
    shared: bool = False,
) -> KubeNode:
    if shared:
        labels = {**(labels or {}), GPU_SHARING: SET_ASIDE}
    made = KubeNode(
        Metadata(name, uid=name, labels={"kubernetes.io/hostname": name, **(labels or {})}),
        status=NodeStatus(
            allocatable={"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        ),
    )
    made.spec.unschedulable = cordoned
    if shared:
        made.spec.taints = [NodeTaint(GPU_SHARING, "NoSchedule", SET_ASIDE)]
    return made


def project(
    name: str, *namespaces: str, gpus: int = 4, deleting: bool = False, finalizers: Sequence[str] = ()
) -> QuotaObject:
    spec = {"quota": {"gpu": gpus}, "namespaces": list(namespaces) or [name]}
    meta = FinalizedMetadata(
        name,
        uid=f"p-{name}",
        resource_version="7",
        creation_timestamp=BEGAN,
        deletion_timestamp=BEGAN if deleting else None,
        finalizers=list(finalizers),
    )
    return QuotaObject(meta, spec=spec)


def job(
    name: str,
    uid: str,
    pods: int = 1,
    *,
    namespace: str = "team",
    over: str = "",
    over_at: str | None = None,
    **annotations: str,
) -> dict[str, Any]:
    conditions = [{"type": over, "status": "True", "lastTransitionTime": over_at}] if over else []
    return KINDS.narrow(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "creationTimestamp": BEGAN,
                "annotations": {
                    f"weir.dev/{key.replace('_', '-')}": value for key, value in annotations.items()
                },
            },
            "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed"},
            "status": {"conditions": conditions},
        }
    )


def maker(
    kind: str,
    api_version: str,
    name: str,
    uid: str,
    spec: dict[str, Any] | None = None,
    *,
    above: OwnerReference | None = None,
    namespace: str = "team",
) -> dict[str, Any]:
    """An object of any kind that makes pods."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": BEGAN}
    if above is not None:
        metadata["ownerReferences"] = [msgspec.to_builtins(above)]
    return KINDS.narrow(
        {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}, "status": {}}
    )


def reference(made: dict[str, Any] | KubePod) -> OwnerReference:
    """The controller reference to an object."""
    if isinstance(made, KubePod):
        return OwnerReference("v1", "Pod", made.metadata.name, made.metadata.uid, controller=True)
    meta = made["metadata"]
    return OwnerReference(made["apiVersion"], made["kind"], meta["name"], meta["uid"], controller=True)


def pod(
    name: str,
    *,
    owner: tuple[str, str] | OwnerReference | None = None,
    namespace: str = "team",
    gpus: int = 1,
    on: str = "",
    start: int = 0,
    devices: str | None = None,
    phase: str = "Pending",
    deleting: bool = False,
    scheduler: str = "weir",
    uid: str = "",
    labels: dict[str, str] | None = None,
    stated: str = "",
) -> KubePod:
    asks: dict[str, str | int | float] = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    annotations = {} if not start else {"weir.dev/start": str(start)}
    if devices is not None:
        annotations["weir.dev/gpus"] = devices
    if stated:
        annotations["weir.dev/owner"] = stated
    if isinstance(owner, tuple):
        owner = OwnerReference("batch/v1", "Job", owner[0], owner[1], controller=True)
    references = [] if owner is None else [owner]
    return KubePod(
        Metadata(
            name,
            uid=uid or f"u-{name}",
            namespace=namespace,
            creation_timestamp=BEGAN,
            deletion_timestamp=BEGAN if deleting else None,
            annotations=annotations,
            owner_references=references,
            labels=labels or {},
        ),
        PodSpec(
            scheduler_name=scheduler,
            node_name=on,
            containers=[Container("main", ContainerResources(requests=asks, limits=asks))],
        ),
        PodStatus(phase),
    )


class WatchProgress:
    """A picture with a control that hears of it and decides what the test says."""

    def __init__(self) -> None:
        self.cluster_state = ClusterState(KINDS, DeviceResources())
        self.now_s = 0.0
        self.facts: list[Fact] = []
        self.effects: list[Effect] = []
        self.plans: list[Plan] = []
        self._new_control()

    def _new_control(self) -> None:
        self.control = Control(
            self, Policy(), lambda: self.now_s, decide=lambda *_: self.plans.pop(0) if self.plans else Plan()
        )

    def events(self) -> Iterable[Fact]:
        self.facts = self.cluster_state.facts(self.now_s)
        return self.facts

    def apply(self, effects: Sequence[Effect]) -> None:
        self.effects += effects

    def see(self, resource: str, *objects: Any) -> None:
        for each in objects:
            if resource == "owners":
                self.cluster_state.see_owners([ObjectSet(each["metadata"]["name"], each)], self.now_s)
                continue
            meta = each.metadata
            key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
            self.cluster_state.see(resource, [ObjectSet(key, each)], self.now_s)

    def gone(self, resource: str, key: str, uid: str = "") -> None:
        if resource == "owners":
            self.cluster_state.see_owners([ObjectRemoved(key, uid)], self.now_s)
        else:
            self.cluster_state.see(resource, [ObjectRemoved(key, uid)], self.now_s)

    def step(self, after_s: float = 0.1, plan: Plan | None = None) -> list[Fact]:
        self.now_s += after_s
        if plan is not None:
            self.plans.append(plan)
        self.effects = []
        self.control.step()

        return self.facts

    def restart(self) -> None:
        """Another control, told everything."""
        self.cluster_state.retell()
        self._new_control()
        self.step()

    # What control believes

    def pods(self) -> dict[str, tuple[str, str | None]]:
        """Return each pod's state in control, and its node."""
        found: dict[str, tuple[str, str | None]] = {}
        cluster = self.control.cluster
        for name, job_ in cluster.jobs.items():
            gang = self.cluster_state.registry.named[name]
            for group, pods in enumerate(job_.pods):
                for index, each in enumerate(pods):
                    slots = gang.groups[group].slots
                    tracked = slots[index] if index < len(slots) else None
                    if tracked is None:
                        assert each.phase is Phase.ABSENT, (name, group, index, each.phase)
                        continue
                    at = None if each.node < 0 else cluster.node_names[each.node]
                    found[tracked.key] = each.phase.name, at
        return found

    def state(self) -> dict[str, Any]:
        """Return the state of control, without the parts that depend on the order of the facts."""
        cluster = self.control.cluster
        jobs = {}
        for name, job_ in cluster.jobs.items():
            gang = self.cluster_state.registry.named[name]
            if not gang.count:
                continue  # it waits for pods of its owner, unknown to a control that starts later
            spec = job_.spec
            jobs[name] = (spec.project, gang.needed, spec.priority, spec.type, job_.held, job_.held_why)
        nodes = {
            each.name: (
                each.gpus,
                dict(each.capacity),
                each.taints,
                len(each.foreign_devices),
                dict(each.foreign_marks),
            )
            for each in cluster.nodes
            if each is not None
        }
        queues = {queue.name: (queue.parent, dict(queue.quota)) for queue in cluster.ledger.queues}
        return {"jobs": jobs, "pods": self.pods(), "nodes": nodes, "queues": queues}
