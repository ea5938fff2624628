"""Kinds that make pods are read in one version: the first that the API server has."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.client import ApiClient, ClientLimits
from weir.kubernetes.api.decoding import ListPage, WatchEvent
from weir.kubernetes.api.errors import NotFound
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.crd.objects import OwnerObject
from weir.kubernetes.process.watches.owner_watches import OwnerWatches
from weir.kubernetes.translate.kind_table import read_table
from weir.kubernetes.translate.kinds import WorkloadKinds

TABLE = """
kinds:
- {kind: RayCluster, api: [ray.io/v1, ray.io/v1alpha1], resource: rayclusters, pods: [{count: spec.pods|1}]}
"""
KINDS = WorkloadKinds(read_table(TABLE, "table"))
KIND = "RayCluster"


class Server:
    """A server that has one object in each of some versions. `gone` ends the watches of all others."""

    limits = ClientLimits()

    def __init__(self, *versions: str) -> None:
        self.versions = set(versions)
        self.has_object = True
        self.asked = 0  # for the versions of the group
        self.changed = asyncio.Event()

    async def pieces(self, path: str, of: type, **_: Any) -> AsyncGenerator[ListPage[OwnerObject], None]:
        if path.split("/")[3] not in self.versions:
            raise NotFound(404, "NotFound", "no such kind")
        made = OwnerObject(Metadata("ray", "u1", "team", "7"), spec={"pods": 2})
        yield ListPage([made] if self.has_object else [], "7")

    async def get(self, path: str, of: type) -> Any:
        """Return the versions of the group, or the resources of a version."""
        if path == "/apis/ray.io":
            self.asked += 1
            if not self.versions:
                raise NotFound(404, "NotFound", "no such group")
            return msgspec.convert({"versions": [{"version": each} for each in sorted(self.versions)]}, of)
        return msgspec.convert({"resources": [{"name": "rayclusters"}]}, of)

    async def watch(self, path: str, **_: Any) -> AsyncGenerator[list[WatchEvent], None]:
        while path.split("/")[3] in self.versions:
            await self.changed.wait()
            self.changed.clear()
        raise NotFound(404, "NotFound", "no such kind")
        yield []

    def serve(self, *versions: str) -> None:
        self.versions = set(versions)
        self.changed.set()


class Site:
    """The watches of a table, and what they say."""

    def __init__(self, server: Server) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.removed: list[str] = []
        self.heard = asyncio.Event()
        self.watches = OwnerWatches(cast(ApiClient, server), KINDS, lambda _: None, self.take)

    def take(self, changes: Sequence[Change[Any]]) -> None:
        self.bodies += [change.object for change in changes if isinstance(change, ObjectSet)]
        self.removed += [change.uid for change in changes if isinstance(change, ObjectRemoved)]
        self.heard.set()

    def versions(self) -> list[str]:
        return [body["apiVersion"] for body in self.bodies]

    async def until_versions(self, *versions: str) -> None:
        while self.versions() != list(versions):
            self.heard.clear()
            await self.heard.wait()


@asynccontextmanager
async def watching(server: Server) -> AsyncGenerator[Site, None]:
    site = Site(server)
    tasks = [asyncio.create_task(each.run()) for each in site.watches.watches]
    try:
        async with asyncio.timeout(120):
            await site.watches.wait_until_known()
            yield site
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("served", "read"),
    [(("v1", "v1alpha1"), ["ray.io/v1"]), (("v1",), ["ray.io/v1"]), (("v1alpha1",), ["ray.io/v1alpha1"])],
)
async def test_an_object_is_read_in_one_version(served: tuple[str, ...], read: list[str]) -> None:
    async with watching(Server(*served)) as site:
        await asyncio.sleep(0.1)
        assert site.versions() == read
        assert site.bodies[0]["spec"] == {"pods": 2}
        assert not site.watches.unreadable()


async def test_the_next_version_is_read_once_the_first_is_gone() -> None:
    server = Server("v1", "v1alpha1")
    async with watching(server) as site:
        server.serve("v1alpha1")
        await site.until_versions("ray.io/v1", "ray.io/v1alpha1")
        assert not site.removed


@pytest.mark.parametrize(("served", "removed"), [(("v2",), []), ((), ["u1"])], ids=["v2", "none"])
async def test_objects_are_gone_once_no_version_is_served(
    served: tuple[str, ...], removed: list[str]
) -> None:
    """Objects may be there in a version that the table doesn't name."""
    server = Server("v1")
    async with watching(server) as site:
        server.serve(*served)
        while server.asked < 2:  # what follows from the first answer is done
            site.watches.look_again("ray.io/v1", KIND)
            await asyncio.sleep(0.05)
        assert (site.removed, bool(site.watches.absent())) == (removed, bool(removed))


async def test_objects_that_went_with_their_version_are_removed_by_the_list_of_the_next_one() -> None:
    server = Server("v1")
    async with watching(server) as site:
        server.serve("v2")
        while not server.asked:
            site.watches.look_again("ray.io/v1", KIND)
            await asyncio.sleep(0.05)
        server.has_object = False
        server.serve("v1alpha1")
        while not site.removed:
            site.watches.look_again("ray.io/v1", KIND)
            await asyncio.sleep(0.05)
        assert site.removed == ["u1"]


async def test_a_kind_that_comes_later_is_found_when_a_pod_names_it() -> None:
    server = Server()
    async with watching(server) as site:
        why = "the API server doesn't have the kind RayCluster of ray.io/v1 or ray.io/v1alpha1"
        assert site.watches.unreadable() == {("ray.io", KIND): why}
        server.serve("v1")
        while not site.bodies:
            site.watches.look_again("ray.io/v1", KIND)
            await asyncio.sleep(0.05)
        assert site.versions() == ["ray.io/v1"]
        assert not site.watches.unreadable()
