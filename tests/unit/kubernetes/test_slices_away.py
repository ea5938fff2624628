"""Nodes whose DRA driver is away while Weir starts: their running pods keep their GPUs, and none is given twice."""

from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.small_world import node, pod, project
from tests.unit.kubernetes.test_allocations import held, record
from tests.unit.kubernetes.test_backend import Scene
from tests.unit.kubernetes.test_resource_claims import (
    GPU,
    allocated,
    claim,
    claiming,
    device_class,
    devices_of,
    gpus_of,
    why,
    writes_of,
)

from weir.control.port import PodExited, WorkloadFinished
from weir.engine.overcommit import GRACE_S
from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.api.resource_objects import ResourceClaim, ResourceSlice
from weir.kubernetes.crd.objects import AllocationStatus
from weir.kubernetes.writes.operations import Evict, WriteDone

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

    def end(self, *names: str) -> None:
        """Delete pods, and their claims with them."""
        for name in names:
            del self.pods[name], self.claims[name], self.records[name]
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


def mixed() -> Site:
    """Return a site with two whole GPUs and a shared one on each of two nodes, most of them in use."""
    site = Site(slices_of("n1"), slices_of("n2"))
    site.create(("a", 1), ("b", 2), ("c", 0), ("d", 0))
    site.run()
    assert set(site.records) == {"a", "b", "c", "d"}
    return site


@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize("away", [("n1",), ("n2",), ("n1", "n2")])
def test_pods_of_nodes_whose_slices_come_back_later_keep_their_gpus(
    away: tuple[str, ...], records: bool
) -> None:
    site = mixed()
    site.start(away=away, records=records)
    assert site.run() == {}
    site.agrees()
    site.bring_slices()
    site.create(("e", 0), ("f", 1), ("g", 1))
    given = site.run()
    site.agrees()
    assert set(given) == {"e", "f"}, why(site.weir)
    site.end("b")
    assert set(site.run()) == {"g"}
    site.agrees()
    assert len(site.given_once()) == 3


def test_running_pods_are_not_lost_when_slices_come_back() -> None:
    site = mixed()
    site.start(away=("n1", "n2"))
    site.run()
    before = held(site.weir)
    site.bring_slices()
    site.run()
    assert site.lost() == []
    assert held(site.weir) == before


def test_pods_run_on_however_long_the_slices_are_away() -> None:
    site = mixed()
    site.start(away=("n1", "n2"))
    site.run()
    written = site.weir.step(after_s=GRACE_S + 1) + site.weir.step(after_s=GRACE_S + 1)
    assert not [each for each in written if isinstance(each, Evict)]
    site.agrees()


def test_slices_that_go_and_come_back_while_weir_runs_change_nothing() -> None:
    for restarted in (False, True):
        site = mixed()
        if restarted:
            site.start()
            site.run()
        before = held(site.weir)
        site.facts.clear()
        site.take_slices("n1", "n2")
        site.create(("e", 1))
        assert site.run() == {}
        site.agrees()
        site.bring_slices()
        assert set(site.run()) == {"e"}
        site.agrees()
        assert site.lost() == []
        assert {name: held(site.weir)[name] for name in before} == before


@pytest.mark.parametrize("restarted", [True, False])
def test_a_node_whose_slice_shrinks_has_its_real_number_of_gpus_once_its_pods_end(restarted: bool) -> None:
    site = Site(gpus_of("n1", 4))
    site.create(("a", 1), ("b", 1), ("c", 1), ("d", 1))
    site.run()
    site.slices = {each.metadata.name: each for each in [gpus_of("n1", 2)]}
    if restarted:
        site.start()
    site.bring_slices()
    site.run()
    site.agrees()
    assert site.gpus() == 4
    assert not site.lost()
    site.create(("e", 1))
    assert site.run() == {}, "both GPUs that are left are in use"
    site.end("a", "b", "c", "d")
    assert set(site.run()) == {"e"}
    assert site.gpus() == 2
    site.agrees()


def test_devices_that_come_back_by_other_names_are_not_given_to_more_pods_than_there_are() -> None:
    site = Site(gpus_of("n1", 2))
    site.create(("a", 1), ("b", 1))
    site.run()
    site.start(away=("n1",))
    site.run()
    site.slices = {
        each.metadata.name: msgspec.convert(
            msgspec.json.decode(msgspec.json.encode(each).replace(b"gpu-", b"new-")), ResourceSlice
        )
        for each in site.slices.values()
    }
    site.bring_slices()
    site.create(("c", 1))
    assert site.run() == {}
    site.end("a")
    assert set(site.run()) == {"c"}
    site.agrees()


def test_a_claim_that_goes_while_weir_is_away_costs_only_its_own_pod() -> None:
    site = mixed()
    del site.claims["a"]
    site.start(away=("n1", "n2"))
    site.run()
    site.bring_slices()
    site.create(("e", 0))
    assert set(site.run()) == {"e"}
    site.agrees()
    assert "pod" not in why(site.weir)


def test_a_class_that_comes_back_with_its_driver_finds_the_pods_where_they_were() -> None:
    site = mixed()
    site.start(away=("n1", "n2"))
    site.weir.backend.deliver("deviceclasses")([ObjectRemoved(GPU, "")])
    site.run()
    written = site.weir.step(after_s=GRACE_S + 1) + site.weir.step(after_s=GRACE_S + 1)
    assert not [each for each in written if isinstance(each, Evict)]
    site.agrees()
    site.weir.hear("deviceclasses", device_class())
    site.bring_slices()
    site.create(("e", 0), ("f", 1), ("g", 1))
    assert set(site.run()) == {"e", "f"}
    site.agrees()


def test_a_pod_with_an_extended_resource_does_not_go_where_a_driver_is_away() -> None:
    site = mixed()
    site.end("a")
    site.start(away=("n1", "n2"))
    site.weir.hear("pods", pod("whole", gpus=1))
    assert site.run() == {}
    site.agrees()


def test_a_class_that_goes_and_comes_back_while_weir_runs_changes_nothing() -> None:
    site = mixed()
    site.start()
    site.run()
    before = held(site.weir)
    site.facts.clear()
    site.weir.backend.deliver("deviceclasses")([ObjectRemoved(GPU, "")])
    site.take_slices("n1", "n2")
    site.run()
    site.agrees()
    site.weir.hear("deviceclasses", device_class())
    site.run()
    site.bring_slices()
    site.run()
    site.agrees()
    assert site.lost() == []
    assert held(site.weir) == before


@pytest.mark.parametrize("seed", range(60))
def test_state_and_engine_agree_in_every_order_of_restarts_and_slices(seed: int) -> None:
    chance = Random(seed)
    site = Site(slices_of("n1"), slices_of("n2"))
    for at in range(25):
        away = chance.choice(((), ("n1",), ("n2",), ("n1", "n2")))
        match chance.choice(("create", "create", "end", "start", "take", "bring", "bring")):
            case "create":
                site.create((f"p{at}", chance.choice((0, 0, 1, 2))))
            case "end" if site.records:
                site.end(chance.choice(sorted(site.records)))
            case "start":
                site.start(away=away, records=chance.random() < 0.8)
            case "take":
                site.take_slices(*away)
            case _:
                site.bring_slices()
        site.run()
        site.agrees()
        site.given_once()
    site.bring_slices()
    site.end(*site.records)
    while site.run():
        site.agrees()
        site.given_once()
        site.end(*site.records)
    assert not site.pods, why(site.weir)
