"""Pod groups of `scheduling.k8s.io` and pods that name them, for a small cluster."""

from typing import Any

import msgspec
from tests.unit.kubernetes.small_world import BEGAN, WatchProgress, node, pod, project

from weir.kubernetes.api.objects import (
    KubePod,
    PodSchedulingGroup,
    PodWorkloadReference,
    SchedulingGroupObject,
)
from weir.kubernetes.state.gangs.gang import Gang

GANG_OF_4 = {"schedulingPolicy": {"gang": {"minCount": 4}}}


def group(
    name: str = "train", spec: Any = None, uid: str = "", api: str = "v1alpha2"
) -> SchedulingGroupObject:
    metadata = {"name": name, "namespace": "team", "uid": uid or f"g-{name}", "creationTimestamp": BEGAN}
    made = {"metadata": metadata, "spec": GANG_OF_4 if spec is None else spec}
    read = msgspec.convert(made, SchedulingGroupObject)
    read.api_version = f"scheduling.k8s.io/{api}"
    return read


def gang_of(count: int, **more: Any) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {"minCount": count}}, **more}


def member(name: str, of: str = "train", **more: Any) -> KubePod:
    made = pod(name, **more)
    made.spec.scheduling_group = PodSchedulingGroup(of)
    return made


def member_of_1_35(name: str, workload: str, of: str, replica: str = "", **more: Any) -> KubePod:
    made = pod(name, **more)
    made.spec.workload_ref = PodWorkloadReference(workload, of, replica)
    return made


def small_cluster() -> WatchProgress:
    reported = WatchProgress()
    reported.see("nodes", node("n1"), node("n2"))
    reported.see("projects", project("team", gpus=8))
    return reported


def gang_named(reported: WatchProgress, name: str = "team/podgroup-train") -> Gang:
    return reported.cluster_state.registry.named[name]
