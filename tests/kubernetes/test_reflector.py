"""Whatever happens to the connection, the changes add up to what the server has, and nothing comes twice."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.kubernetes.test_connection import OddPod
from tools.controlplane.cluster import Cluster
from tools.controlplane.proxy import FaultProxy, Faults
from tools.controlplane.work import pod

from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet, ObjectUnreadable
from weir.kubernetes.api.client import ApiClient, ClientLimits
from weir.kubernetes.api.credentials import Kubeconfig
from weir.kubernetes.api.objects import ApiObject, KubePod
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.reflector import Reflector, RetryDelays

QUICK = RetryDelays(first_s=0.02, most_s=0.2, absent_s=0.2)


class Picture:
    """The changes, added up. Anything missed or repeated fails at once."""

    def __init__(self) -> None:
        self.there: dict[str, tuple[str, str]] = {}
        self.batches: list[list[Change[Any]]] = []

    def take(self, changes: Sequence[Change[Any]]) -> None:
        assert changes
        self.batches.append(list(changes))
        for change in changes:
            known = self.there.get(change.key)
            match change:
                case ObjectSet():
                    metadata = change.object.metadata
                    now = metadata.uid, metadata.resource_version
                    assert known != now, f"{change.key} came twice"
                    assert known is None or known[0] == now[0], f"{change.key} was replaced without a word"
                    assert known is None or int(known[1]) < int(now[1]), f"{change.key} went back"
                    self.there[change.key] = now
                case ObjectRemoved():
                    assert known is not None, f"{change.key} was removed twice"
                    assert known[0] == change.uid
                    del self.there[change.key]
                case ObjectUnreadable():
                    self.there[change.key] = change.uid, "0"

    @property
    def changes(self) -> list[Change[Any]]:
        return [change for batch in self.batches for change in batch]


def truth(cluster: Cluster, within: str) -> dict[str, tuple[str, str]]:
    return {
        f"{within}/{one['metadata']['name']}": (one["metadata"]["uid"], one["metadata"]["resourceVersion"])
        for one in cluster.pods(within)
    }


async def until(true: Callable[[], bool], within_s: float = 120.0) -> None:
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110 - the truth sends no events
            await asyncio.sleep(0.02)


@asynccontextmanager
async def reflecting(
    kubeconfig: Path, path: str, of: Any = KubePod, limits: ClientLimits | None = None, **more: Any
) -> AsyncIterator[tuple[Reflector[Any], Picture]]:
    cluster_state = Picture()
    async with ApiClient(Kubeconfig(kubeconfig), limits or ClientLimits()) as api:
        reflector = Reflector(api, path, of, cluster_state.take, waits=QUICK, chance=random.Random(1), **more)
        running = asyncio.create_task(reflector.run())
        try:
            yield reflector, cluster_state
            assert not running.done(), running
        finally:
            running.cancel()


def churn(cluster: Cluster, within: str, chance: random.Random, names: Sequence[str]) -> None:
    """Make one change to pods, some of it under names that others had."""
    name = chance.choice(names)
    path = path_of("v1", "pods", within, name)
    if cluster.api.maybe(path) is None:
        cluster.api.create(pod(within, name))
        return
    if chance.random() < 0.5:
        cluster.api.patch(path, {"metadata": {"labels": {"n": str(chance.random())}}})
        return
    cluster.api.delete(path, grace_s=0)
    if chance.random() < 0.5:
        cluster.api.create(pod(within, name))


async def test_the_first_list_comes_in_pieces_and_the_rest_as_it_happens(
    cluster: Cluster, weir_kubeconfig: Path
) -> None:
    within = cluster.namespace()
    cluster.api.create_many([pod(within, f"p{number:02}") for number in range(25)])
    pods = path_of("v1", "pods", within)
    async with reflecting(weir_kubeconfig, pods, limits=ClientLimits(list_pieces=10)) as (
        reflector,
        cluster_state,
    ):
        await asyncio.wait_for(reflector.synced.wait(), 120)
        assert [len(batch) for batch in cluster_state.batches] == [10, 10, 5]
        assert cluster_state.there == truth(cluster, within)
        changed_s = time.monotonic()
        cluster.api.delete(f"{pods}/p03", grace_s=0)
        cluster.api.create(pod(within, "new"))
        await until(lambda: f"{within}/new" in cluster_state.there)
        await until(lambda: cluster_state.there == truth(cluster, within))
        assert len(reflector) == 25
        assert reflector.counts.lists == 1
        assert reflector.heard_s > changed_s


async def test_watches_that_are_cut_go_on_where_they_were(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    pods = path_of("v1", "pods", within)
    chance = random.Random(5)
    names = [f"p{number}" for number in range(12)]
    async with reflecting(proxy.kubeconfig, pods) as (reflector, cluster_state):
        await asyncio.wait_for(reflector.synced.wait(), 120)
        proxy.faults = Faults(cut_watch_after_s=0.15)
        async with asyncio.timeout(240):
            turn = 0
            while turn < 150 or reflector.counts.watches <= 5:
                await asyncio.to_thread(churn, cluster, within, chance, names)
                if turn % 50 == 25:
                    proxy.cut()
                turn += 1
        proxy.calm()
        there = truth(cluster, within)
        await until(lambda: cluster_state.there == there)
        assert reflector.counts.lists == 1, "no cut is a reason to list everything again"


async def test_deletions_during_a_lost_watch_are_reported(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    pods = path_of("v1", "pods", within)
    cluster.api.create(*(pod(within, name) for name in ("stays", "changes", "goes", "returns")))
    async with reflecting(proxy.kubeconfig, pods) as (reflector, cluster_state):
        await asyncio.wait_for(reflector.synced.wait(), 120)
        await until(lambda: cluster_state.there == truth(cluster, within))
        old = cluster_state.there[f"{within}/returns"][0]
        cluster_state.batches.clear()
        proxy.down = True
        proxy.cut()
        cluster.api.patch(f"{pods}/changes", {"metadata": {"labels": {"n": "1"}}})
        cluster.api.delete(f"{pods}/goes", grace_s=0)
        cluster.api.delete(f"{pods}/returns", grace_s=0)
        cluster.api.create(pod(within, "returns"))
        proxy.faults = Faults(gone=1.0, where=lambda asked: asked.watch)
        proxy.down = False
        await until(lambda: bool(cluster_state.batches))
        proxy.calm()
        (batch,) = cluster_state.batches
        reported = [(type(change).__name__, change.key.rpartition("/")[2]) for change in batch]
        assert reported[0] == ("ObjectRemoved", "goes"), "what is gone comes first"
        assert sorted(reported) == [
            ("ObjectRemoved", "goes"),
            ("ObjectRemoved", "returns"),
            ("ObjectSet", "changes"),
            ("ObjectSet", "returns"),
        ]
        assert ObjectRemoved(f"{within}/returns", old) in batch
        assert cluster_state.there == truth(cluster, within)
        assert reflector.counts.removed_unseen == 1
        assert reflector.counts.gone >= 1


async def test_anything_may_go_wrong_at_any_time(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    pods = path_of("v1", "pods", within)
    chance = random.Random(6)
    names = [f"p{number}" for number in range(30)]
    proxy.faults = Faults(
        gone=0.2, throttled=0.05, retry_after_s=0, broken=0.1, refused=0.1, dropped=0.1, cut_watch_after_s=0.1
    )
    async with reflecting(proxy.kubeconfig, pods, limits=ClientLimits(list_pieces=7)) as (
        reflector,
        cluster_state,
    ):
        counts = reflector.counts
        async with asyncio.timeout(240):  # how much goes wrong in 200 turns depends on how long they take
            turns = 0
            while turns < 200 or not counts.gone or counts.failures <= 5:
                await asyncio.to_thread(churn, cluster, within, chance, names)
                turns += 1
        proxy.calm()
        there = truth(cluster, within)
        await until(lambda: cluster_state.there == there)
        await until(lambda: reflector.failure == "")  # a bookmark a minute ends it if nothing changes


async def test_a_silent_watch_is_not_trusted(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    pods = path_of("v1", "pods", within)
    cluster.api.create(pod(within, "a"))
    async with reflecting(weir_kubeconfig, pods, limits=ClientLimits(silence_s=0.5)) as (
        reflector,
        cluster_state,
    ):
        await asyncio.wait_for(reflector.synced.wait(), 120)
        await until(lambda: reflector.counts.silences >= 2)
        assert reflector.counts.lists == 1, "nothing happened, and the server says so"
        assert reflector.failure == ""
        reflector._resource_version = "999999999"  # as after the restoration of an older state
        cluster.api.create(pod(within, "b"))
        await until(lambda: f"{within}/b" in cluster_state.there)
        assert reflector.counts.lists <= 2


async def test_a_kind_may_come_and_go(cluster: Cluster, weir_kubeconfig: Path) -> None:
    kind = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    path = "/apis/test.weir.dev/v1/things"
    async with reflecting(weir_kubeconfig, path, ApiObject) as (reflector, cluster_state):
        await asyncio.wait_for(reflector.synced.wait(), 120)
        assert reflector.absent
        heard_s = reflector.heard_s
        await until(lambda: reflector.heard_s > heard_s > 0.0)
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        named = {"plural": "things", "singular": "thing", "kind": "Thing"}
        cluster.api.post(
            kind,
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "things.test.weir.dev"},
                "spec": {
                    "group": "test.weir.dev",
                    "scope": "Cluster",
                    "names": named,
                    "versions": [version],
                },
            },
        )
        try:
            await until(lambda: not reflector.absent)
            thing = {"apiVersion": "test.weir.dev/v1", "kind": "Thing", "metadata": {"name": "one"}}
            cluster.api.post(path, thing)
            await until(lambda: "one" in cluster_state.there)
        finally:
            cluster.api.delete(f"{kind}/things.test.weir.dev")
        await until(lambda: reflector.absent and not cluster_state.there)


async def test_unreadable_objects_are_reported_as_such(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    pods = path_of("v1", "pods", within)
    cluster.api.create(pod(within, "ours"), pod(within, "theirs", scheduler="somebody"))
    async with reflecting(weir_kubeconfig, pods, OddPod) as (reflector, cluster_state):
        await asyncio.wait_for(reflector.synced.wait(), 120)
        cluster.api.create(pod(within, "more", scheduler="somebody"))
        await until(lambda: f"{within}/more" in cluster_state.there)
        unreadable = {change.key for change in cluster_state.changes if isinstance(change, ObjectUnreadable)}
        assert unreadable == {f"{within}/theirs", f"{within}/more"}
        assert reflector.counts.unreadable >= 2
        cluster.api.delete(f"{pods}/theirs", grace_s=0)
        await until(lambda: f"{within}/theirs" not in cluster_state.there)


async def test_the_api_server_may_restart(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    pods = path_of("v1", "pods", within)
    cluster.api.create(pod(within, "a"))
    async with reflecting(weir_kubeconfig, pods) as (reflector, cluster_state):
        await asyncio.wait_for(reflector.synced.wait(), 120)
        await asyncio.to_thread(cluster.plane.restart, "kube-apiserver")
        await asyncio.to_thread(cluster.api.create, pod(within, "b"))
        await until(lambda: f"{within}/b" in cluster_state.there, 120)
        with suppress(ConnectionError):  # this thread's connection of before
            cluster.pods(within)
        await until(lambda: cluster_state.there == truth(cluster, within))
