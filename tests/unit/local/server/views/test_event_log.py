"""Events stand in the order in which they happened, and each stands there once."""

from pathlib import Path
from typing import Any

from tests.unit.local.server.in_process_server import Standing, reconnect, standing


async def reported(pool: Standing, name: str) -> list[dict[str, Any]]:
    """Return a workload's events as people see them: by time, then by number."""
    events = (await pool.get("events", workload=name))["items"]
    by_number = sorted(events, key=lambda event: event["id"])
    assert sorted(by_number, key=lambda event: event["at_s"]) == by_number
    return by_number


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["kind"] for event in events]


async def test_what_leads_to_an_end_stands_before_it(tmp_path: Path) -> None:
    async with standing(tmp_path / "home", gpus=1) as pool:
        await pool.submit("sh", "-c", "exit 1", name="fails", retries=0)
        await pool.until("fails", "failed")
        assert kinds(await reported(pool, "fails")) == ["submitted", "started", "failed", "ended"]

        await pool.submit("sleep", "600", name="bounded", max_runtime="1s")
        await pool.project("shut", 0, limit={"gpu": 0})
        await pool.submit("sleep", "600", name="waits", project="shut")
        assert (await pool.admin.post("/api/v1/workloads/waits/stop")).status_code == 200
        await pool.until("waits", "stopped")
        assert kinds(await reported(pool, "waits")) == ["submitted", "withdrawn", "ended"]

        await pool.until("bounded", "stopped")
        events = await reported(pool, "bounded")
        assert kinds(events) == ["submitted", "started", "max_runtime", "ended"]
        sentences = [event["sentence"] for event in events]
        assert sentences[2] == "bounded has run for 1s, the most it may."
        assert sentences[3].startswith("bounded stopped after ")
        row = await pool.get("workloads/bounded")
        assert row["reason"]["sentence"] == "bounded has run for 1s, the most it may."

        await pool.submit("sleep", "600", name="stopped")
        await pool.until("stopped", "running")
        assert (await pool.admin.post("/api/v1/workloads/stopped/stop")).status_code == 200
        await pool.until("stopped", "stopped")
        assert kinds(await reported(pool, "stopped")) == ["submitted", "started", "withdrawn", "ended"]


async def test_a_restarted_control_doesnt_repeat_the_reason_of_an_end(tmp_path: Path) -> None:
    async with standing(tmp_path / "home", gpus=1) as pool:
        script = f'trap "" TERM; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done'
        await pool.submit("sh", "-c", script, name="bounded", max_runtime="1s", grace=300)
        await pool.until_true(lambda page: "max_runtime" in kinds(page["items"]), "events")
        await reconnect(pool)
        (tmp_path / "go").touch()
        await pool.until("bounded", "stopped")
        assert kinds(await reported(pool, "bounded")).count("max_runtime") == 1
