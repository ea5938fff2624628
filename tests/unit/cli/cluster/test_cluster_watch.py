"""Watch of a cluster's dashboard: it ends with the rights that it began with."""

import asyncio
import json
import zlib
from typing import Any, cast

import pytest

from weir.cli.cluster.dashboard.cluster_watch import ClusterWatch, WatchBroken
from weir.cli.cluster.dashboard.shared_states import SharedStates
from weir.cli.cluster.queries import ClusterQueries
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.objects import WorkloadObject, WorkloadSpec, WorkloadStatus
from weir.kubernetes.crd.schemas import API_VERSION

LIMIT_S = 120.0
EVERYWHERE = path_of(API_VERSION, "workloads")
PROJECTS = path_of(API_VERSION, "projects")


RUNS = WorkloadObject(
    Metadata(
        name="runs", uid="00000001-1111-4222-8333-444455556666", namespace="vision", resource_version="1"
    ),
    WorkloadSpec(project="vision"),
    WorkloadStatus(phase="Running", gpus="2"),
)


class Page:
    """A page that ends a list."""

    resource_version = "1"

    def __init__(self, *items: WorkloadObject) -> None:
        self.items = items


class Cluster:
    """An API server that has no objects, and refuses to list some kinds."""

    namespace = "vision"
    server = "https://cluster"

    class limits:  # noqa: N801 - an attribute of the client
        watch_s = 0.0

    def __init__(self) -> None:
        self.withdrawn: set[str] = set()

    async def version_of(self, path: str, **_: str) -> str:
        self._check(path)
        return "1"

    async def pieces(self, path: str, *_: Any, **__: Any) -> Any:
        self._check(path)
        yield Page(RUNS) if path == EVERYWHERE else Page()

    async def watch(self, path: str, **_: Any) -> Any:
        await asyncio.sleep(0.01)
        self._check(path)
        yield []

    def _check(self, path: str) -> None:
        if path in self.withdrawn:
            raise ApiRefused(403, "Forbidden", "workloads is forbidden")


class Queries:
    """Answers of Weir's API; `state` is that of the workload."""

    state = "parked"

    async def status(self) -> bytes:
        return b'{"policy": "", "trouble": null}'

    async def nodes(self) -> bytes:
        return b'{"items": []}'

    async def events(self, _: dict[str, str]) -> bytes:
        return b'{"items": []}'

    async def workloads(self, _: dict[str, str]) -> bytes:
        states = {self.state: ["vision/runs"]}
        return json.dumps({"items": [], "version": self.state, "namespace": "", "states": states}).encode()


@pytest.mark.parametrize("path", [EVERYWHERE, PROJECTS])
def test_rights_that_are_withdrawn_end_the_watch(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of other namespaces aren't shown any longer to one who may list one namespace alone."""
    monkeypatch.setattr("weir.cli.cluster.dashboard.cluster_watch.POLL_S", 0.01)

    async def run() -> None:
        cluster = Cluster()
        watch = ClusterWatch(
            cast("ApiClient", cluster), cast("ClusterQueries", Queries()), None, SharedStates()
        )
        await watch.start()
        reader = watch.feed.join(None)
        assert reader is not None
        cluster.withdrawn.add(path)
        async with asyncio.timeout(LIMIT_S):
            await reader.wake.wait()  # its stream ends
        assert watch.broken is not None
        assert watch.broken.status == 403
        await watch.stop(watch.broken)

    asyncio.run(run())


async def test_another_state_of_a_workload_reaches_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POLL_S", "STATES_S", "TICK_S"):
        monkeypatch.setattr(f"weir.cli.cluster.dashboard.cluster_watch.{name}", 0.01)
    queries = Queries()
    watch = ClusterWatch(cast("ApiClient", Cluster()), cast("ClusterQueries", queries), None, SharedStates())
    await watch.start()
    reader = watch.feed.join(None)
    assert reader is not None
    reader.catch_up()
    first = json.loads(watch.feed.table.whole(b"null"))
    activity = first["columns"].index("activity")
    assert [row[activity] for row in first["rows"]] == ["parked"]
    queries.state = "working"
    unpack, rows = zlib.decompressobj(wbits=-15), []
    async with asyncio.timeout(LIMIT_S):
        while not rows:
            for line in unpack.decompress(await reader.next()).splitlines():
                rows += json.loads(line).get("rows", [])
    assert [row[activity] for row in rows] == ["working"]
    await watch.stop(WatchBroken(503, "over"))
