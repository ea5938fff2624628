"""Whatever objects there are, each costs itself at most: everybody else's pods are placed, after a restart too.

The same objects that `tests/kubernetes/test_hostile.py` has a real API server accept, and some that none would.
"""

from typing import Any

import msgspec
import pytest
from tests.kubernetes.hostile import Hostile
from tests.properties.budget import EFFORT
from tests.unit.kubernetes.small_world import KINDS, job, node, pod, project
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.api import objects, resource_objects, volume_objects
from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet, ObjectUnreadable
from weir.kubernetes.api.decoding import UndecodedObject, read_object
from weir.kubernetes.api.objects import OwnerReference
from weir.kubernetes.crd.objects import OwnerObject, QuotaObject, WorkloadObject
from weir.kubernetes.state.owners.index import Owners
from weir.kubernetes.writes.operations import Bind, WriteDone

TYPES: dict[str, Any] = {
    "pods": objects.KubePod,
    "nodes": objects.KubeNode,
    "persistentvolumeclaims": volume_objects.PersistentVolumeClaim,
    "workloads": WorkloadObject,
    "projects": QuotaObject,
    "departments": QuotaObject,
    "topologies": QuotaObject,
    "jobs": OwnerObject,
    "resourceclaims": resource_objects.ResourceClaim,
    "resourceslices": resource_objects.ResourceSlice,
    "deviceclasses": resource_objects.DeviceClass,
    "devicetaintrules": resource_objects.DeviceTaintRule,
    "podgroups": objects.SchedulingGroupObject,
}
OWN, QUIET = ["own-1", "own-2"], ["quiet-1", "quiet-2"]
TAINT = {"key": "quiet", "value": "", "effect": "NoSchedule"}
WORLDS = 8 * EFFORT
OBJECTS = 250


class Served(Scene):
    """A backend that hears of objects as an API server sends them."""

    def __init__(self) -> None:
        super().__init__()
        self.served: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}

    def serve(self, resource: str, made: dict[str, Any]) -> None:
        meta = made["metadata"]
        key = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
        before = self.served.get((resource, key))
        self.served[resource, key] = (resource, made)
        if before is not None:
            self._tell(resource, ObjectRemoved(key, before[1]["metadata"]["uid"]))
        self._tell(resource, self._change(resource, key, made))

    def remove_queues(self) -> None:
        """Remove all projects and departments that the hostile ones made."""
        for resource, key in list(self.served):
            if resource in ("projects", "departments") and key not in ("good", "bad"):
                _, made = self.served.pop((resource, key))
                self._tell(resource, ObjectRemoved(key, made["metadata"]["uid"]))

    def restarted(self) -> "Served":
        """Another instance, which hears of everything before it leads."""
        after = Served()
        after.backend.leave()
        for resource, made in self.served.values():
            after.serve(resource, msgspec.json.decode(msgspec.json.encode(made)))
        after.connect()
        return after

    def turn(self) -> list[str]:
        """Step, carry out what is ordered, tell people; return the pods that were bound."""
        ordered = self.step()
        bound = []
        for write in ordered:
            if isinstance(write, Bind):
                self.backend.take_outcome(write, WriteDone())
                _, made = self.served["pods", f"{write.namespace}/{write.name}"]
                made["spec"]["nodeName"], made["status"] = write.node, {"phase": "Running"}
                made["metadata"].setdefault("annotations", {}).update(write.annotations)
                self._tell("pods", self._change("pods", f"{write.namespace}/{write.name}", made))
                bound.append(write.name)
        self.reported()
        self.backend.queue_view()
        return bound

    def _change(self, resource: str, key: str, made: dict[str, Any]) -> Change[Any]:
        found = read_object(msgspec.Raw(msgspec.json.encode(made)), TYPES[resource])
        if isinstance(found, UndecodedObject):
            return ObjectUnreadable(key, made["metadata"]["uid"], found.sentence, found.body)
        if resource != "jobs":
            return ObjectSet(key, found)
        return ObjectSet(
            key, KINDS.narrow({**msgspec.to_builtins(found), "apiVersion": "batch/v1", "kind": "Job"})
        )

    def _tell(self, resource: str, change: Change[Any]) -> None:
        deliver = self.backend.deliver_owners() if resource == "jobs" else self.backend.deliver(resource)
        deliver([change])


def _node(name: str, gpus: int, **spec: Any) -> dict[str, Any]:
    has = {"cpu": "64", "memory": "256Gi", "pods": "10000", "nvidia.com/gpu": str(gpus)}
    labels = {"nvidia.com/gpu.memory": "81559", "kubernetes.io/hostname": name}
    return {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": has},
    }


def _good(name: str) -> dict[str, Any]:
    asks = {"cpu": "1", "nvidia.com/gpu": "1"}
    return {
        "metadata": {"name": name, "namespace": "good", "uid": name, "labels": {"weir.dev/project": "good"}},
        "spec": {
            "schedulerName": "weir",
            "tolerations": [{"key": "quiet", "operator": "Exists"}],
            "nodeSelector": {},
            "containers": [{"name": "c", "resources": {"requests": asks, "limits": asks}}],
        },
    }


def _begin() -> Served:
    here = Served()
    for name in QUIET:
        here.serve("nodes", _node(name, 8, taints=[TAINT]))
    for name in OWN:
        here.serve("nodes", _node(name, 8))
    good = {"metadata": {"name": "good", "uid": "p"}, "spec": {"quota": {"gpu": 16}, "namespaces": ["good"]}}
    bad = {"metadata": {"name": "bad", "uid": "q"}, "spec": {"quota": {"gpu": 4}, "namespaces": ["bad"]}}
    here.serve("projects", good)
    here.serve("projects", bad)
    return here


def _held_once(here: Served) -> None:
    """No claim of a tenant gives a pod more than it requests, or a device that another one has."""
    cluster_state, taken = here.backend.cluster_state, {}
    for gang in cluster_state.registry.named.values():
        for tracked in gang.pods() if gang.reported is not None else ():
            if not tracked.reported_start:
                continue
            assert tracked.info is not None
            assert len(tracked.devices) <= tracked.info.request.devices, tracked.key
            for device in tracked.devices if tracked.node in QUIET else ():
                assert taken.setdefault((tracked.node, device), tracked.key) == tracked.key


def _unspoilt(made: dict[str, Any], chance: Any) -> dict[str, Any]:
    """Now and then something that no API server would send."""
    if chance.random() < 0.02:
        made["spec"] = chance.choice(
            [{"containers": [{"name": 1}]}, {"nodeName": 5}, {}, {"priority": "high"}]
        )
    return made


@pytest.mark.parametrize("seed", range(WORLDS))
def test_every_other_pod_is_placed(seed: int) -> None:
    here = _begin()
    hostile = Hostile(seed, "bad", OWN, QUIET)
    placed: list[str] = []
    for part, at in enumerate(range(0, OBJECTS, 50)):
        for resource, made in hostile.objects(50):
            here.serve(resource, _unspoilt(made, hostile.chance))
        here.serve("pods", _good(f"good-{at}"))
        placed += here.turn()
        placed += here.turn()
        assert f"good-{at}" in placed, f"part {part}"
        _held_once(here)
    here.remove_queues()
    here.serve("pods", _good("good-fewer"))
    assert "good-fewer" in [*here.turn(), *here.turn()]
    after = here.restarted()
    after.serve("pods", _good("good-after"))
    after.turn()
    after.turn()
    assert "good-after" in {
        tracked.name
        for gang in after.backend.cluster_state.registry.named.values()
        for tracked in gang.pods()
        if tracked.holds
    }
    _held_once(after)
    for at in range(0, OBJECTS, 50):
        gang = after.backend.cluster_state.registry.named[f"good/pod-good-{at}"]
        assert [(tracked.holds, bool(tracked.reported_start)) for tracked in gang.pods()] == [(True, True)]


@pytest.mark.parametrize("forged_first", [True, False])
def test_a_pod_that_names_the_owner_of_another_namespace_gets_nothing_and_takes_nothing(
    forged_first: bool,
) -> None:
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team", "team", "other"))
    here.hear("owners", job("train", "j1", 1, user="ann"))
    pods = [
        pod("forged", owner=("train", "j1"), namespace="other", uid="u-forged"),
        pod("train-0", owner=("train", "j1")),
    ]
    for each in pods if forged_first else pods[::-1]:
        here.hear("pods", each)
        here.step()
    here.hear("owners", job("train", "j1", 1, user="ann"))  # its chain is read again
    here.step()
    known = here.backend.cluster_state.pods.by_key
    honest, forged = known["team/train-0"], known["other/forged"]
    assert honest.bound or honest.assumed
    assert not forged.bound
    assert not forged.assumed
    assert honest.info is not None
    assert forged.info is not None
    assert (honest.info.annotations.user, forged.info.annotations.user) == ("ann", None)
    assert "isn't there" in forged.info.wait


def test_an_object_of_another_namespace_keeps_no_workload_alive() -> None:
    owners = Owners(KINDS)
    above = OwnerReference("jobset.x-k8s.io/v1alpha2", "JobSet", "set", "s1", controller=True)
    reference = msgspec.to_builtins(above)
    for namespace, uid in (("team", "j1"), ("other", "j2")):
        below = job("train", uid, namespace=namespace)
        below["metadata"]["ownerReferences"] = [reference]
        owners.see(below)
    jobset = {
        "apiVersion": above.api_version,
        "kind": "JobSet",
        "metadata": {"name": "set", "namespace": "team", "uid": "s1"},
    }
    owners.see(jobset)
    assert [each["metadata"]["uid"] for each in owners.below("s1")] == ["j1"]
    assert owners.body("team", "s1") is not None
    assert owners.body("other", "s1") is None
