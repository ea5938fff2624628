"""Curves of reported values over HTTP: those of memory, of the database, or of both."""

import asyncio
from pathlib import Path
from typing import cast

from tests.unit.kubernetes.query.test_routes import Answers, Rights, got, reporting, served

from weir.kubernetes.history.stored_answers import StoredAnswers
from weir.kubernetes.query.routes import LARGE_MAX
from weir.kubernetes.query.usage.recent_series import ALONE, Series
from weir.kubernetes.query.workloads.stored_history import StoredRow


class Stored:
    """A database with the curve of every workload, or one that is away."""

    note: str | None = None

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.full = asyncio.Event()

    async def series(self, number: int, recent: Series) -> Series | None:
        self.asked.append(number)
        if len(self.asked) >= LARGE_MAX:
            self.full.set()
        await self.answers.wait()
        return None if self.note else {"loss": [(1.0, 2.0), *recent.get("loss", ())]}

    async def workload(self, namespace: str, name: str, since_s: float) -> StoredRow | None:
        await asyncio.sleep(0)
        row = reporting(name, 0.0).row(0.0).model_copy(update={"uid": 7, "name": f"{namespace}/{name}"})
        return StoredRow(row, {}, {}) if name == "gone" else None


async def test_curves_are_those_of_memory_and_go_on_from_those_of_the_database(tmp_path: Path) -> None:
    stored = Stored()
    within = "namespaces/ns/workloads"
    async with served(tmp_path, Rights(), Answers(), cast("StoredAnswers", stored)) as session:
        status, answer = await got(session, f"{within}/a/series")
        assert (status, answer["name"], answer["note"]) == (200, "ns/job-a", None)
        (curve,) = answer["series"]
        assert (curve["name"], curve["kind"]) == ("loss", "reported")
        assert [value for _, value in curve["points"]] == [2.0, 0.5]
        _, answer = await got(session, f"{within}/gone/series")
        assert answer["series"][0]["points"] == [[1.0, 2.0]]
        assert stored.asked == [reporting("a", 0.0).number, 7]
        assert (await got(session, f"{within}/none/series"))[0] == 404
        assert (await got(session, "namespaces/other/workloads/job-a/series"))[0] == 404
        stored.note = "The database is away."
        _, answer = await got(session, f"{within}/a/series")
        assert [value for _, value in answer["series"][0]["points"]] == [0.5]
        assert answer["note"].endswith(" UTC on. The database is away.")
    async with served(tmp_path / "alone", Rights(), Answers()) as session:
        _, answer = await got(session, f"{within}/job-a/series")
        assert [value for _, value in answer["series"][0]["points"]] == [0.5]
        assert answer["note"].endswith(ALONE)
        assert (await got(session, f"{within}/job-b/series"))[1]["series"] == []


async def test_curves_have_the_times_of_the_clock_of_messages(tmp_path: Path) -> None:
    """The clock of the machine may be far off."""
    async with served(tmp_path, Rights(), Answers(), clock=lambda: 1_769_860_800.0) as session:
        _, answer = await got(session, "namespaces/ns/workloads/job-a/series")
        assert answer["series"][0]["points"] == [[1_769_860_799.0, 0.5]]


async def test_few_answers_with_curves_are_made_at_a_time_and_the_others_wait(tmp_path: Path) -> None:
    stored = Stored()
    stored.answers.clear()
    async with served(tmp_path, Rights(), Answers(), cast("StoredAnswers", stored)) as session:
        path = "namespaces/ns/workloads/a/series"
        asking = [asyncio.create_task(got(session, path)) for _ in range(3 * LARGE_MAX)]
        await stored.full.wait()
        await asyncio.sleep(0.2)
        assert len(stored.asked) == LARGE_MAX
        stored.answers.set()
        assert [status for status, _ in await asyncio.gather(*asking)] == [200] * 3 * LARGE_MAX
