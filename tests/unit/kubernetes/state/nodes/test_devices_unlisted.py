"""Devices that are no longer devices: by another --devices, or because the node's plugin is gone."""

from typing import Any

import pytest
from tests.unit.kubernetes.small_world import KINDS, node, pod, project
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.api.objects import KubeNode, KubePod
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.crd.objects import (
    AllocationStatus,
    OwnerFields,
    WorkloadObject,
    WorkloadSpec,
    WorkloadStatus,
)
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.model.workloads import WHOLE_MILLI

AMD = "amd.com/gpu"


class Unlisted(Scene):
    """A Weir for which only nvidia.com/gpu are devices."""

    def __init__(self) -> None:
        super().__init__()
        cluster_state = ClusterState(KINDS, DeviceResources(("nvidia.com/gpu",)))
        self.backend = KubernetesBackend(cluster_state, self.writes.extend, lambda: None, lambda: self.now_s)
        self.connect()


def amd_node(name: str) -> KubeNode:
    made = node(name, gpus=0)
    made.status.allocatable[AMD] = "8"
    return made


def amd_pod(name: str, **more: Any) -> KubePod:
    made = pod(name, gpus=0, **more)
    for amounts in (made.spec.containers[0].resources.requests, made.spec.containers[0].resources.limits):
        amounts[AMD] = "2"
    return made


def recorded(name: str, here: Scene) -> None:
    kept = AllocationStatus(
        uid=f"u-{name}", node="n1", devices=[6, 7], start=1, share=WHOLE_MILLI, preemptible=True
    )
    owner = OwnerFields(uid=f"u-{name}")
    thing = WorkloadObject(
        metadata=pod(f"pod-{name}").metadata,
        spec=WorkloadSpec(owner=owner, project="team"),
        status=WorkloadStatus(phase="Running", allocations=[kept]),
    )
    here.hear("workloads", thing)


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize("node_first", [False, True])
def test_a_pod_whose_devices_are_no_longer_listed_stops_no_other(is_recorded: bool, node_first: bool) -> None:
    here = Unlisted()
    here.hear("projects", project("team", gpus=16))
    if is_recorded:
        recorded("was", here)
    held = amd_pod("was", on="n1", start=1, devices="6,7", phase="Running")
    for resource, one in [("nodes", amd_node("n1")), ("pods", held)][:: 1 if node_first else -1]:
        here.hear(resource, one)
    here.hear("nodes", node("n2"))
    here.hear("pods", pod("good"), amd_pod("more"))
    assert {(each.name, each.node) for each in here.step()} == {("good", "n2"), ("more", "n1")}
    job = here.control.cluster.jobs["team/pod-was"]
    assert [each.devices for each in job.running_pods()] == [()]
    here.connect()
    here.step()
    assert "team/pod-was" in here.control.cluster.jobs


@pytest.mark.parametrize("is_bound", [False, True])
def test_a_node_loses_its_devices_before_another_control_hears_of_its_pods(is_bound: bool) -> None:
    here = Scene()
    here.hear("nodes", node("n1", gpus=8))
    here.hear("projects", project("team", gpus=16))
    here.hear("pods", pod("work", gpus=8))
    assert len(here.step()) == 1
    if is_bound:
        here.hear("pods", pod("work", gpus=8, on="n1", start=1, devices="0,1,2,3,4,5,6,7", phase="Running"))
    here.hear("nodes", node("n1", gpus=0), node("n2"))
    here.connect()
    here.hear("pods", pod("good"))
    assert "good" in {each.name for each in here.step()}
    here.hear("nodes", node("n1", gpus=8))
    here.step()
    here.hear("pods", pod("last"))
    assert "last" in {each.name for each in here.step()}
