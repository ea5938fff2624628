"""Writes are carried out once each, in order for each object, whatever the way to the server is like."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.kubernetes.test_reflector import until
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.proxy import FaultProxy, Faults
from tools.controlplane.work import pod

from weir.kubernetes.api.client import ApiClient, ClientLimits, Patch
from weir.kubernetes.api.credentials import Kubeconfig
from weir.kubernetes.api.leader_election import AlwaysLeader, Leadership
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.writes.api_writer import ApiWriter, Pace
from weir.kubernetes.writes.operations import (
    Bind,
    EmitEvent,
    EventSubject,
    Evict,
    Outcome,
    PatchStatus,
    UpsertWorkload,
    Write,
    WriteDelayed,
    WriteDone,
    WriteNotSent,
    WriteRefused,
    WriteSuperseded,
    WriteUnknown,
)

QUICK = Pace(first_s=0.02, most_s=0.2)
PATIENT, BRISK = ClientLimits(), ClientLimits(write_s=1.0)
"""For faults that delay an answer; a machine under load may take as long for a good one."""


class WatchProgress:
    """Outcomes as they come."""

    def __init__(self) -> None:
        self.all: list[tuple[Write, Outcome]] = []

    def __call__(self, write: Write, outcome: Outcome) -> None:
        self.all.append((write, outcome))

    def of(self, about: object) -> list[Outcome]:
        return [outcome for write, outcome in self.all if write.about == about]

    @property
    def final(self) -> list[Outcome]:
        return [outcome for _, outcome in self.all if not isinstance(outcome, WriteDelayed)]


class Switch:
    """A fence that somebody opens and closes."""

    def __init__(self) -> None:
        self.term = 1
        self.open = True

    def may_write(self) -> bool:
        return self.open


@asynccontextmanager
async def acting_on(
    kubeconfig: Path,
    *,
    fence: Leadership | None = None,
    pace: Pace = QUICK,
    limits: ClientLimits = PATIENT,
    **more: Any,
) -> AsyncIterator[tuple[ApiWriter, WatchProgress]]:
    reported = WatchProgress()
    async with ApiClient(Kubeconfig(kubeconfig), limits) as api:
        writer = ApiWriter(api, fence or AlwaysLeader(), reported, pace=pace, **more)
        running = asyncio.create_task(writer.run())
        try:
            yield writer, reported
            assert not running.done(), running
        finally:
            running.cancel()


def make(cluster: Cluster, within: str, count: int, **more: Any) -> list[Bind]:
    """Pods, and a place for each."""
    cluster.api.create_many([pod(within, f"p{number}", **more) for number in range(count)])
    uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in cluster.pods(within)}
    return [
        Bind(within, name, uid, f"node-{name}", {"weir.dev/gpus": "0,3", "weir.dev/start": "17"}, about=name)
        for name, uid in sorted(uids.items())
    ]


def nodes_of(cluster: Cluster, within: str) -> dict[str, str]:
    return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in cluster.pods(within)}


def evict(bind: Bind, **more: Any) -> Evict:
    return Evict(bind.namespace, bind.name, bind.uid, about=bind.about, **more)


# Bindings


async def test_a_binding_brings_its_annotations_along(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    binds = make(cluster, within, 3)
    other = Bind(within, "p1", "another-uid", "x", about="other")
    nobody = Bind(within, "nobody", "u", "x", about="nobody")
    async with acting_on(weir_kubeconfig) as (writer, reported):
        writer.submit([other, nobody, binds[0]])
        await until(lambda: len(reported.final) == 3)
        writer.submit([Bind(within, "p0", binds[0].uid, "elsewhere", about="again")])
        await until(lambda: len(reported.final) == 4)
        assert reported.of("p0") == [WriteDone()]
        for about, status in (("other", 409), ("nobody", 404), ("again", 409)):
            (refused,) = reported.of(about)
            assert isinstance(refused, WriteRefused)
            assert refused.status == status
            assert refused.sentence
        bound = cluster.api.get(path_of("v1", "pods", within, "p0"))
        assert bound["spec"]["nodeName"] == "node-p0"
        assert bound["metadata"]["annotations"] == {"weir.dev/gpus": "0,3", "weir.dev/start": "17"}
        assert nodes_of(cluster, within)["p1"] == ""
        assert writer.outcomes["Bind WriteRefused"] == 3


async def test_every_fault_is_outlasted(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    binds = make(cluster, within, 150)
    async with acting_on(proxy.kubeconfig, limits=BRISK) as (writer, reported):
        proxy.faults = Faults(
            throttled=0.1, retry_after_s=0, broken=0.1, refused=0.1, dropped=0.2, delayed=0.05, delay_s=3.0
        )
        writer.submit(binds)
        await until(lambda: len(reported.final) == len(binds))
        proxy.calm()
        assert {type(outcome) for outcome in reported.final} == {WriteDone}
        assert nodes_of(cluster, within) == {bind.name: bind.node for bind in binds}
        assert proxy.injected["dropped"] > 5
        assert writer.retries > 20
        assert len(writer) == 0


async def test_an_answer_that_was_lost_is_looked_up(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    bind, taken, gone = make(cluster, within, 3)
    lost = Faults(dropped=1.0, where=lambda asked: asked.verb == "POST" and "binding" in asked.path)
    async with acting_on(proxy.kubeconfig) as (writer, reported):
        proxy.faults = lost
        writer.submit([bind])
        await until(lambda: bool(reported.final))
        assert reported.of("p0") == [WriteDone()]
        assert proxy.injected["dropped"] == 1, "it wasn't sent twice"
        proxy.faults = Faults(broken=1.0)
        writer.submit([taken, gone])
        await until(lambda: writer.retries > 4)
        cluster.api.post(
            path_of("v1", "pods", within, "p1", "binding"),
            {"metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "elsewhere"}},
        )
        cluster.api.delete(path_of("v1", "pods", within, "p2"), grace_s=0)
        proxy.calm()
        await until(lambda: len(reported.final) == 3)
        (taken_out,), (gone_out,) = reported.of("p1"), reported.of("p2")
        assert isinstance(taken_out, WriteRefused)
        assert "elsewhere" in taken_out.sentence
        assert isinstance(gone_out, WriteRefused)
        assert gone_out.status == 404


async def test_a_try_that_is_carried_out_late_is_reckoned_with(cluster: Cluster, proxy: FaultProxy) -> None:
    """Its connection is gone, the next try is refused, and only then the first one comes through."""
    within = cluster.namespace()
    (bind,) = make(cluster, within, 1)
    async with acting_on(proxy.kubeconfig) as (writer, reported):
        proxy.faults = Faults(delayed=1.0, delay_s=4.0, where=lambda asked: "binding" in asked.path)
        writer.submit([bind])
        await until(lambda: proxy.injected["delayed"] == 1)
        proxy.faults = Faults(conflict=1.0)
        proxy.cut()
        await until(lambda: bool(reported.final))
        assert reported.of("p0") == [WriteDone()]
        assert nodes_of(cluster, within) == {"p0": bind.node}


async def test_no_binding_waits_for_one_that_fails(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    binds = make(cluster, within, 40)
    stuck = ("/p7/", "/p8/")
    proxy.faults = Faults(
        throttled=1.0, retry_after_s=2, where=lambda asked: any(name in asked.path for name in stuck)
    )
    async with acting_on(proxy.kubeconfig, pace=Pace(in_flight=2)) as (writer, reported):
        began_s = time.monotonic()
        writer.submit(binds)
        await until(lambda: len(reported.final) == 38)
        proxy.calm()
        await until(lambda: len(reported.final) == 40)
        assert time.monotonic() - began_s >= 2.0, "Retry-After was heeded"
        assert writer.throttled >= 2


async def test_a_binding_is_given_up_in_the_end(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    binds = make(cluster, within, 2)
    proxy.faults = Faults(throttled=1.0, retry_after_s=0, where=lambda asked: "/p0/" in asked.path)
    pace = Pace(first_s=0.02, most_s=0.1, give_up_s=0.5)
    async with acting_on(proxy.kubeconfig, pace=pace) as (writer, reported):
        writer.submit(binds[:1])
        await until(lambda: bool(reported.final))
        assert isinstance(reported.final[0], WriteRefused)
        proxy.faults = Faults(broken=1.0)
        writer.submit(binds[1:])
        await until(lambda: len(reported.final) == 2)
        assert isinstance(reported.final[1], WriteUnknown)


# Who may write


async def test_nothing_is_sent_by_one_who_does_not_lead(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    binds = make(cluster, within, 4)
    fence = Switch()
    async with acting_on(proxy.kubeconfig, fence=fence) as (writer, reported):
        fence.open = False
        writer.submit(binds[:1])
        await until(lambda: bool(reported.final))
        assert isinstance(reported.final[0], WriteNotSent)
        assert proxy.passed["POST"] == 0
        fence.open = True
        proxy.faults = Faults(throttled=1.0, retry_after_s=30)
        writer.submit(binds[1:2])
        await until(lambda: writer.throttled == 1)
        fence.term = 2
        proxy.calm()
        writer.submit(binds[2:])
        await until(lambda: len(reported.final) == 4)
        assert isinstance(reported.of("p1")[0], WriteNotSent), "it was meant in another term"
        assert reported.of("p2") == reported.of("p3") == [WriteDone()]


async def test_somebody_is_asked_right_before(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    binds = make(cluster, within, 2)
    full: set[str] = set()

    def check(write: Bind | Evict) -> str:
        return f"{write.name} has no capacity any more." if write.name in full else ""

    async with acting_on(proxy.kubeconfig, check=check) as (writer, reported):
        full.add("p0")
        proxy.faults = Faults(throttled=1.0, retry_after_s=0)
        writer.submit(binds)
        await until(lambda: writer.retries > 2)
        full.add("p1")
        await until(lambda: len(reported.final) == 2)
        assert reported.of("p0") == [WriteNotSent("p0 has no capacity any more.")]
        assert reported.of("p1") == [WriteNotSent("p1 has no capacity any more.")]
        assert proxy.passed["POST"] == 0


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


# Pace


async def test_a_rate_is_kept(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    binds = make(cluster, within, 60)
    async with acting_on(weir_kubeconfig, pace=Pace(per_s=40)) as (writer, reported):
        began_s = time.monotonic()
        writer.submit(binds)
        await until(lambda: len(reported.final) == 60)
        assert time.monotonic() - began_s > 1.3
