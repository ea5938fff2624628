"""Whatever a server and the way to it do, the changes add up to what is there: thousands of histories by chance."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncGenerator, Sequence
from random import Random
from typing import Any, Literal, cast

import pytest
from msgspec import Raw

from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.client import ApiClient, ApiSilent, ClientLimits
from weir.kubernetes.api.decoding import ListPage, WatchEvent
from weir.kubernetes.api.errors import ApiRefused, ApiUnreachable, ResourceExpired, TooManyRequests
from weir.kubernetes.api.objects import ApiObject, Metadata
from weir.kubernetes.api.reflector import Reflector, RetryDelays

AT_ONCE = RetryDelays(first_s=0.0, most_s=0.0, absent_s=0.0)


class Server:
    """A resource with a history, of which it forgets the beginning now and then."""

    limits = ClientLimits()

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.version = 100
        self.there: dict[str, tuple[str, str]] = {}
        self.history: list[tuple[int, str, str, str]] = []
        self.forgotten = 0
        self.calm = False
        for _ in range(20):
            self.happen()

    def happen(self) -> None:
        """Make one change, and perhaps a fault of memory."""
        self.version += 1
        name = f"o{self.chance.randrange(8)}"
        uid, _ = self.there.get(name, ("", ""))
        if uid and self.chance.random() < 0.4:
            del self.there[name]
            self.history.append((self.version, "DELETED", name, uid))
        else:
            kind = "MODIFIED" if uid else "ADDED"
            uid = uid or f"uid{self.version}"
            self.there[name] = uid, str(self.version)
            self.history.append((self.version, kind, name, uid))
        if self.chance.random() < 0.02:
            self.forgotten = self.version - self.chance.randrange(3)

    def fault(self) -> Exception | None:
        if self.calm or self.chance.random() < 0.7:
            return None
        return self.chance.choice(
            (
                ApiUnreachable("cut", may_have_happened=False),
                ApiSilent("nothing came", may_have_happened=False),
                ApiRefused(500, "", "broken"),
                ResourceExpired(410, "Expired", "too old"),
                TooManyRequests(429, "", "no", retry_after_s=0.0, by_budget=False),
            )
        )

    async def version_of(self, path: str, **_: Any) -> str:
        return str(self.version)

    async def pieces(self, path: str, of: type, **_: Any) -> AsyncGenerator[ListPage[ApiObject], None]:
        version = str(self.version)
        items = [ApiObject(Metadata(name, uid, "", at)) for name, (uid, at) in sorted(self.there.items())]
        for start in range(0, max(1, len(items)), 3):
            await asyncio.sleep(0)
            fault = self.fault()
            if fault is not None and not isinstance(fault, ApiSilent):
                raise fault
            yield ListPage(items[start : start + 3], version)
            if not self.calm:
                self.happen()

    async def watch(
        self, path: str, *, resource_version: str, **_: Any
    ) -> AsyncGenerator[list[WatchEvent], None]:
        tracked = int(resource_version)
        if tracked < self.forgotten:
            raise ResourceExpired(410, "Expired", "too old")
        for _turn in range(self.chance.randrange(1, 6)):
            await asyncio.sleep(0)
            if not self.calm:
                self.happen()
            new = [entry for entry in self.history if entry[0] > tracked][: self.chance.randrange(1, 4)]
            events = [event(kind, name, uid, version) for version, kind, name, uid in new]
            if new:
                tracked = new[-1][0]
            up_to_date = not self.history or tracked >= self.history[-1][0]
            if up_to_date and self.chance.random() < 0.5:
                events.append(event("BOOKMARK", "", "", self.version))
                tracked = self.version
            if events:
                yield events
            fault = self.fault()
            if fault is not None:
                raise fault


def event(kind: str, name: str, uid: str, version: int) -> WatchEvent:
    metadata = {"name": name, "uid": uid, "resourceVersion": str(version)}
    as_sent = cast(Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"], kind)
    return WatchEvent(as_sent, Raw(json.dumps({"metadata": metadata}).encode()))


class Picture:
    """The changes, added up. Anything missed or repeated fails at once."""

    def __init__(self) -> None:
        self.there: dict[str, tuple[str, str]] = {}

    def take(self, changes: Sequence[Change[ApiObject]]) -> None:
        for change in changes:
            known = self.there.get(change.key)
            if isinstance(change, ObjectSet):
                now = change.object.metadata.uid, change.object.metadata.resource_version
                assert known != now
                assert known is None or known[0] == now[0]
                assert known is None or int(known[1]) < int(now[1])
                self.there[change.key] = now
            else:
                assert isinstance(change, ObjectRemoved)
                assert known is not None
                assert known[0] == change.uid
                del self.there[change.key]


@pytest.mark.parametrize("seed", range(150))
async def test_nothing_is_missed_and_nothing_comes_twice(seed: int) -> None:
    server, cluster_state = Server(Random(seed)), Picture()
    reflector = Reflector(
        cast(ApiClient, server), "/things", ApiObject, cluster_state.take, waits=AT_ONCE, chance=Random(seed)
    )
    running = asyncio.create_task(reflector.run())
    for _ in range(60):
        await asyncio.sleep(0)
    server.calm = True
    async with asyncio.timeout(120):
        while cluster_state.there != server.there or not reflector.synced.is_set():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0)
    assert not running.done()
    assert reflector.counts.faults == 0
    running.cancel()
    assert len(reflector) == len(server.there)


async def test_a_taker_that_fails_ends_nothing_and_hears_of_everything_again() -> None:
    server, fails = Server(Random(3)), iter([True, True])
    there: dict[str, str] = {}

    def take(changes: Sequence[Change[ApiObject]]) -> None:
        if next(fails, False):
            raise ValueError("a fault of ours")
        for change in changes:
            if isinstance(change, ObjectSet):
                there[change.key] = change.object.metadata.resource_version
            else:
                there.pop(change.key, None)

    reflector = Reflector(
        cast(ApiClient, server), "/things", ApiObject, take, waits=AT_ONCE, chance=Random(3)
    )
    running = asyncio.create_task(reflector.run())
    for _ in range(60):
        await asyncio.sleep(0)
    server.calm = True
    async with asyncio.timeout(120):
        while there != {key: at for key, (_, at) in server.there.items()}:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0)
    assert reflector.counts.faults == 2
    running.cancel()


async def test_memory_is_flat_over_lists_again_and_again() -> None:
    server, cluster_state = Server(Random(1)), Picture()
    server.calm = True
    server.there = {f"object-number-{number}": (f"uid-{number}", str(number)) for number in range(2000)}
    reflector = Reflector(cast(ApiClient, server), "/things", ApiObject, cluster_state.take, waits=AT_ONCE)
    server.forgotten = server.version + 1  # every watch ends in a new list
    running = asyncio.create_task(reflector.run())
    sizes = []
    tracemalloc.start()
    for turn in range(6):
        async with asyncio.timeout(120):
            while reflector.counts.lists <= turn:  # noqa: ASYNC110 - see above
                await asyncio.sleep(0)
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    running.cancel()
    assert reflector.counts.changes == 2000
    assert sizes[-1] < sizes[2] + 500_000
