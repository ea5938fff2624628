"""An API server with resource claims, whose watches bring changes late, and whose writes fail at any point."""

from collections import defaultdict, deque
from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any

import msgspec
from tests.unit.kubernetes.small_world import node, project
from tests.unit.kubernetes.state.claims.claims_site import alone, claim_of, slices_of
from tests.unit.kubernetes.state.claims.test_extended_claims import RESOURCE, asking
from tests.unit.kubernetes.state.claims.test_resource_claims import GPU, allocated, device_class, writes_of
from tests.unit.kubernetes.state.workloads.test_allocations import record
from tests.unit.kubernetes.test_backend import Scene, status_of

from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.objects import KubePod, PodExtendedClaimStatus
from weir.kubernetes.api.resource_objects import ResourceClaim
from weir.kubernetes.crd.objects import AllocationStatus
from weir.kubernetes.writes.operations import (
    Bind,
    Evict,
    PatchObject,
    PatchStatus,
    WriteDone,
    WriteRefused,
    WriteUnknown,
)

WHOLE, PARTS = 3, 4
"""Whole GPUs of a node, and the claims that share one more."""


class ClaimsApi:
    """The objects as they are, the changes that Weir hasn't seen yet, and a Weir that is restarted."""

    def __init__(self, chance: Random, nodes: Sequence[str], faults: Sequence[str] = ()) -> None:
        self.chance = chance
        self._faults = faults or _FAULTS
        self.nodes = nodes
        self.generations = dict.fromkeys(nodes, 1)
        self.objects: dict[str, dict[str, Any]] = defaultdict(dict)
        self.records: dict[str, list[AllocationStatus]] = {}
        self._unseen: dict[str, deque[tuple[str, Any]]] = defaultdict(deque)
        self._seen: dict[str, set[str]] = defaultdict(set)
        self.by_number: dict[str, int] = {}  # GPUs of pods that ask for an extended resource
        self.objects["deviceclasses"][GPU] = device_class()
        self.objects["deviceclasses"]["whole"] = device_class("whole", "!device.allowMultipleAllocations")
        self.objects["deviceclasses"]["whole"].spec.extended_resource_name = RESOURCE
        self.objects["projects"]["team"] = project("team", gpus=16)
        for each in nodes:
            self.objects["nodes"][each] = node(each, gpus=0)
            self.objects["resourceslices"][each] = slices_of(each, WHOLE, "gpu")
        self.weir = Scene()
        self.restart()

    @property
    def claims(self) -> dict[str, ResourceClaim]:
        return self.objects["resourceclaims"]

    @property
    def pods(self) -> dict[str, KubePod]:
        return self.objects["pods"]

    # What Weir sees

    def restart(self) -> None:
        """Start another Weir, which lists everything as it is now."""
        self.weir, now_s = Scene(), self.weir.now_s
        self.weir.now_s = now_s
        self._unseen.clear()
        self._seen.clear()
        order = (
            "deviceclasses",
            "nodes",
            "resourceslices",
            "projects",
            "workloads",
            "resourceclaims",
            "pods",
        )
        for resource in order:
            self.relist(resource)

    def relist(self, resource: str) -> None:
        """List a resource again, as after a lost watch: only the newest states are seen."""
        self._unseen[resource].clear()
        found = self.objects[resource]
        for key in [*found, *sorted(self._seen[resource] - found.keys())]:
            self._show(resource, key, found.get(key))

    def deliver(self, resource: str, count: int | None = None) -> None:
        """Let a watch bring its oldest changes; all without a count."""
        unseen = self._unseen[resource]
        for _ in range(len(unseen) if count is None else min(count, len(unseen))):
            self._show(resource, *unseen.popleft())

    def deliver_all(self) -> None:
        for resource in list(self._unseen):
            self.deliver(resource)

    def _show(self, resource: str, key: str, found: Any) -> None:
        name = f"team/{key}" if resource in ("pods", "resourceclaims", "workloads") else key
        if found is None:
            self._seen[resource].discard(key)
            self.weir.backend.deliver(resource)([ObjectRemoved(name, "")])
        else:
            self._seen[resource].add(key)
            self.weir.backend.deliver(resource)([ObjectSet(name, deepcopy(found))])

    def change(self, resource: str, key: str, found: Any) -> None:
        """Change, create or (None) remove an object; a watch brings it later."""
        if found is None:
            del self.objects[resource][key]
        else:
            self.objects[resource][key] = found
        self._unseen[resource].append((key, deepcopy(found)))

    # What others do

    def create(self, name: str, count: int) -> None:
        self.change("resourceclaims", f"{name}-gpu", claim_of(name, count))
        self.change("pods", name, alone(name))

    def create_by_number(self, name: str, count: int) -> None:
        """Create a pod that asks for GPUs as an extended resource."""
        self.by_number[name] = count
        self.change("pods", name, self._pod(name))

    def _pod(self, name: str, claim: str = "", **more: Any) -> KubePod:
        """Return a pod; one that asks by number has a claim of this name."""
        if name not in self.by_number:
            return alone(name, **more)
        made = asking(name, {RESOURCE: str(self.by_number[name])}, **more)
        if claim:
            made.status.extended_resource_claim_status = PodExtendedClaimStatus(claim)
        return made

    def end(self, name: str) -> None:
        """End a pod, which stays for a while."""
        over = deepcopy(self.pods[name])
        over.status = msgspec.structs.replace(over.status, phase="Succeeded")
        self.change("pods", name, over)

    def remove(self, name: str) -> None:
        """Remove a pod; its Workload goes with it."""
        self.change("pods", name, None)
        if f"pod-{name}" in self.objects["workloads"]:
            self.change("workloads", f"pod-{name}", None)

    def release(self) -> None:
        """Take a further step with a claim whose pod is over: its devices first, then the claim itself."""
        for name, found in sorted(self.claims.items()):
            pod = self.pods.get(found.metadata.owner_references[0].uid.removeprefix("u-"))
            if pod is not None and pod.status.phase != "Succeeded":
                continue
            if found.status.allocation is not None:
                self.change("resourceclaims", name, self._next(found, {}))
                return
            if pod is None:
                self.change("resourceclaims", name, None)
                return

    def take_slice(self, name: str) -> None:
        if name in self.objects["resourceslices"]:
            self.change("resourceslices", name, None)

    def bring_slice(self, name: str) -> None:
        """Bring the slice of a node, of a new generation."""
        self.generations[name] += 1
        made = slices_of(name, WHOLE)
        made.spec.pool.generation = self.generations[name]
        self.change("resourceslices", name, made)

    # What Weir writes

    def step(self, *, faults: bool = True, after_s: float = 0.5) -> int:
        """Carry out what Weir decides; return how many bindings it tried."""
        self.weir.step(after_s)
        writes = list(self.weir.writes)
        for write in writes:
            if isinstance(write, PatchObject) and "/resourceclaims/" in write.path:
                self._release_idle(write)
            elif isinstance(write, Evict):
                if write.name in self.pods:
                    self.remove(write.name)
                self.weir.backend.take_outcome(write, WriteDone())
        binds = [each for each in writes if isinstance(each, Bind)]
        for bind in binds:
            if self._bind(bind, self.chance.choice(self._faults) if faults else ""):
                self.restart()
                break
        return len(binds)

    def _bind(self, bind: Bind, fault: str) -> bool:
        """Allocate and bind as the API server does; return True if Weir is killed before it hears of it."""
        outcome = self.weir.backend.take_outcome
        if fault == "before" or self.weir.backend.check(bind):
            outcome(bind, WriteRefused(500, "fault"))
            return False
        (write,) = writes_of(bind)
        name = write.path.rpartition("/")[2]
        pod = self.pods.get(bind.name)
        if write.special is not None and name not in self.claims and pod is not None:
            made = deepcopy(dict(write.special.body))
            made["metadata"]["uid"] = f"c-{name}"
            self.change("resourceclaims", name, msgspec.convert(made, ResourceClaim))
            if fault == "made":
                return True
        found = self.claims.get(name)
        has = None if found is None else found.status.allocation
        if (
            found is None
            or (write.special is None and found.metadata.uid != write.uid)
            or (write.allocation is None) != (has is not None)
        ):
            outcome(bind, WriteRefused(409, "conflict"))
            return False
        if write.allocation is not None:
            status = msgspec.to_builtins(allocated(write, found))["status"]
            self.change("resourceclaims", name, self._next(found, status))
            self.given_once()
        if fault == "between" or pod is None or pod.spec.node_name or pod.status.phase != "Pending":
            outcome(bind, WriteRefused(409, "fault"))
            return False
        start = int(bind.annotations["weir.dev/start"])
        devices = bind.annotations["weir.dev/gpus"]
        runs = self._pod(bind.name, name, on=bind.node, start=start, devices=devices, phase="Running")
        self.change("pods", bind.name, runs)
        if fault != "killed":
            outcome(bind, WriteUnknown("fault") if fault == "unknown" else WriteDone())
        return fault == "killed"

    def _release_idle(self, write: PatchObject) -> None:
        name = write.path.removesuffix("/status").rpartition("/")[2]
        found, meta = self.claims.get(name), write.patch["metadata"]
        if found is not None and found.metadata.resource_version == meta["resourceVersion"]:  # type: ignore[index]
            self.change("resourceclaims", name, self._next(found, {}))

    def _next(self, found: ResourceClaim, status: dict[str, Any]) -> ResourceClaim:
        body = {**msgspec.to_builtins(found), "status": status}
        body["metadata"]["resourceVersion"] = f"{found.metadata.resource_version}+"
        return msgspec.convert(body, ResourceClaim)

    def record(self) -> None:
        """Carry out what Weir writes into the statuses of workloads."""
        self.weir.now_s += 5.0
        for each in self.weir.reported():
            if not isinstance(each, PatchStatus) or "/workloads/pod-" not in each.path:
                continue
            name, found = each.path.rpartition("/pod-")[2], status_of([each]).get("allocations")
            if found is not None and name in self.pods:
                kept = msgspec.convert(found, list[AllocationStatus])
                self.change("workloads", f"pod-{name}", record(f"pod-{name}", f"u-{name}", *kept))

    # What is true

    def used(self) -> dict[str, tuple[int, int]]:
        """Return the whole GPUs and the shares in use on each node, by the allocations of claims."""
        names: dict[str, list[str]] = {each: [] for each in self.nodes}
        for each in self.claims.values():
            if each.status.allocation is not None:
                for result in each.status.allocation.devices.results:
                    names[result.pool].append(result.device)
        shared = f"gpu-{WHOLE}"
        return {at: (len(found) - found.count(shared), found.count(shared)) for at, found in names.items()}

    def given_once(self) -> None:
        """Assert that each whole GPU is given once, and no more of the shared one than there is."""
        used: list[tuple[str, str]] = []
        for each in self.claims.values():
            if each.status.allocation is not None:
                used += [(one.pool, one.device) for one in each.status.allocation.devices.results]
        for one in set(used):
            assert used.count(one) <= (PARTS if one[1] == f"gpu-{WHOLE}" else 1), one


_FAULTS: Sequence[str] = ("", "", "", "", "", "", "", "before", "between", "unknown", "killed")
"""Points of a binding at which something fails; empty: nothing does."""
FURTHER_FAULTS = (*_FAULTS, "made")
"""The same, with the point after the claim of extended resources is made."""
