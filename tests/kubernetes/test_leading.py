"""Leader election: the leader stops in time when it can't keep the lease, and never two lead together."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kubernetes.test_reflector import until
from tools.controlplane.cluster import Cluster
from tools.controlplane.proxy import FaultProxy, Faults
from tools.controlplane.weir import install_kinds

from weir.kubernetes.api.client import ApiClient, ClientLimits
from weir.kubernetes.api.credentials import Kubeconfig
from weir.kubernetes.api.leader_election import LeaderElection, Lease, LeaseTiming
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.process.process_options import ProcessOptions
from weir.kubernetes.process.scheduler_process import SchedulerProcess

QUICK = LeaseTiming(lease_s=9, renew_deadline_s=7, retry_s=0.3)
LONG = LeaseTiming(lease_s=90, renew_deadline_s=60, retry_s=0.3)
BRISK = ClientLimits(write_s=1.0)
LATE_S = 120.0  # for what is to happen sooner on any machine


@asynccontextmanager
async def taking_part(
    kubeconfig: Path, within: str, name: str, timing: LeaseTiming = QUICK
) -> AsyncIterator[tuple[LeaderElection, asyncio.Task[None]]]:
    async with ApiClient(Kubeconfig(kubeconfig), BRISK) as api:
        election = LeaderElection(api, namespace=within, identity=name, timing=timing)
        running = asyncio.create_task(election.run())
        try:
            yield election, running
        finally:
            running.cancel()


class Watchman:
    """Notes who may write, a hundred times a second."""

    def __init__(self, *leaders: LeaderElection) -> None:
        self.leaders = leaders
        self.together = 0
        self.tracked: list[tuple[float, int]] = []
        self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            now = [place for place, leader in enumerate(self.leaders) if leader.may_write()]
            self.together += len(now) > 1
            self.tracked += [(time.monotonic(), place) for place in now]
            await asyncio.sleep(0.01)

    def last(self, place: int) -> float:
        return max(at for at, who in self.tracked if who == place)

    def first(self, place: int) -> float:
        return min(at for at, who in self.tracked if who == place)


def lease(cluster: Cluster, within: str) -> dict[str, object]:
    spec: dict[str, object] = cluster.api.get(path_of("coordination.k8s.io/v1", "leases", within, "weir"))[
        "spec"
    ]
    return spec


async def test_one_leads_and_keeps_it(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    async with taking_part(weir_kubeconfig, within, "a", LONG) as (first, _):
        await asyncio.wait_for(first.won(), LATE_S)
        assert first.may_write()
        async with taking_part(weir_kubeconfig, within, "b", LONG) as (second, _):
            watchman = Watchman(first, second)
            renewed: set[object] = set()

            def is_renewed() -> bool:
                renewed.add(lease(cluster, within)["renewTime"])
                return len(renewed) > 4

            await until(is_renewed)
            await until(lambda: second.holder == first.identity)
            assert {place for _, place in watchman.tracked} == {0}
            assert first.term == 1
            spec = lease(cluster, within)
            assert spec["holderIdentity"] == first.identity
            assert spec.get("leaseTransitions", 0) == 0


async def test_a_clean_stop_hands_over_at_once(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    async with taking_part(weir_kubeconfig, within, "a", LONG) as (first, _):
        await asyncio.wait_for(first.won(), LATE_S)
        async with taking_part(weir_kubeconfig, within, "b", LONG) as (second, _):
            watchman = Watchman(first, second)
            await asyncio.sleep(0.5)
            await first.release()
            assert not first.may_write()
            await asyncio.wait_for(second.won(), LATE_S)  # sooner than the lease runs out
            await asyncio.sleep(0.2)
            assert watchman.together == 0
            assert lease(cluster, within)["leaseTransitions"] == 1


async def test_who_dies_is_followed_when_the_lease_has_run_out(
    cluster: Cluster, weir_kubeconfig: Path
) -> None:
    within = cluster.namespace()
    async with taking_part(weir_kubeconfig, within, "a") as (first, running):
        await asyncio.wait_for(first.won(), LATE_S)
        async with taking_part(weir_kubeconfig, within, "b") as (second, _):
            # A leader that may write renewed the lease a renew deadline ago at most.
            await until(lambda: second.holder == first.identity and first.may_write())
            running.cancel()
            died_s = time.monotonic()
            await asyncio.wait_for(second.won(), LATE_S)
        assert QUICK.lease_s - QUICK.renew_deadline_s < time.monotonic() - died_s


async def test_a_dead_leader_is_followed_when_its_lease_ends_however_rarely_the_other_looks(
    cluster: Cluster, weir_kubeconfig: Path
) -> None:
    within, seldom = cluster.namespace(), LeaseTiming(lease_s=9, renew_deadline_s=7, retry_s=10 * LATE_S)
    async with taking_part(weir_kubeconfig, within, "a") as (first, running):
        await asyncio.wait_for(first.won(), LATE_S)
        async with taking_part(weir_kubeconfig, within, "b", seldom) as (second, _):
            await until(lambda: second.holder == first.identity and first.may_write())
            await asyncio.sleep(QUICK.retry_s * 3)  # renewals of which the other hears
            running.cancel()
            await asyncio.wait_for(second.won(), LATE_S)
            assert not first.may_write()


async def test_a_scheduler_whose_stop_hangs_loses_the_lease(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    install_kinds(cluster.api)
    async with ApiClient(Kubeconfig(weir_kubeconfig)) as api:
        hanging = SchedulerProcess(api, ProcessOptions(namespace=within))
        assert isinstance(hanging.election, LeaderElection)
        running = asyncio.create_task(hanging.run())
        await until(lambda: hanging.control_thread is not None)
        async with taking_part(weir_kubeconfig, within, "b") as (second, _):
            await until(lambda: second.holder == hanging.election.identity)
            hanging.sweeps.close = asyncio.Event().wait  # type: ignore[method-assign]
            stop = asyncio.create_task(hanging.close())
            await asyncio.wait_for(second.won(), LATE_S)
            assert not hanging.election.may_write()
            stop.cancel()
        running.cancel()
        await asyncio.wait([running])


async def test_who_is_cut_off_stops_before_another_begins(
    cluster: Cluster, proxy: FaultProxy, weir_kubeconfig: Path
) -> None:
    within = cluster.namespace()
    async with taking_part(proxy.kubeconfig, within, "a") as (first, _):
        await asyncio.wait_for(first.won(), LATE_S)
        async with taking_part(weir_kubeconfig, within, "b") as (second, _):
            watchman = Watchman(first, second)
            await until(lambda: second.holder == first.identity)
            proxy.down = True
            proxy.cut()
            await asyncio.wait_for(first.lost(), LATE_S)
            await asyncio.wait_for(second.won(), LATE_S)
            assert watchman.together == 0
            silence_s = (
                watchman.first(1) - watchman.last(0) if watchman.tracked[-1][1] == 1 else BRISK.write_s
            )
            assert silence_s >= BRISK.write_s * 0.9, (
                "the last request of the one is over before the other begins"
            )
            proxy.calm()
            await until(lambda: first.holder == second.identity)
            await asyncio.sleep(1)
            assert not first.may_write()
            assert watchman.together == 0
            await second.release()
            await asyncio.wait_for(first.won(), LATE_S)
            assert first.term == 2, "what was meant to be written before is another term's"


async def test_a_server_that_hangs_is_no_reason_to_go_on(
    cluster: Cluster, proxy: FaultProxy, weir_kubeconfig: Path
) -> None:
    within = cluster.namespace()
    async with taking_part(proxy.kubeconfig, within, "a") as (first, _):
        await asyncio.wait_for(first.won(), LATE_S)
        watchman = Watchman(first)
        proxy.faults = Faults(delayed=1.0, delay_s=1000.0)
        began_s = time.monotonic()
        await asyncio.wait_for(first.lost(), LATE_S)
        assert watchman.last(0) - began_s < QUICK.lease_s, "before anybody else may begin"


async def test_faults_that_pass_cost_no_leader_the_lease(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    patient = LeaseTiming(lease_s=90, renew_deadline_s=60, retry_s=0.1)
    async with taking_part(proxy.kubeconfig, within, "a", patient) as (first, _):
        await asyncio.wait_for(first.won(), LATE_S)
        proxy.faults = Faults(dropped=0.2, broken=0.1, conflict=0.1)
        await until(lambda: not first.may_write() or sum(proxy.injected.values()) > 8)
        assert first.may_write()
        assert first.term == 1


async def test_a_lease_that_is_deleted_is_made_again(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    path = path_of("coordination.k8s.io/v1", "leases", within, "weir")
    async with taking_part(weir_kubeconfig, within, "a", LONG) as (first, _):
        await asyncio.wait_for(first.won(), LATE_S)
        cluster.api.delete(path)
        await until(lambda: cluster.api.maybe(path) is not None)
        assert first.may_write()
        assert lease(cluster, within)["holderIdentity"] == first.identity


async def test_who_was_asleep_does_not_write(cluster: Cluster, weir_kubeconfig: Path) -> None:
    slept_s = 0.0
    async with ApiClient(Kubeconfig(weir_kubeconfig), BRISK) as api:
        clock = lambda: time.monotonic() + slept_s  # noqa: E731 - sleeps on request
        election = LeaderElection(api, namespace=cluster.namespace(), identity="a", timing=QUICK, clock=clock)
        running = asyncio.create_task(election.run())
        await asyncio.wait_for(election.won(), LATE_S)
        slept_s = 60.0
        assert not election.may_write(), "whatever the loop has noticed yet"
        await asyncio.wait_for(election.lost(), LATE_S)
        await asyncio.wait_for(election.won(), LATE_S)
        assert election.term == 2
        running.cancel()


async def test_times_that_do_not_fit_are_refused(weir_kubeconfig: Path) -> None:
    async with ApiClient(Kubeconfig(weir_kubeconfig)) as api:
        with pytest.raises(ValueError, match="write a longer lease"):
            LeaderElection(api, namespace="x", identity="a", timing=LeaseTiming(lease_s=10))
    assert Lease
