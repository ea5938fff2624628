"""Schedules: workloads at the times of a cron expression."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from tests.unit.local.server.in_process_server import SMALL, Standing, standing

from weir.api.cron_times import last_time, next_time, read_cron, run_name
from weir.control.clock import Clock
from weir.local.server.submissions import schedule_service

DAY_S = 86_400.0
START = datetime(2026, 12, 1, 1, 59, 30, tzinfo=UTC).timestamp()
TRUE = {"command": ["true"]}


class WallClock:
    """A wall clock that people set."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.clock = Clock(wall=lambda: START + self.ahead_s, boot=lambda: 1000.0)

    def set(self, day: int, hour: int, minute: int, second: int = 1) -> None:
        at = datetime(2026, 12, day, hour, minute, second, tzinfo=UTC)
        self.ahead_s = at.timestamp() - START


async def put(stands: Standing, name: str, cron: str = "0 2 * * *", **fields: Any) -> httpx.Response:
    workload = {"project": "default", "command": ["sleep", "3600"], "gpus": 0, **SMALL}
    workload |= fields.pop("workload", {})
    body = {"cron": cron, "workload": workload, **fields}
    return await stands.admin.put(f"/api/v1/schedules/{name}", json=body)


async def look(stands: Standing) -> dict[str, Any]:
    await stands.pool.schedules.look()
    return dict((await stands.get("schedules"))["items"][0])


async def names(stands: Standing) -> list[str]:
    return sorted(row["name"] for row in (await stands.get("workloads", all="true"))["items"])


async def test_run_is_queued_at_its_time_once(tmp_path: Path) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        made = await put(stands, "nightly")
        assert made.status_code == 200, made.text
        row = await look(stands)
        assert (row["next_s"], row["last_s"], await names(stands)) == (START + 30, None, [])
        wall.set(1, 2, 0)
        row = await look(stands)
        row = await look(stands)
        assert await names(stands) == ["nightly-20261201-0200"]
        assert (row["last"], row["active"], row["said"]) == (
            "nightly-20261201-0200",
            ["nightly-20261201-0200"],
            "",
        )
        assert row["next_s"] == START + 30 + DAY_S


async def test_missed_runs_are_caught_up_once_after_a_restart(tmp_path: Path) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock, end_jobs=False) as stands:
        assert (await put(stands, "nightly", workload={"command": ["true"]})).status_code == 200
    wall.set(4, 12, 0)
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        row = await look(stands)
        row = await look(stands)
        assert await names(stands) == ["nightly-20261204-0200"]
        assert row["said"] == "Earlier runs were missed; this one stands for them."
        wall.set(3, 3, 0)  # the clock is set back by less than a day: nothing runs a second time
        await look(stands)
        for change in ("suspend", "resume"):
            changed = await stands.admin.post(f"/api/v1/schedules/nightly/{change}")
            assert changed.status_code == 200
        row = await look(stands)
        assert row["next_s"] == datetime(2026, 12, 5, 2, tzinfo=UTC).timestamp()
        wall.set(4, 2, 30)
        await look(stands)
        assert await names(stands) == ["nightly-20261204-0200"]
        wall.set(5, 2, 0)
        await look(stands)
        assert await names(stands) == ["nightly-20261204-0200", "nightly-20261205-0200"]


async def test_longest_name_of_a_schedule_has_space_for_the_time_of_a_run(tmp_path: Path) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        refused = await put(stands, "n" * 49)
        assert refused.status_code == 422
        assert "name: is longer than 48 characters, and runs add to it" in refused.json()["detail"]
        assert (await put(stands, "n" * 48)).status_code == 200
        wall.set(1, 2, 0)
        row = await look(stands)
        assert row["last"] == f"{'n' * 48}-20261201-0200", row["said"]


async def test_clock_that_was_years_ahead_does_not_stop_a_schedule(tmp_path: Path) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        assert (await put(stands, "nightly", workload={"command": ["true"]})).status_code == 200
        wall.ahead_s = 4 * 365 * DAY_S
        await look(stands)
        wall.ahead_s = 0.0
        row = await look(stands)
        assert row["next_s"] == START + 30


@pytest.mark.parametrize(
    ("concurrency", "running", "said"),
    [("allow", 2, ""), ("forbid", 1, "Skipped: nightly-20261201-0200 isn't over."), ("replace", 1, "")],
)
async def test_concurrency_says_what_becomes_of_an_earlier_run(
    tmp_path: Path, concurrency: str, running: int, said: str
) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        assert (await put(stands, "nightly", concurrency=concurrency)).status_code == 200
        wall.set(1, 2, 0)
        await look(stands)
        await stands.until("nightly-20261201-0200", "starting", "running")
        wall.set(2, 2, 0)
        row = await look(stands)
        assert row["said"] == said
        await stands.until_true(lambda page: page["total"] == running, "workloads")
        last = "nightly-20261201-0200" if concurrency == "forbid" else "nightly-20261202-0200"
        assert last in await names(stands)
        row = (await stands.get("schedules"))["items"][0]
        assert len(row["active"]) == running


async def test_run_on_request_is_queued_at_once_and_changes_no_times(tmp_path: Path) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        await put(stands, "nightly", suspended=True)
        answer = await stands.admin.post("/api/v1/schedules/nightly/run")
        assert answer.status_code == 200, answer.text
        name = "nightly-261201-015930"
        row = answer.json()
        assert (row["last"], row["active"], row["next_s"], row["suspended"]) == (name, [name], None, True)
        assert await names(stands) == [name]
        assert (await look(stands))["last"] == name
        again = await stands.admin.post("/api/v1/schedules/nightly/run")
        assert again.status_code == 409, "the name is that of the second"
        missing = await stands.admin.post("/api/v1/schedules/none/run")
        assert missing.status_code == 404


@pytest.mark.parametrize(("concurrency", "left"), [("allow", 2), ("forbid", 1), ("replace", 1)])
async def test_run_on_request_respects_an_earlier_run(concurrency: str, left: int, tmp_path: Path) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        await put(stands, "nightly", concurrency=concurrency)
        wall.set(1, 2, 0)
        await look(stands)
        wall.set(1, 2, 5)
        answer = await stands.admin.post("/api/v1/schedules/nightly/run")
        assert answer.status_code == (409 if concurrency == "forbid" else 200)
        if concurrency == "forbid":
            sentence = "nightly-20261201-0200 isn't over, and this schedule forbids two runs at a time."
            assert answer.json()["detail"] == sentence
        if concurrency == "replace":
            await stands.until("nightly-20261201-0200", "stopped")
        assert len((await look(stands))["active"]) == left
        assert (await look(stands))["next_s"] == START + 30 + DAY_S


async def test_run_on_request_takes_the_right_to_change_the_schedule(tmp_path: Path) -> None:
    async with standing(tmp_path / "home") as stands:
        await put(stands, "nightly")
        mia = await stands.member("default")
        lead = await stands.member("default", user="ann", role="lead")
        assert (await mia.post("/api/v1/schedules/nightly/run")).status_code == 403
        assert (await lead.post("/api/v1/schedules/nightly/run")).status_code == 200


async def test_suspended_schedule_runs_nothing_and_catches_nothing_up(tmp_path: Path) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        assert (await put(stands, "nightly")).status_code == 200
        assert (await stands.admin.post("/api/v1/schedules/nightly/suspend")).status_code == 200
        wall.set(1, 2, 0)
        assert (await look(stands))["next_s"] is None
        wall.set(3, 12, 0)
        assert (await stands.admin.post("/api/v1/schedules/nightly/resume")).status_code == 200
        row = await look(stands)
        assert (await names(stands), row["next_s"]) == ([], START + 30 + 3 * DAY_S)
        assert (await stands.admin.delete("/api/v1/schedules/nightly")).status_code == 204
        assert (await stands.get("schedules"))["total"] == 0
        assert (await stands.admin.delete("/api/v1/schedules/nightly")).status_code == 404


async def test_person_has_a_limited_number_of_schedules(
    stands: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse a person more schedules than one may have."""
    monkeypatch.setattr(schedule_service, "PER_PERSON_MAX", 1)
    body = {"cron": "0 2 * * *", "workload": {"project": "default", "command": ["true"], "gpus": 0, **SMALL}}
    async with await stands.member("default") as mia, await stands.member("default", user="noa") as noa:
        for name, person, status in (("a", mia, 200), ("b", mia, 409), ("a", mia, 200), ("b", noa, 200)):
            made = await person.put(f"/api/v1/schedules/{name}", json=body)
            assert made.status_code == status, made.text


async def test_rights_count_when_it_runs(tmp_path: Path) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        await stands.project("own", 1)
        workload = {"project": "own", "command": ["true"], "gpus": 0, **SMALL}
        body = {"cron": "0 2 * * *", "workload": workload}
        async with await stands.member("default") as other, await stands.member("own", user="noa") as noa:
            refused = await other.put("/api/v1/schedules/nightly", json=body)
            assert refused.status_code == 403
            assert (await noa.put("/api/v1/schedules/nightly", json=body)).status_code == 200
            assert (await other.get("/api/v1/schedules")).json()["total"] == 0
            for method, path in (("POST", "/suspend"), ("DELETE", ""), ("GET", "")):
                answer = await other.request(method, f"/api/v1/schedules/nightly{path}")
                assert answer.status_code == 403, path
            taken = {**body, "workload": {**workload, "project": "default"}}
            assert (await other.put("/api/v1/schedules/nightly", json=taken)).status_code == 403
        token = next(each for each in stands.pool.store.tokens.all() if each.user == "noa")
        await asyncio.to_thread(stands.pool.store.tokens.delete, token.id)
        wall.set(1, 2, 0)
        row = await look(stands)
        assert row["said"] == "Refused: The token with which noa made it is revoked or has expired."
        assert await names(stands) == []


@pytest.mark.parametrize(
    ("fields", "field", "sentence"),
    [
        ({"cron": "0 2 * *"}, "cron", "hasn't 5 fields; write minute, hour, day, month and weekday"),
        ({"cron": "61 2 * * *"}, "cron", "can't be read"),
        ({"cron": "0 0 30 2 *"}, "cron", "'0 0 30 2 *'"),
        ({"cron": "* * * * * *"}, "cron", "hasn't 5 fields"),
        ({"cron": "0 2 * * *", "zone": "Mars/Olympus"}, "zone", "is no time zone here"),
        ({"cron": "0 2 * * *", "zone": "../../etc/passwd"}, "zone", "is no time zone here"),
        ({"cron": "0 2 * * *", "workload": {"name": "x"}}, "workload.name", "each run has a name of its own"),
        ({"cron": "0 2 * * *", "workload": {"gpus": 999}}, "pods[0]", "asks for 999 GPUs"),
        ({"cron": "0 2 * * *", "concurrency": "never"}, "concurrency", "'never'"),
    ],
)
async def test_unusable_schedule_is_refused(
    stands: Standing, fields: dict[str, Any], field: str, sentence: str
) -> None:
    refused = await put(stands, "nightly", **fields)
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["field"] == field
    assert sentence in refused.json()["detail"]
    assert (await stands.get("schedules"))["total"] == 0


def test_times_follow_the_clocks_of_the_zone() -> None:
    zone = ZoneInfo("Europe/Zurich")
    cron = read_cron("@daily")
    before = datetime(2026, 3, 28, 12, tzinfo=zone).timestamp()
    first = next_time(cron, zone, before)
    assert first is not None
    second = next_time(cron, zone, first)
    assert second is not None
    assert second - first == 23 * 3600
    skipped = next_time("30 2 * * *", zone, datetime(2026, 3, 29, 0, 0, tzinfo=zone).timestamp())
    assert skipped == datetime(2026, 3, 29, 3, 0, tzinfo=zone).timestamp()
    twice = datetime(2026, 10, 25, 0, 0, tzinfo=zone).timestamp()
    found = next_time("30 2 * * *", zone, twice)
    assert found is not None
    following = next_time("30 2 * * *", zone, found)
    assert following is not None
    assert datetime.fromtimestamp(following, zone).day == 26
    assert last_time("30 2 * * *", zone, following) == following
    assert run_name("n", zone, found) == "n-20261025-0230"


@pytest.mark.parametrize(
    ("cron", "zone", "hour_ends"),
    [
        ("30 2 * * *", "Europe/Zurich", datetime(2026, 10, 25, 2, tzinfo=UTC)),
        ("30 1-3 * * *", "Europe/Zurich", datetime(2026, 10, 25, 2, tzinfo=UTC)),
        ("45 1 * * *", "America/New_York", datetime(2026, 11, 1, 7, tzinfo=UTC)),
        ("45 1 * * *", "Australia/Lord_Howe", datetime(2026, 4, 4, 15, 30, tzinfo=UTC)),
    ],
)
def test_next_time_is_later_in_an_hour_that_comes_twice(cron: str, zone: str, hour_ends: datetime) -> None:
    for minutes in range(1, 121):
        after_s = hour_ends.timestamp() - 60.0 * minutes
        found = next_time(cron, ZoneInfo(zone), after_s)
        assert found is not None
        assert found > after_s, datetime.fromtimestamp(after_s, ZoneInfo(zone))


async def test_start_in_an_hour_that_comes_twice_runs_nothing_again(tmp_path: Path) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        for month, day, hour, minute in ((10, 24, 12, 0), (10, 25, 0, 30), (10, 25, 1, 10), (10, 25, 1, 11)):
            at = datetime(2026, month, day, hour, minute, 1, tzinfo=UTC)
            wall.ahead_s = at.timestamp() - START
            if day == 24:
                made = await put(stands, "nightly", "30 2 * * *", zone="Europe/Zurich", workload=TRUE)
                assert made.status_code == 200, made.text
            stands.pool.schedules._ahead_s = None  # as after a start of the server
            row = await look(stands)
            if row["last"] is not None:
                await stands.until(row["last"], "succeeded")
        assert await names(stands) == ["nightly-20261025-0230"]
        assert row["next_s"] == datetime(2026, 10, 26, 1, 30, tzinfo=UTC).timestamp()


async def test_schedule_that_cannot_run_keeps_no_other_from_its_time(tmp_path: Path) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock, end_jobs=False) as stands:
        for name in ("a", "b"):
            assert (await put(stands, name, workload=TRUE)).status_code == 200
        (record, _) = stands.pool.store.schedules.all()
        gone = replace(record, zone="Gone/Zone")  # an update of the machine took it
        await asyncio.wrap_future(stands.pool.store.schedules.set_soon(gone))
    wall.set(1, 2, 0)
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        row = await look(stands)
        assert row["said"].startswith("It can't run: zone: 'Gone/Zone' is no time zone here")
        for action, status in (("run", 409), ("suspend", 200), ("resume", 409)):
            answer = await stands.admin.post(f"/api/v1/schedules/{row['name']}/{action}")
            assert answer.status_code == status, answer.text
            assert status == 200 or "can't run: zone: 'Gone/Zone'" in answer.json()["detail"]
        assert await names(stands) == ["b-20261201-0200"]
