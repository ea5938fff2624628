"""A live pool with real processes, while the wall clock is set again and again."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from weir.control.clock import Clock
from weir.local.records import persistent_clock
from weir.model.policy import LifecyclePolicy, Policy

from .in_process_server import Standing, standing

YEAR_S = 365.25 * 86400.0
JUMPS_S = (1.0, 60.0, 3600.0, 86400.0, 10 * YEAR_S)
RULES = LifecyclePolicy(pause_first=0.3, max_pause=0.3)


@dataclass
class Wall:
    """The wall clock, which a test sets."""

    by_s: float = 0.0
    reported: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return time.time() + self.by_s

    def clock(self, home: Path) -> Clock:
        return persistent_clock.resume(home, wall=self, jumped=self.reported.append)


async def jump_about(wall: Wall, chance: random.Random, over: asyncio.Event) -> None:
    """Set the wall clock until it is over."""
    while not over.is_set():
        wall.by_s = chance.choice([-1, 1]) * chance.choice(JUMPS_S)
        await asyncio.sleep(chance.uniform(0.01, 0.15))


async def stall(over: asyncio.Event) -> float:
    """Measure the longest delay of a sleeper, or of a process, on this machine."""
    worst_s = 0.0
    while not over.is_set():
        before_s = time.monotonic()
        await asyncio.sleep(0.02)
        worst_s = max(worst_s, time.monotonic() - before_s - 0.02)
        before_s = time.monotonic()
        await (await asyncio.create_subprocess_exec("true")).wait()
        worst_s = max(worst_s, time.monotonic() - before_s)
        await asyncio.sleep(0.1)
    return worst_s


async def work(pool: Standing) -> None:
    """Have jobs queue, run out, fail and succeed."""
    await pool.submit("sleep", "600", name="long", max_runtime="1h")
    await pool.submit("sh", "-c", "sleep 3600", name="bounded", max_runtime="1s")
    for at in range(6):
        await pool.submit("sleep", "0.1", name=f"short{at}")
    script = 'test -e "$WEIR_CHECKPOINT_DIR/once" || { touch "$WEIR_CHECKPOINT_DIR/once"; exit 1; }'
    await pool.submit("sh", "-c", script, name="again", project="other")
    for at in range(6):
        assert (await pool.until(f"short{at}", "succeeded", "stopped", "failed"))["status"] == "succeeded"
    assert (await pool.until("again", "succeeded", "stopped", "failed"))["status"] == "succeeded"
    await pool.until("bounded", "stopped")


@pytest.mark.parametrize("seed", range(2))
async def test_jumps_stop_nothing_delay_nothing_and_cost_nothing(tmp_path: Path, seed: int) -> None:
    wall, over, home = Wall(), asyncio.Event(), tmp_path / "home"
    home.mkdir()
    clock = wall.clock(home)
    async with standing(home, gpus=3, policy=Policy(life=RULES), clock=clock) as pool:
        await pool.project("other", 1)
        jumping = asyncio.create_task(jump_about(wall, random.Random(seed), over))
        stalling = asyncio.create_task(stall(over))
        await work(pool)
        over.set()
        await jumping
        slow_s = await stalling
        view = pool.pool.view
        rows = {row.name: row for row in (*view.ended.values(), *view.rows.values())}
        assert rows["long"].status == "running"
        assert rows["long"].restarts == 0
        assert rows["bounded"].ended_s - rows["bounded"].started_s >= 1.0
        starts = [rows[f"short{at}"] for at in range(6)]
        for before, after in pairwise(starts):
            assert after.started_s - before.ended_s <= 30.0 + 5 * slow_s  # most jumps are longer
        await _check_charges(pool, rows, slow_s)
        assert wall.reported
        await _check_what_is_shown(pool, wall, rows["long"], clock)


async def _check_charges(pool: Standing, rows: dict[str, Any], slow_s: float) -> None:
    """Check that jumps cost nothing. A device is charged before its process has begun, and until it is reaped."""
    inner = pool.pool

    def charge(_: object) -> float:
        now_s = inner.clock()
        inner.store.samples.add(inner.meter.take(now_s))
        return now_s

    now_s = await inner.query(charge)  # the meter is the control thread's
    inner.store.set_queue(inner.store.queues()[0])  # the writer is through with what was sampled
    (charged,) = (
        row
        for row in inner.store.usage.report(now_s - 3600.0, now_s + 60.0, "project", now_s=now_s).rows
        if row.key == "default"
    )
    held_s = sum((row.ended_s or now_s) - row.started_s for row in rows.values() if row.name != "again")
    assert charged.allocated_gpu_s == pytest.approx(held_s, abs=0.01 * held_s + 2 * slow_s * len(rows))


async def _check_what_is_shown(pool: Standing, wall: Wall, row: Any, clock: Clock) -> None:
    age_s = clock() - row.started_s
    shown = await pool.get("workloads/long")
    assert wall() - shown["started_s"] == pytest.approx(age_s, abs=30.0)
    events = (await pool.get("events", workload="long"))["items"]
    assert all(abs(wall() - event["at_s"]) < age_s + 60.0 for event in events)
    assert abs((await pool.get("status"))["started_s"] - wall()) < 120.0
    usage = await pool.get("usage", since=str(wall() - 3600.0), until=str(wall() + 60.0))
    assert abs(usage["until_s"] - wall()) < 120.0
    assert any(row["key"] == "default" for row in usage["rows"])


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0, 10 * YEAR_S, -10 * YEAR_S])
async def test_a_jump_while_the_server_is_away_costs_a_job_nothing(tmp_path: Path, jump_s: float) -> None:
    wall, home = Wall(), tmp_path / "home"
    home.mkdir()
    clock = wall.clock(home)
    async with standing(home, gpus=1, clock=clock, end_jobs=False) as pool:
        await pool.submit("sleep", "600", name="long", max_runtime="1h")
        await pool.until("long", "running")
        started_s = pool.pool.view.workloads["long"].started_s
    wall.by_s = jump_s
    again = wall.clock(home)
    async with standing(home, gpus=1, clock=again) as pool:
        row = await pool.until("long", "running", "stopped", "failed")
        assert row["status"] == "running"
        line = pool.pool.view.workloads["long"]
        assert line.started_s == pytest.approx(started_s, abs=60.0)
        assert line.restarts == 0
        assert wall() - row["started_s"] == pytest.approx(again() - started_s, abs=60.0)
        taken = await pool.pool.query(lambda _: pool.pool.meter.take(again()))
        held_s = again() - started_s
        assert sum(use.allocated_gpu_s for use in taken.uses) <= held_s * 1.01 + 0.1
