"""Parts of the tests of the API writer: a server that answers as told, and writes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.leader_election import AlwaysLeader
from weir.kubernetes.writes.delivery.api_writer import ApiWriter, Pace
from weir.kubernetes.writes.operations import (
    Bind,
    Outcome,
    PatchStatus,
    Write,
)


class Server:
    """Server that answers requests when a test releases them, and keeps their order."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.under_way = 0
        self.most = 0
        self.faults: list[Exception] = []
        self.lets = asyncio.Event()
        self.lets.set()

    async def post(self, path: str, body: object, of: type) -> Any:
        await self._take(f"POST {path.rpartition('/namespaces/')[2]}")

    async def patch(self, path: str, body: object, kind: object, of: type) -> Any:
        await self._take(f"PATCH {path.rpartition('/namespaces/')[2]} {body}")

    async def _take(self, what: str) -> None:
        self.came.append(what)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.lets.wait()
        await asyncio.sleep(0)
        self.under_way -= 1
        if self.faults:
            raise self.faults.pop(0)


class WatchProgress(list[tuple[Write, Outcome]]):
    def __call__(self, write: Write, outcome: Outcome) -> None:
        self.append((write, outcome))


@asynccontextmanager
async def acting_on(server: Server, pace: Pace) -> AsyncIterator[tuple[ApiWriter, WatchProgress]]:
    reported = WatchProgress()
    writer = ApiWriter(cast(ApiClient, server), AlwaysLeader(), reported, pace=pace, chance=Random(1))
    running = asyncio.create_task(writer.run())
    yield writer, reported
    running.cancel()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not true():  # noqa: ASYNC110 - the truth sends no events
            await asyncio.sleep(0.001)


def bind(name: str) -> Bind:
    return Bind("n", name, "u", "node")


def status(name: str, value: int, *, urgent: bool = False) -> PatchStatus:
    return PatchStatus(f"/api/v1/namespaces/n/pods/{name}", {"v": value}, urgent=urgent)
