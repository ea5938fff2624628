"""The live stream: the list once, then changes; a slow reader begins again; no person reads others' events."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.unit.local.server.in_process_server import Standing

from weir.api.answers import Explanation, WorkloadRow
from weir.api.workload_list import ArrayCounts
from weir.dashboard.live_feed import FRAMES_BEHIND_MAX, LiveReader
from weir.dashboard.live_frames import (
    COLUMNS,
    GZIP_HEADER,
    ROW_BYTES_MAX,
    compressed,
    workload_columns,
)
from weir.dashboard.live_table import LiveTable
from weir.local.server.access.authorization import Person, Role
from weir.local.server.dashboard.live_hub import LiveHub

WITHIN_S = 120.0


class Page:
    """A page that reads along, and what it shows."""

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        self._frames = frames
        self._unpack = zlib.decompressobj(wbits=31)
        self._rest = b""
        self.kinds: list[str] = []
        self.rows: dict[int, list[Any]] = {}
        self.ended: dict[int, list[Any]] = {}
        self.queues: dict[str, Any] = {}
        self.events: list[Any] = []

    async def read(self) -> None:
        piece = await asyncio.wait_for(anext(self._frames), WITHIN_S)
        *lines, self._rest = (self._rest + self._unpack.decompress(piece)).split(b"\n")
        for line in lines:
            if line:
                self.take(json.loads(line))

    def take(self, frame: dict[str, Any]) -> None:
        self.kinds.append(frame["kind"])
        if frame["kind"] == "list":
            self.rows, self.queues, self.ended = {}, {}, {}
        for values in frame.get("rows", []):
            row = dict(zip(COLUMNS, values, strict=True))
            (self.ended if row["status"] in ("succeeded", "failed", "stopped") else self.rows)[row["uid"]] = (
                row
            )
            if row["uid"] in self.ended:
                self.rows.pop(row["uid"], None)
        for queue in frame.get("queues", []):
            self.queues[queue["name"]] = queue
        for name in frame.get("gone", {}).get("queues", []):
            del self.queues[name]
        self.events += frame.get("events", [])

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not holds(self):
                await self.read()


@asynccontextmanager
async def reading(stands: Standing, person: Person) -> AsyncIterator[tuple[Page, LiveReader[Person]]]:
    hub: LiveHub = stands.transport.app.state.live  # type: ignore[attr-defined]
    reader = hub.join(person)
    assert reader is not None
    frames = hub.frames(reader)
    page = Page(frames)
    try:
        await page.until(lambda page: page.kinds)
        yield page, reader
    finally:
        await frames.aclose()  # type: ignore[attr-defined]


ADMIN = Person("root", is_admin=True)


async def test_list_comes_first_and_then_what_changes(stands: Standing) -> None:
    first = await stands.submit("sleep", "3600", name="first")
    await stands.until("first", "running")
    async with reading(stands, ADMIN) as (page, _):
        assert page.kinds[0] == "list"
        assert page.kinds.count("list") == 1
        assert page.rows[first["uid"]]["name"] == "first"
        assert set(page.queues) == {"default"}
        second = await stands.submit("sleep", "3600", name="second", gpus=4)
        await page.until(lambda page: page.rows.get(second["uid"], {}).get("why"))
        shown = (await stands.get("workloads/second"))["reason"]
        assert page.rows[second["uid"]]["why"] == shown["why"]
        await stands.project("vision", 1)
        await page.until(lambda page: "vision" in page.queues)
        assert (await stands.admin.delete("/api/v1/projects/vision")).status_code == 200
        await page.until(lambda page: "vision" not in page.queues)
        await stands.admin.post("/api/v1/workloads/first/stop")
        await page.until(lambda page: first["uid"] in page.ended)
        assert first["uid"] not in page.rows
        await stands.until("second", "running")
        await page.until(
            lambda page: {row["name"]: row["status"] for row in page.rows.values()} == {"second": "running"}
        )


async def test_reader_that_falls_behind_gets_the_list_again(stands: Standing) -> None:
    async with reading(stands, ADMIN) as (page, reader):
        for _ in range(FRAMES_BEHIND_MAX + 1):
            reader.give(compressed(b'{"kind":"delta","rows":[]}\n'))
        assert reader.behind
        assert not reader.frames
        row = await stands.submit(name="late")
        await page.until(lambda page: page.kinds.count("list") == 2)
        await page.until(lambda page: row["uid"] in page.rows)


async def test_member_gets_no_event_of_another_project(stands: Standing) -> None:
    await stands.project("secret", 1)
    member = Person("mia", is_admin=False, roles={"default": Role.MEMBER})
    async with reading(stands, member) as (page, _), reading(stands, ADMIN) as (all_, _):
        await stands.submit("true", project="secret", name="hidden")
        await stands.submit("true", name="open")
        await page.until(lambda page: any(event["workload"] == "open" for event in page.events))
        await all_.until(lambda page: any(event["workload"] == "hidden" for event in page.events))
        await stands.until("hidden", "succeeded")
        assert {event["project"] for event in page.events} <= {"default", None}


async def test_last_reader_stops_the_work(stands: Standing) -> None:
    async with reading(stands, ADMIN):
        assert stands.pool.stream.readers == 1
    assert stands.pool.stream.readers == 0


def made(uid: int, sentence: str = "", status: str = "pending") -> WorkloadRow:
    return WorkloadRow.model_construct(
        uid=uid,
        name="n" * 63,
        project="p" * 63,
        user="u" * 40,
        type="inference",
        status=status,
        priority=100,
        preemptible=True,
        devices=8.0,
        pods=1,
        pods_running=0,
        submitted_s=1.7e9,
        reason=Explanation(why="insufficient_capacity", sentence=sentence),
    )


def test_row_has_a_bounded_size() -> None:
    for sentence in ("", "short", "x" * 5000, "ü" * 5000, '"' * 3000):
        row = workload_columns(made(2**53, sentence))
        assert len(dict(zip(COLUMNS, json.loads(row), strict=True))) == len(COLUMNS)
        assert len(row) <= ROW_BYTES_MAX + 64, sentence[:5]


def test_frames_that_were_compressed_apart_are_one_stream() -> None:
    lines = [b"a" * 1000 + b"\n", b"b\n", b"a" * 1000 + b"\n"]
    whole = GZIP_HEADER + b"".join(compressed(line) for line in lines)
    assert zlib.decompressobj(wbits=31).decompress(whole) == b"".join(lines)


def test_late_row_of_an_ended_workload_changes_nothing() -> None:
    table = LiveTable()
    table.set_workload(made(1, status="running"))
    table.set_workload(made(1, status="succeeded"))
    table.set_workload(made(1, status="running"))
    assert not table.rows
    assert list(table.ended) == [1]


def test_row_has_the_number_of_pending_indices_of_an_array() -> None:
    array = made(1).model_copy(update={"array": ArrayCounts(written="0-50", size=51, pending=50, running=1)})
    found = [json.loads(workload_columns(row))[COLUMNS.index("pending_indices")] for row in (array, made(2))]
    assert found == [50, 0]
