"""Learned headroom in a pool: borrowers leave it free, sessions use it, and the status says why."""

import time
from pathlib import Path

import pytest
from tests.unit.local.server.in_process_server import Standing, reconnect, standing

from weir.control.session_headroom import WEEK_S, WEEKS_MAX, SessionStart
from weir.local.server.control.session_headroom import summer_times_s


def has_history(stands: Standing, monkeypatch: pytest.MonkeyPatch, sessions: int) -> None:
    """Give the pool a history of six weeks with this number of sessions at this hour."""
    now_s = stands.pool.clock()
    starts = [
        SessionStart(now_s - week * WEEK_S + 60.0 + number, 1.0)
        for week in range(WEEKS_MAX, 0, -1)
        for number in range(sessions)
    ]
    table = stands.pool.store.session_starts
    monkeypatch.setattr(table, "since", lambda _since_s: (starts, now_s - 8 * WEEK_S))


async def test_borrowers_leave_learned_headroom_to_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with standing(tmp_path, gpus=4) as stands:
        await stands.project("team", 4)
        await stands.project("guests", 0)
        headroom = stands.pool.session_headroom
        assert (await stands.get("status"))["session_headroom"] is None
        headroom.devices_max = 2
        has_history(stands, monkeypatch, 3)
        await headroom.look()
        status = await stands.get("status")
        assert status["session_headroom"] == 2
        assert "3, 3, 3, 3, 3, 3 GPUs" in status["session_headroom_why"]
        for name in ("a", "b"):
            await stands.submit(project="guests", name=name)
            await stands.until(name, "running")
        await stands.submit(project="guests", name="c")
        why = await stands.until_true(lambda answer: answer["reason"] is not None, "workloads/c")
        assert why["reason"]["why"] == "capacity_reserved"
        await reconnect(stands)
        assert (await stands.get("workloads/c"))["status"] == "pending"
        await stands.submit(project="team", name="s", type="build")
        await stands.until("s", "running")
        assert {(await stands.get(f"workloads/{name}"))["restarts"] for name in ("a", "b")} == {0}
        has_history(stands, monkeypatch, 0)
        await headroom.look()
        await stands.until("c", "running")


async def test_a_history_that_cannot_be_read_leaves_the_headroom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with standing(tmp_path, gpus=4) as stands:
        headroom = stands.pool.session_headroom
        headroom.devices_max = 1
        has_history(stands, monkeypatch, 1)
        await headroom.look()

        def fails(_since_s: float) -> None:
            headroom.devices_max = 0  # so that the loop ends
            raise OSError("no disk")

        monkeypatch.setattr(stands.pool.store.session_starts, "since", fails)
        monkeypatch.setattr("weir.local.server.control.session_headroom.LOOK_S", 0.0)
        await headroom.watch()
        assert (await stands.get("status"))["session_headroom"] == 1


def test_summer_time_moves_past_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        november_s = 1_793_865_600.0  # 2026-11-05 08:00 UTC: clocks were put back on October 25
        assert summer_times_s(november_s) == [0.0, -3600.0, -3600.0, -3600.0, -3600.0, -3600.0]
    finally:
        monkeypatch.undo()
        time.tzset()
