"""Names of runs and trials are easy to guess: a workload of another project that has one stops neither."""

from datetime import UTC, datetime
from pathlib import Path

import httpx
from tests.unit.local.server.in_process_server import SMALL, Standing, standing
from tests.unit.local.server.submissions.test_schedules import START, WallClock, look, names, put
from tests.unit.local.server.sweep_cases import begin, until_over

from weir.model.resources import seconds

DAY_S = seconds("1d")


async def take_name(stands: Standing, name: str) -> None:
    """Have a member of another project submit a workload that never ends under a name."""
    await stands.project("red", 1)
    async with await stands.member("red", user="mallory") as member:
        body = {"project": "red", "name": name, "command": ["sleep", "3600"], "gpus": 0, **SMALL}
        made = await member.post("/api/v1/workloads", json=body)
        assert made.status_code == 201, made.text


async def test_sweep_goes_on_where_the_name_of_a_trial_is_taken(stands: Standing, tmp_path: Path) -> None:
    await take_name(stands, "s-2")
    await begin(stands, tmp_path / "trained", trials=4)
    sweep = await until_over(stands)
    assert sweep["state"] == "finished", sweep["sentence"]
    trials = [row["name"] for row in sweep["trial_rows"]]
    assert [name for name in trials if name != "s-2"][:2] + trials[3:] == ["s-0", "s-1", "s-3"]
    assert trials[2].startswith("s-2-")
    assert (await stands.get(f"workloads/{trials[2]}"))["sweep"] == "s"


async def test_schedule_runs_where_the_name_of_its_run_is_taken(tmp_path: Path) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        schedule = "n" * 48
        assert (await put(stands, schedule)).status_code == 200
        await take_name(stands, f"{schedule}-20261201-0200")
        wall.set(1, 2, 0)
        row = await look(stands)
        assert row["last"] is not None, row["said"]
        assert row["last"].startswith(f"{'n' * 42}-20261201-0200-")
        assert row["active"] == [row["last"]]
        assert row["last"] in await names(stands)


async def test_schedule_that_was_made_while_the_clock_was_ahead_runs_at_its_time(tmp_path: Path) -> None:
    wall = WallClock()
    wall.ahead_s = 10 * 365 * DAY_S
    async with standing(tmp_path / "home", clock=wall.clock, end_jobs=False) as stands:
        await put(stands, "nightly", workload={"command": ["true"]})
        assert (await look(stands))["next_s"] > START + DAY_S
        wall.ahead_s = 0.0
        assert (await look(stands))["next_s"] == START + 30
        wall.ahead_s = 10 * 365 * DAY_S
        assert (await stands.admin.post("/api/v1/schedules/nightly/suspend")).status_code == 200
        assert (await stands.admin.post("/api/v1/schedules/nightly/resume")).status_code == 200
    wall = WallClock()  # corrected while the server was away
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        row = await look(stands)
        assert row["next_s"] == datetime(2026, 12, 1, 2, tzinfo=UTC).timestamp()


async def test_second_run_of_a_schedule_in_one_second_is_refused(tmp_path: Path) -> None:
    wall = WallClock()
    async with standing(tmp_path / "home", clock=wall.clock) as stands:
        await put(stands, "nightly")
        answers: list[httpx.Response] = [
            await stands.admin.post("/api/v1/schedules/nightly/run") for _ in range(2)
        ]
        assert [each.status_code for each in answers] == [200, 409]
