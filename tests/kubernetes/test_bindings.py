"""Bindings are carried out once each, whatever happens to the connection, and by a leader alone."""

import time
from pathlib import Path

from tests.kubernetes.api_writing import BRISK, Switch, acting_on, make, nodes_of
from tests.kubernetes.test_reflector import until
from tools.controlplane.cluster import Cluster
from tools.controlplane.proxy import FaultProxy, Faults

from weir.kubernetes.api.paths import path_of
from weir.kubernetes.writes.delivery.api_writer import Pace
from weir.kubernetes.writes.operations import (
    Bind,
    Evict,
    WriteDone,
    WriteNotSent,
    WriteRefused,
    WriteUnknown,
)

# Bindings


async def test_a_binding_brings_its_annotations_along(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    binds = make(cluster, within, 3)
    other = Bind(within, "p1", "another-uid", "x", about="other")
    missing = Bind(within, "nobody", "u", "x", about="nobody")
    async with acting_on(weir_kubeconfig) as (writer, reported):
        writer.submit([other, missing, binds[0]])
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


# Leadership


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


async def test_the_state_is_checked_right_before(cluster: Cluster, proxy: FaultProxy) -> None:
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


# Pace


async def test_a_rate_is_kept(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    binds = make(cluster, within, 60)
    async with acting_on(weir_kubeconfig, pace=Pace(per_s=40)) as (writer, reported):
        began_s = time.monotonic()
        writer.submit(binds)
        await until(lambda: len(reported.final) == 60)
        assert time.monotonic() - began_s > 1.3
