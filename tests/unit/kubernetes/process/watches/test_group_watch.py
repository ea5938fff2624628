"""The watch of pod groups asks for nothing before a pod names a group, and then reads the newest version served."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from weir.kubernetes.api.changes import Change, ObjectSet
from weir.kubernetes.api.decoding import ListPage
from weir.kubernetes.api.errors import NotFound
from weir.kubernetes.api.objects import Metadata, SchedulingGroupObject
from weir.kubernetes.process.watches import group_watch, served_watch
from weir.kubernetes.process.watches.group_watch import GroupWatch
from weir.kubernetes.process.watches.served_watch import ServedResource, ServedVersion


class Api:
    """An API server that serves these versions and has one group in each."""

    def __init__(self, *versions: str) -> None:
        self.versions = list(versions)
        self.asked: list[str] = []
        self.limits = type("", (), {"watch_s": 60.0})

    async def get(self, path: str, of: Any) -> Any:
        self.asked.append(path)
        parts = path.removeprefix("/apis/scheduling.k8s.io").strip("/")
        if not parts:
            return of(versions=[ServedVersion(each) for each in ("v1", *self.versions)])
        names = ["workloads"] if parts == "v1alpha1" else ["workloads", "podgroups"]
        return of(resources=[ServedResource(name) for name in names])

    async def pieces(self, path: str, _of: Any, **_: Any) -> AsyncIterator[ListPage[SchedulingGroupObject]]:
        self.asked.append(path)
        if path.split("/")[3] not in self.versions:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        yield ListPage([SchedulingGroupObject(Metadata("g", "u", "team", "1"))], "1")

    async def watch(self, path: str, **_: Any) -> AsyncIterator[list[Any]]:
        for _ in range(6000):
            if path.split("/")[3] not in self.versions:
                break
            await asyncio.sleep(0.01)
        raise NotFound(404, "NotFound", "the server could not find the requested resource")
        yield []


class Receiver:
    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.unserved: dict[str, str] = {}
        self.seen: list[tuple[str, str]] = []

    def group_kinds(self) -> set[str]:
        return set(self.kinds)

    def set_unserved_groups(self, kinds: dict[str, str]) -> None:
        self.unserved = kinds

    def deliver(self, resource: str) -> Callable[[Sequence[Change[Any]]], None]:
        def take(changes: Sequence[Change[Any]]) -> None:
            for each in changes:
                what = each.object.api_version if isinstance(each, ObjectSet) else "gone"
                self.seen.append((resource, what))

        return take


@asynccontextmanager
async def watching(api: Api, receiver: Receiver) -> AsyncIterator[GroupWatch]:
    watch = GroupWatch(api, receiver)  # type: ignore[arg-type]
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(true: Callable[[], bool]) -> None:
    for _ in range(6000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_watch, "LOOK_S", 0.01)
    monkeypatch.setattr(served_watch, "LOOK_S", 0.01)
    monkeypatch.setattr(served_watch, "AGAIN_S", 0.05)


async def test_nothing_is_asked_for_without_a_pod_that_names_a_group() -> None:
    api, receiver = Api("v1beta1"), Receiver()
    async with watching(api, receiver) as watch:
        await watch.ready()
        await asyncio.sleep(0.1)
    assert not api.asked


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (["v1alpha2"], "v1alpha2"),
        (["v1alpha3", "v1beta1"], "v1beta1"),
        (["v1alpha2", "v1alpha3"], "v1alpha3"),
    ],
)
async def test_the_newest_version_served_is_read_alone(versions: list[str], expected: str) -> None:
    api, receiver = Api(*versions), Receiver()
    receiver.kinds.add("PodGroup")
    async with watching(api, receiver) as watch:
        await asyncio.wait_for(watch.ready(), 60)
    assert receiver.seen == [("podgroups", f"scheduling.k8s.io/{expected}")]
    lists = [path for path in api.asked if path.endswith("podgroups")]
    assert lists == [f"/apis/scheduling.k8s.io/{expected}/podgroups"]


async def test_the_workloads_of_1_35_are_read_for_pods_that_name_them() -> None:
    api, receiver = Api("v1alpha1"), Receiver()
    receiver.kinds.add("Workload")
    async with watching(api, receiver) as watch:
        await asyncio.wait_for(watch.ready(), 60)
    assert receiver.seen == [("groupworkloads", "scheduling.k8s.io/v1alpha1")]


async def test_a_kind_that_is_not_served_is_named_and_found_later() -> None:
    api, receiver = Api(), Receiver()
    receiver.kinds.add("PodGroup")
    async with watching(api, receiver) as watch:
        await asyncio.wait_for(watch.ready(), 60)
        assert receiver.unserved == {
            "PodGroup": "the API server doesn't serve podgroups of scheduling.k8s.io"
        }
        api.versions.append("v1alpha2")
        await until(lambda: bool(receiver.seen) and not receiver.unserved)


async def test_another_version_is_read_after_an_upgrade_of_the_api_server() -> None:
    api, receiver = Api("v1alpha2"), Receiver()
    receiver.kinds.add("PodGroup")
    async with watching(api, receiver):
        await until(lambda: bool(receiver.seen))
        api.versions = ["v1beta1"]
        await until(lambda: ("podgroups", "scheduling.k8s.io/v1beta1") in receiver.seen)
    versions = ["scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1"]
    assert receiver.seen == [("podgroups", each) for each in versions], "its group was never gone"


async def test_groups_are_gone_once_no_version_is_served() -> None:
    api, receiver = Api("v1alpha2"), Receiver()
    receiver.kinds.add("PodGroup")
    async with watching(api, receiver):
        await until(lambda: bool(receiver.seen))
        api.versions.clear()
        await until(lambda: ("podgroups", "gone") in receiver.seen)
        assert "PodGroup" in receiver.unserved
