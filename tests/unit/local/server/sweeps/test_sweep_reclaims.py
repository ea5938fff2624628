"""An owner takes most GPUs of a sweep back, again and again, while it goes on."""

from functools import partial
from pathlib import Path
from typing import Any

from tests.unit.local.server.in_process_server import standing
from tests.unit.local.server.sweep_cases import begin, check_promotions, trained, until_over

GPUS, TAKEN, RECLAIMS = 8, 6, 20
OPEN_MAX = GPUS - TAKEN
"""Trials that may train at a reclaim, and so may leave by themselves. The others wait at the gate."""
TRIALS = 2 * RECLAIMS + GPUS


def holds_all(sweep: dict[str, Any], opened: int) -> bool:
    """Return True if the sweep has all GPUs, most of them for trials that wait at the gate."""
    running = [row["number"] for row in sweep["trial_rows"] if row["state"] == "running"]
    return len(running) == GPUS and sum(number < opened for number in running) <= OPEN_MAX


async def test_promotions_are_legal_while_an_owner_takes_six_of_eight_gpus_twenty_times(
    tmp_path: Path,
) -> None:
    """The trials train as far as a gate lets them: the sweep goes on, and has all GPUs, at each reclaim."""
    folder = tmp_path / "trained"
    async with standing(tmp_path / "home", gpus=GPUS) as stands:
        await stands.project("lab", GPUS - TAKEN)
        await stands.project("owners", TAKEN)
        folder.mkdir()
        (folder / "gate").write_text("0")
        await begin(
            stands, folder, trials=TRIALS, workload={"project": "lab", "step_s": "0.05", "gated": True}
        )
        for turn in range(RECLAIMS):
            opened = 2 * turn
            (folder / "gate").write_text(f"{opened}")
            await stands.until_true(partial(holds_all, opened=opened), "sweeps/s")
            owner = f"owner-{turn}"
            await stands.submit("sleep", "3600", name=owner, project="owners", gpus=TAKEN)
            await stands.until(owner, "running")
            sweep = await stands.get("sweeps/s")
            assert sweep["state"] == "running"
            assert sweep["running"] <= GPUS - TAKEN
            rows = (await stands.get("workloads", all=True))["items"]
            assert sum((row["evicted"] or {}).get("by") == owner for row in rows) >= TAKEN - OPEN_MAX
            await stands.admin.post(f"/api/v1/workloads/{owner}/stop")
            await stands.until(owner, "stopped")
        (folder / "gate").write_text(f"{TRIALS}")
        sweep = await until_over(stands)
        assert sweep["state"] == "finished", sweep["sentence"]
        assert sweep["rung_rows"][0]["reached"] == TRIALS
        assert sweep["rung_rows"][1]["promoted"] >= 1
        check_promotions(stands, sweep)
        for row in sweep["trial_rows"]:
            last = row["results"][-1]["rung"]
            assert trained(folder, row["number"]) == list(range(1, last + 1))
