"""Evictions, objects, statuses and events are written once each, in order for each object."""

import asyncio
import socket
from pathlib import Path

from tests.kubernetes.api_writing import acting_on, evict, make, nodes_of
from tests.kubernetes.test_reflector import until
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.proxy import FaultProxy, Faults
from tools.controlplane.work import pod

from weir.kubernetes.api.client import Patch
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.writes.delivery.api_writer import Pace
from weir.kubernetes.writes.operations import (
    Bind,
    EmitEvent,
    EventSubject,
    PatchStatus,
    UpsertWorkload,
    WriteDelayed,
    WriteDone,
    WriteRefused,
    WriteSuperseded,
)

# Evictions


async def test_a_disruption_budget_holds_an_eviction_up(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    (node,) = cluster.add_nodes(1)
    bind, free = make(cluster, within, 2)
    pdb = path_of("policy/v1", "poddisruptionbudgets", within)
    cluster.api.patch(path_of("v1", "pods", within, "p0"), {"metadata": {"labels": {"keep": "me"}}})
    cluster.api.post(
        pdb,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "one"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"keep": "me"}}},
        },
    )
    because = EmitEvent(
        EventSubject("v1", "Pod", "p0", within, bind.uid), "Reclaimed", "Team B is owed its GPU.", "Evicting"
    )
    async with acting_on(weir_kubeconfig) as (writer, reported):
        writer.submit([Bind(one.namespace, one.name, one.uid, node) for one in (bind, free)])
        await until(lambda: len(cluster.running(within)) == 2)
        await until(lambda: cluster.api.get(f"{pdb}/one")["status"].get("currentHealthy") == 1)
        writer.submit([evict(bind, because=because, insists=True), evict(free)])
        await until(lambda: bool(reported.of("p0")) and bool(reported.of("p1")))
        (held,) = reported.of("p0")
        assert isinstance(held, WriteDelayed)
        assert "disruption budget" in held.sentence
        assert reported.of("p1") == [WriteDone()]
        await asyncio.sleep(0.5)
        assert len(reported.of("p0")) == 1, "it is said once"
        assert (
            cluster.api.get(path_of("v1", "pods", within, "p0"))["metadata"].get("deletionTimestamp") is None
        )
        cluster.api.delete(f"{pdb}/one")
        await until(lambda: reported.of("p0")[-1] == WriteDone())
        await until(lambda: nodes_of(cluster, within) == {})

        def reclaimed() -> list[Object]:
            events = cluster.api.items(path_of("events.k8s.io/v1", "events", within))
            return [each for each in events if each["reason"] == "Reclaimed"]

        await until(lambda: bool(reclaimed()))
        (answer,) = reclaimed()
        assert answer["note"] == "Team B is owed its GPU."
        assert "Team B is owed" in cluster.plane.kubectl("get", "events", "-n", within)


async def test_who_is_gone_needs_no_eviction(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    gone, replaced, lost = make(cluster, within, 3)
    cluster.api.delete(path_of("v1", "pods", within, "p0"), grace_s=0)
    cluster.api.delete(path_of("v1", "pods", within, "p1"), grace_s=0)
    cluster.api.create(pod(within, "p1"))
    async with acting_on(proxy.kubeconfig) as (writer, reported):
        proxy.faults = Faults(dropped=1.0, where=lambda asked: asked.verb == "POST" and "p2" in asked.path)
        writer.submit([evict(gone), evict(replaced), evict(lost)])
        await until(lambda: len(reported.final) == 3)
        assert reported.final == [WriteDone()] * 3
        (left,) = cluster.pods(within)
        assert left["metadata"]["name"] == "p1"
        assert left["metadata"]["uid"] != replaced.uid


# Objects, statuses, events


async def test_an_object_is_made_or_changed(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    path = path_of("v1", "configmaps", within)

    def upsert(value: str) -> UpsertWorkload:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c"},
            "data": {"k": value},
        }
        return UpsertWorkload(path, "c", body, about=value)

    async with acting_on(proxy.kubeconfig) as (writer, reported):
        proxy.faults = Faults(dropped=0.3, broken=0.3, conflict=0.3)
        writer.submit([upsert("1"), upsert("2"), upsert("3")])
        await until(lambda: len(reported.final) == 3)
        proxy.calm()
        outcomes = {str(write.about): outcome for write, outcome in reported.all}
        assert outcomes.pop("3") == WriteDone()
        assert all(isinstance(outcome, WriteDone | WriteSuperseded) for outcome in outcomes.values())
        assert cluster.api.get(f"{path}/c")["data"] == {"k": "3"}
        writer.submit(
            [UpsertWorkload(path_of("v1", "configmaps", "nowhere"), "c", upsert("1").body, about="no")]
        )
        await until(lambda: len(reported.final) == 4)
        (no,) = reported.of("no")
        assert isinstance(no, WriteRefused)
        assert no.status == 404


async def test_statuses_that_wait_become_one(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    (bind,) = make(cluster, within, 1)
    path = bind.object_path

    def status(about: str, **fields: str | None) -> PatchStatus:
        return PatchStatus(path, {"status": fields}, Patch.STRATEGIC, about=about)

    async with acting_on(proxy.kubeconfig) as (writer, reported):
        writer.submit([status("1", message="one", reason="R"), status("2", message="two")])
        await until(lambda: len(reported.final) == 2)
        assert reported.of("1") == [WriteSuperseded()]
        assert reported.of("2") == [WriteDone()]
        now = cluster.api.get(path)["status"]
        assert (now["message"], now["reason"]) == ("two", "R")
        proxy.faults = Faults(throttled=1.0, retry_after_s=0)
        writer.submit([status("3", message="three", reason="S")])
        await until(lambda: writer.throttled > 2)
        writer.submit([status("4", message="four", reason=None)])
        await until(lambda: bool(reported.of("3")))  # a try of it may be under way, and could pass
        writer.submit([bind])
        proxy.calm()
        await until(lambda: len(reported.final) == 5)
        assert reported.of("3") == [WriteSuperseded()]
        assert reported.of("p0") == [WriteDone()], "a binding waits for no status"
        assert reported.of("4") == [WriteDone()]
        now = cluster.api.get(path)["status"]
        assert now["message"] == "four"
        assert "reason" not in now
        writer.submit([PatchStatus(path_of("v1", "pods", within, "no"), {"status": {}}, about="no")])
        await until(lambda: bool(reported.of("no")))
        assert isinstance(reported.of("no")[0], WriteRefused)


async def test_events_are_for_when_there_is_time(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    (bind,) = make(cluster, within, 1)
    about = EventSubject("v1", "Pod", "p0", within, bind.uid)
    pace = Pace(events_per_s=10, events_waiting=15)
    async with acting_on(weir_kubeconfig, pace=pace) as (writer, _):
        writer.submit(EmitEvent(about, "Waits", f"For {number}. " + "x" * 2000) for number in range(40))
        assert writer.recorder.dropped == 25
        await until(lambda: writer.recorder.emitted == 15)
        answer = cluster.api.items(path_of("events.k8s.io/v1", "events", within))
        notes = {one["note"][:7] for one in answer if one["reason"] == "Waits"}
        assert notes == {f"For {number}." for number in range(25, 40)}
        reporters = {(one["reportingController"], one["reportingInstance"]) for one in answer}
        assert reporters == {("weir.dev/weir", socket.gethostname())}
