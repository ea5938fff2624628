"""The oracle and the recounts of the week: on small clusters of plain objects, true and false reasons are told apart."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.kubernetes.week.audit import Audit
from tests.kubernetes.week.fit import place
from tests.kubernetes.week.invariants import violations
from tests.kubernetes.week.mirror import RESOURCES
from tests.kubernetes.week.objects import budget, job, pod, service
from tests.kubernetes.week.pods import view
from tests.kubernetes.week.snapshot import NodeView, Snapshot
from tools.controlplane.api import Object
from tools.controlplane.nodes import node
from tools.controlplane.weir import project

CREATED = "2026-03-01T12:00:00Z"


class Events:
    """Events by the uid of a pod."""

    def __init__(self) -> None:
        self.by_uid: dict[str, dict[str, str]] = {}

    def events_of(self, uid: str) -> dict[str, str]:
        return self.by_uid.get(uid, {})


class Small:
    """A cluster of objects that a test writes."""

    def __init__(self, nodes: int = 2, gpus: int = 8) -> None:
        self.copy: dict[str, dict[tuple[str, str], Object]] = {
            resource: {} for resource in (*RESOURCES, "podgroups")
        }
        self.events = Events()
        for at in range(nodes):
            self.put("nodes", node(f"n{at}", gpus=gpus))
        self.put("projects", project("a", 8, ["a"]))
        self.put("projects", project("b", 8, ["b"]))

    def put(self, resource: str, made: Object) -> Object:
        metadata = made["metadata"]
        metadata.setdefault("uid", f"uid-{resource}-{metadata['name']}")
        metadata |= {"creationTimestamp": CREATED, "resourceVersion": str(id(made))}
        self.copy[resource][metadata.get("namespace", ""), metadata["name"]] = made
        return made

    def pod(
        self,
        namespace: str,
        name: str,
        gpus: int,
        on: str = "",
        *,
        reason: str = "",
        owner: Object | None = None,
        **more: Any,
    ) -> Object:
        """Put a pod of Weir's: on a node, or waiting with a reason and an event of it."""
        made = pod(namespace, name, gpus, **more)
        made["spec"]["schedulerName"] = "weir"
        made["status"] = {"phase": "Running" if on else "Pending"}
        if on:
            made["spec"]["nodeName"] = on
        if owner is not None:
            reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
            reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
            made["metadata"]["ownerReferences"] = [reference]
        self.put("pods", made)
        if reason:
            condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "because"}
            made["status"]["conditions"] = [condition]
            self.events.by_uid[made["metadata"]["uid"]] = {reason: "because"}
        return made

    def job(self, namespace: str, name: str, gpus: int, pods: int, on: str = "", **more: Any) -> Object:
        """Put a Job and its pods, and the Workload of those that run."""
        made = self.put("jobs", job(namespace, name, gpus, pods=pods))
        for at in range(pods):
            self.pod(namespace, f"{name}-{at}", gpus, on, owner=made, **more)
        if on:
            recorded = [{"pod": f"{name}-{at}"} for at in range(pods)]
            status = {"phase": "Running", "podsRunning": pods, "nodes": [on], "allocations": recorded}
            self.put(
                "workloads", {"metadata": {"namespace": namespace, "name": f"job-{name}"}, "status": status}
            )
        return made

    def wrong(self, metrics: Mapping[Any, float] | None = None) -> dict[str, str]:
        """Return the sentence of each invariant that doesn't hold, without those of objects that a test leaves out."""
        snapshot = Snapshot(self.copy, self.events, 0.0)  # type: ignore[arg-type]
        found = {each.invariant: each.sentence for each in violations(snapshot, metrics or {})}
        left_out = ("queue allocated", "queue running", "queue pending", "queue quota", "workload exists")
        return {key: sentence for key, sentence in found.items() if key not in left_out}


def test_a_pod_that_fits_is_not_unschedulable() -> None:
    small = Small()
    small.pod("a", "first", 8, "n0")
    small.pod("a", "second", 8, reason="Unschedulable")
    assert "it fits: {'second': 'n1'}" in small.wrong()["true cause (Unschedulable)"]
    small.pod("a", "third", 1, "n1")
    assert "true cause (Unschedulable)" not in small.wrong()


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made["spec"].update(unschedulable=True),
        lambda made: made["spec"].update(taints=[{"key": "k", "effect": "NoSchedule"}]),
        lambda made: made["metadata"]["labels"].update({"weir.dev/gpu-sharing": "true"}),
        lambda made: made["status"]["allocatable"].update({"nvidia.com/gpu": "0"}),
    ],
    ids=["cordoned", "tainted", "shared", "without devices"],
)
def test_a_node_that_takes_no_more_is_no_place(change: Any) -> None:
    small = Small(nodes=1)
    small.pod("a", "waits", 1, reason="Unschedulable")
    assert small.wrong()
    change(small.copy["nodes"]["", "n0"])
    assert not small.wrong()


def test_a_gang_fits_only_as_a_whole() -> None:
    small = Small(nodes=2)
    small.job("a", "gang", 8, 3, reason="Unschedulable")
    assert not small.wrong()
    small.put("nodes", node("n2"))
    assert "it fits" in small.wrong()["true cause (Unschedulable)"]


def grouped(small: Small, least: int, *where: str, reason: str = "") -> None:
    """Put a pod group with this minimum, and its pods, each on a node or waiting."""
    policy = {"gang": {"minCount": least}} if least else {"basic": {}}
    metadata = {"name": "train", "namespace": "a"}
    spec = {"schedulingPolicy": policy}
    small.put("podgroups", {"kind": "PodGroup", "metadata": metadata, "spec": spec})
    for at, on in enumerate(where):
        made = small.pod("a", f"train-{at}", 4, on, reason="" if on else reason)
        made["spec"]["schedulingGroup"] = {"podGroupName": "train"}


@pytest.mark.parametrize(("least", "is_part"), [(3, True), (2, False), (0, False)])
def test_a_pod_group_runs_with_its_minimum_or_not_at_all(least: int, is_part: bool) -> None:
    small = Small()
    grouped(small, least, "n0", "n1", "", reason="QuotaExceeded")
    assert ("gang in part" in small.wrong()) is is_part


def test_a_pod_group_that_is_there_is_not_missing_and_one_that_is_whole_fits() -> None:
    small = Small()
    grouped(small, 2, "", "", reason="OwnerMissing")
    assert "its pod group train is there" in small.wrong()["true cause (OwnerMissing)"]
    grouped(small, 2, "", "", reason="Unschedulable")
    assert "it fits" in small.wrong()["true cause (Unschedulable)"]
    grouped(small, 3, "", "", reason="GangIncomplete")
    assert not small.wrong()
    small.copy["podgroups"].clear()
    grouped_pods = [each for each in small.copy["pods"].values() if "schedulingGroup" in each["spec"]]
    for each in grouped_pods:
        each["status"]["conditions"][0]["reason"] = "OwnerMissing"
        small.events.by_uid[each["metadata"]["uid"]] = {"OwnerMissing": "because"}
        each["metadata"]["resourceVersion"] += "-later"
    assert not small.wrong()


def test_quota_for_work_that_is_not_preemptible() -> None:
    fixed = {"weir.dev/preemptible": "false"}
    small = Small(nodes=4)
    small.pod("a", "holds", 8, "n0", annotations=fixed)
    small.pod("a", "waits", 1, reason="QuotaExceeded", annotations=fixed)
    assert not small.wrong()
    small.copy["projects"]["", "a"]["spec"]["quota"]["gpu"] = 9
    assert "it would pass no quota" in small.wrong()["true cause (QuotaExceeded)"]


def test_a_service_that_keeps_a_minimum_borrows_and_passes_no_quota() -> None:
    small = Small(nodes=4)
    for kept, reported in ((None, False), ("2", True)):
        marks = {} if kept is None else {"weir.dev/min-replicas": kept}
        made = small.put("deployments", service("a", "web", 4, replicas=3, marks=marks))
        for at in range(2):
            small.pod("a", f"web-{at}", 4, f"n{at}", owner=made)
        small.pod("a", "web-2", 4, reason="QuotaExceeded", owner=made)
        assert ("true cause (QuotaExceeded)" in small.wrong()) is reported


def test_a_limit_is_named_where_it_holds_and_nowhere_else() -> None:
    small = Small()
    small.pod("a", "holds", 4, "n0")
    small.pod("a", "waits", 4, reason="LimitExceeded")
    assert small.wrong()["true cause (LimitExceeded)"]
    small.copy["projects"]["", "a"]["spec"]["limit"] = {"gpu": 7}
    assert not small.wrong()


@pytest.mark.parametrize(
    ("reason", "more"),
    [("SchedulingGated", {}), ("VolumeNotReady", {}), ("GangIncomplete", {}), ("WaitingForEviction", {})],
)
def test_what_is_not_so_is_no_reason(reason: str, more: dict[str, Any]) -> None:
    small = Small()
    small.pod("a", "waits", 1, reason=reason, **more)
    assert f"true cause ({reason})" in small.wrong()


def test_a_gate_and_a_missing_pod_are_reasons() -> None:
    small = Small()
    small.pod("a", "gated", 1, reason="SchedulingGated", schedulingGates=[{"name": "example.com/wait"}])
    gang = small.put("jobs", job("a", "gang", 1, pods=2))
    small.pod("a", "gang-0", 1, reason="GangIncomplete", owner=gang)
    assert not small.wrong()


def test_a_pod_on_a_node_that_is_gone_is_missing() -> None:
    small = Small()
    gang = small.put("jobs", job("a", "gang", 1, pods=2))
    small.pod("a", "gang-0", 1, "n0", owner=gang)
    small.pod("a", "gang-1", 1, reason="GangIncomplete", owner=gang)
    assert "true cause (GangIncomplete)" in small.wrong()
    del small.copy["nodes"]["", "n0"]
    assert "true cause (GangIncomplete)" not in small.wrong()


def test_a_pod_that_waits_has_a_condition_and_its_event() -> None:
    small = Small(nodes=0)
    silent = small.pod("a", "silent", 1)
    assert "without a condition" in small.wrong()["condition"]
    del small.copy["pods"]["a", "silent"]
    small.pod("a", "told", 1, reason="Unschedulable")
    assert not small.wrong()
    small.events.by_uid.clear()
    assert "events []" in small.wrong()["event"]
    assert silent


def test_an_owner_waits_though_it_could_take() -> None:
    small = Small()
    for at in range(2):
        small.job("a", f"lent-{at}", 8, 1, f"n{at}")
    small.pod("b", "owner", 8, reason="Unschedulable")
    assert "it could take a/job-lent-0 (8 GPUs)" in small.wrong()["no owner waits"]
    small.copy["projects"]["", "a"]["spec"]["quota"]["gpu"] = 16
    assert not small.wrong()


def test_what_a_budget_protects_may_stay() -> None:
    small = Small(nodes=1)
    marks = {"weir.dev/preemptible": "true"}
    web = small.put("deployments", service("a", "web", 8, marks=marks))
    small.pod("a", "web-0", 8, "n0", owner=web, labels={"app": "web"}, annotations=marks)
    status = {"phase": "Running", "podsRunning": 1, "nodes": ["n0"], "allocations": [{"pod": "web-0"}]}
    small.put("workloads", {"metadata": {"namespace": "a", "name": "deployment-web"}, "status": status})
    small.copy["projects"]["", "a"]["spec"]["quota"]["gpu"] = 0
    small.pod("b", "owner", 8, reason="Unschedulable")
    assert "no owner waits" in small.wrong()
    small.put("poddisruptionbudgets", budget("a", "web", "web", maxUnavailable=0))
    assert "no owner waits" not in small.wrong()


def test_a_gang_in_part_is_seen() -> None:
    small = Small()
    gang = small.job("a", "gang", 1, 2, "n0")
    assert not small.wrong()
    del small.copy["pods"]["a", "gang-1"]
    wrong = small.wrong()
    assert wrong["gang in part"] == "a/job-gang has 1 of 2 pods on nodes"
    assert "podsRunning 2; 1 run" in wrong["status podsRunning"]
    gang["status"] = {"succeeded": 1}
    assert "gang in part" not in small.wrong()


def test_metrics_are_held_against_a_recount() -> None:
    small = Small(nodes=3)
    small.job("a", "holds", 4, 1, "n0")
    true = {("weir_nodes", ()): 3.0, ("weir_gpus", ()): 24.0, ("weir_allocated_gpus", ()): 4.0}
    for name, value in (("a", 4.0), ("b", 0.0)):
        true["weir_queue_allocated_gpus", (("kind", "project"), ("queue", name))] = value  # type: ignore[index]
    assert not small.wrong(true)
    for key in true:
        assert any(word.startswith("metrics") for word in small.wrong({**true, key: 1.5})), key


def test_a_pod_on_a_node_that_is_gone_holds_nothing() -> None:
    small = Small(nodes=2)
    small.job("a", "holds", 4, 1, "n0")
    del small.copy["nodes"]["", "n0"]
    true = {("weir_nodes", ()): 1.0, ("weir_gpus", ()): 8.0, ("weir_allocated_gpus", ()): 0.0}
    for name in ("a", "b"):
        true["weir_queue_allocated_gpus", (("kind", "project"), ("queue", name))] = 0.0  # type: ignore[index]
    assert not small.wrong(true)
    assert "metrics" in small.wrong({**true, ("weir_allocated_gpus", ()): 4.0})


def test_placing_goes_back_where_a_choice_blocks_another() -> None:
    nodes = {each["metadata"]["name"]: NodeView.read(each) for each in (node("a"), node("b", gpus=4))}
    wanted = []
    for name, on in (("free", {}), ("bound", {"kubernetes.io/hostname": "b"})):
        made = pod("x", name, 4, nodeSelector=on)
        made["metadata"] |= {"uid": name, "creationTimestamp": CREATED}
        wanted.append(view({**made, "spec": {**made["spec"], "schedulerName": "weir"}}))
    assert place(wanted, nodes) == {"free": "a", "bound": "b"}


def test_the_audit_sees_overcommitment_and_a_device_given_twice() -> None:
    small = Small(nodes=1)
    audit = Audit(lambda _: 8)
    for name, index in (("one", "0,1,2,3"), ("two", "3,4,5,6,7")):
        gpus = len(index.split(","))
        made = small.pod("a", name, gpus)
        audit.take("ADDED", made)
        bound = {**made, "spec": {**made["spec"], "nodeName": "n0"}}
        bound["metadata"] = {**made["metadata"], "annotations": {"weir.dev/gpus": index}}
        audit.take("MODIFIED", bound)
    sentences = [each.partition("\n")[0] for each in audit.wrong]
    assert sentences == [
        "a/two makes it 9 GPUs on n0, which has 8",
        "a/one and a/two both have devices {3}",
    ]


@pytest.mark.parametrize("adopted", [False, True])
def test_the_audit_sees_a_start_given_twice_unless_the_pods_were_adopted(adopted: bool) -> None:
    small = Small(nodes=1)
    audit = Audit(lambda _: 8)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "set", "controller": True}
    for at, name in enumerate(("one", "two")):
        made = small.pod("a", name, 1)
        owned = {**made["metadata"], "ownerReferences": [owner]}
        audit.take("ADDED", made if adopted else {**made, "metadata": owned})
        audit.take("MODIFIED", {**made, "metadata": owned})
        annotations = {"weir.dev/gpus": str(at), "weir.dev/start": "1"}
        bound = {**made, "spec": {**made["spec"], "nodeName": "n0"}}
        audit.take("MODIFIED", {**bound, "metadata": {**owned, "annotations": annotations}})
    sentences = [each.partition("\n")[0] for each in audit.wrong]
    assert sentences == ([] if adopted else ["a/one and a/two are both start 1"])
