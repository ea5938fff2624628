"""A cluster with resource claims whose Weir is restarted, and whose drivers come and go."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import msgspec
from tests.unit.kubernetes.small_world import node, project
from tests.unit.kubernetes.state.claims.test_resource_claims import (
    allocated,
    claim,
    claiming,
    device_class,
    devices_of,
    gpus_of,
    writes_of,
)
from tests.unit.kubernetes.state.workloads.test_allocations import record
from tests.unit.kubernetes.test_backend import Scene, status_of

from weir.control.port import PodExited, WorkloadFinished
from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.api.resource_objects import ResourceClaim, ResourceSlice
from weir.kubernetes.crd.objects import AllocationStatus
from weir.kubernetes.writes.operations import Evict, PatchStatus, WriteDone

PART = {"capacity": {"requests": {"memory": "20Gi"}}}
Parts = Sequence[tuple[str, int]]
"""Pods by name, each with the GPUs of its claim; 0: a quarter of one."""


def slices_of(name: str, whole: int = 2, prefix: str = "gpu") -> ResourceSlice:
    """Return the slice of a node with whole GPUs and one that claims share."""
    made = msgspec.to_builtins(gpus_of(name, whole + 1))
    for each in made["spec"]["devices"]:
        each["name"] = each["name"].replace("gpu", prefix)
    made["spec"]["devices"][-1]["allowMultipleAllocations"] = True
    return msgspec.convert(made, ResourceSlice)


def claim_of(name: str, count: int) -> ResourceClaim:
    shared = "device.allowMultipleAllocations"
    selectors = [{"cel": {"expression": shared if not count else f"!{shared}"}}]
    return claim(f"{name}-gpu", count or 1, f"u-{name}", selectors=selectors, **({} if count else PART))


def alone(name: str, **more: Any) -> KubePod:
    """Return a pod with a claim of its own that is a workload by itself."""
    made = claiming(name, **more)
    made.metadata.owner_references = []
    return made


class Site:
    """A cluster whose Weir is restarted; everything but its memory stays."""

    def __init__(self, *slices: ResourceSlice, quota: int = 16) -> None:
        self.slices = {each.metadata.name: each for each in slices}
        self.nodes = sorted({each.spec.node_name or "" for each in slices})
        self.quota = quota
        self.claims: dict[str, ResourceClaim] = {}
        self.pods: dict[str, KubePod] = {}
        self.records: dict[str, AllocationStatus] = {}
        self.weir = self.start()

    def start(self, *, away: Sequence[str] = (), records: bool = True) -> Scene:
        """Start another Weir; the slices of these nodes are away."""
        made = self.weir = Scene()
        made.hear("deviceclasses", device_class())
        made.hear("nodes", *(node(each, gpus=0) for each in self.nodes))
        made.hear(
            "resourceslices", *(each for each in self.slices.values() if each.spec.node_name not in away)
        )
        made.hear("projects", project("team", gpus=self.quota))
        for name, kept in self.records.items() if records else ():
            made.hear("workloads", record(f"pod-{name}", f"u-{name}", deepcopy(kept)))
        made.hear("resourceclaims", *self.claims.values())
        made.hear("pods", *deepcopy(list(self.pods.values())))
        self.facts: list[Any] = []
        events = made.backend.events
        made.backend.events = lambda: self._heard(list(events()))  # type: ignore[method-assign]
        return made

    def _heard(self, facts: list[Any]) -> list[Any]:
        self.facts += facts
        return facts

    def create(self, *pods: tuple[str, int]) -> None:
        """Create pods with a claim each."""
        for name, count in pods:
            self.claims[name], self.pods[name] = claim_of(name, count), alone(name)
            self.weir.hear("resourceclaims", self.claims[name])
            self.weir.hear("pods", deepcopy(self.pods[name]))

    def run(self) -> dict[str, list[str]]:
        """Carry out what is to be bound; return the devices that each new pod got."""
        given: dict[str, list[str]] = {}
        for _ in range(6):  # a binding whose devices another one takes in the same step is tried again
            given |= self._bind(self.weir.step(after_s=0.5))
        return given

    def _bind(self, binds: Sequence[Any]) -> dict[str, list[str]]:
        given = {}
        for bind in binds:
            if isinstance(bind, Evict):  # it was in the way of a whole GPU
                self.end(bind.name)
                continue
            given[bind.name] = devices_of(bind)
            self.claims[bind.name] = allocated(writes_of(bind)[0], self.claims[bind.name])
            devices = [int(each) for each in bind.annotations["weir.dev/gpus"].split(",")]
            start = int(bind.annotations["weir.dev/start"])
            info = self.weir.backend.cluster_state.pods.by_key[f"team/{bind.name}"].info
            assert info is not None
            share = info.request.share_milli
            self.records[bind.name] = AllocationStatus(
                f"u-{bind.name}", bind.node, devices, share=share, start=start
            )
            self.pods[bind.name] = alone(
                bind.name,
                on=bind.node,
                start=start,
                devices=bind.annotations["weir.dev/gpus"],
                phase="Running",
            )
            self.weir.backend.take_outcome(bind, WriteDone())
            self.weir.hear("resourceclaims", self.claims[bind.name])
            self.weir.hear("pods", deepcopy(self.pods[bind.name]))
        return given

    def record(self) -> None:
        """Carry out what Weir writes into the statuses of workloads; a restart reads it."""
        self.weir.now_s += 10.0
        for each in self.weir.reported():
            if not isinstance(each, PatchStatus) or "/workloads/pod-" not in each.path:
                continue
            name = each.path.rpartition("/pod-")[2]
            found = status_of([each]).get("allocations")
            if found is None or name not in self.pods:
                continue
            self.records.pop(name, None)
            for one in msgspec.convert(found, list[AllocationStatus]):
                self.records[name] = one
            self.weir.hear("workloads", record(f"pod-{name}", f"u-{name}", *self._record_of(name)))

    def _record_of(self, name: str) -> Sequence[AllocationStatus]:
        return [deepcopy(self.records[name])] if name in self.records else []

    def end(self, *names: str) -> None:
        """Delete pods, and their claims with them."""
        for name in names:
            del self.pods[name], self.claims[name]
            self.records.pop(name, None)
            self.weir.gone(name)
            self.weir.backend.deliver("resourceclaims")([ObjectRemoved(f"team/{name}-gpu", "")])

    def take_slices(self, *nodes: str) -> None:
        for name, each in self.slices.items():
            if each.spec.node_name in nodes:
                self.weir.backend.deliver("resourceslices")([ObjectRemoved(name, "")])

    def bring_slices(self) -> None:
        self.weir.hear("resourceslices", *self.slices.values())

    def agrees(self) -> None:
        """Assert that the engine and the state of the cluster have the same pods on the same devices."""
        state, cluster = self.weir.backend.cluster_state, self.weir.control.cluster
        engine = {}
        for name, job_ in cluster.jobs.items():
            gang = state.registry.named[name]
            for group, pods in enumerate(job_.pods):
                for index, each in enumerate(pods):
                    slot = gang.groups[group].slots[index] if each.node >= 0 else None
                    if slot is not None:
                        engine[slot.name] = (cluster.node_names[each.node], each.devices)
        known = {each.name: (each.node, each.devices) for each in state.pods.by_key.values() if each.holds}
        assert engine == known
        for at, found in enumerate(cluster.nodes):
            site = state.node_states.node(cluster.node_names[at])
            assert found is not None
            assert site is not None
            assert found.gpus == site.gpus
        assert not state.overcommitted.nodes

    def given_once(self) -> list[tuple[str, str]]:
        """Return the whole devices in use; assert that each is given once."""
        used = [
            (result.pool, result.device)
            for each in self.claims.values()
            if each.status.allocation is not None
            for result in each.status.allocation.devices.results
            if result.device != "gpu-2"
        ]
        assert len(used) == len(set(used))
        return used

    def gpus(self) -> int:
        """Return the GPUs of the first node as the state of the cluster has it."""
        found = self.weir.backend.cluster_state.node_states.node("n1")
        return 0 if found is None else found.gpus

    def lost(self) -> list[Any]:
        return [each for each in self.facts if isinstance(each, PodExited | WorkloadFinished)]
