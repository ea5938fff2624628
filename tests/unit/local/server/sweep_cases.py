"""Sweeps of tests: real processes that report, save, leave and go on."""

import os
import sys
from pathlib import Path
from typing import Any

from .in_process_server import SMALL, Standing

TRIAL = Path(__file__).parent / "sweep_trial.py"
RUNGS = [1, 3, 9]


def workload(
    folder: Path,
    way: str = "asks",
    steps: int = 9,
    *,
    slow: str = "",
    gated: bool = False,
    step_s: str = "0",
    **more: Any,
) -> dict[str, Any]:
    """Return a trial's submission.

    The trial called `slow` trains once there is a file `go`. Gated, the first trials train: as many as the
    file `gate` says.
    """
    command = [sys.executable, str(TRIAL), str(steps), way]
    gate = {"GATED": "1"} if gated else {}
    env = gate | {"TRAINED": str(folder), "PYTHONPATH": ":".join(sys.path), "SLOW": slow, "STEP_S": step_s}
    return {"project": "default", "command": command, "gpus": 1, **SMALL, "env": env, **more}


async def begin(stands: Standing, folder: Path, *, way: str = "asks", **more: Any) -> dict[str, Any]:
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - a path would have to be asked asynchronously
    body = {
        "name": "s",
        "params": {"lr": "float:0..1"},
        "trials": 9,
        "rungs": RUNGS,
        "eta": 3,
        "sampler": "random",
        "arguments": False,
        "workload": workload(folder, way, **more.pop("workload", {})),
        **more,
    }
    made = await stands.admin.post("/api/v1/sweeps", json=body)
    assert made.status_code == 201, made.text
    return dict(made.json())


async def until_over(stands: Standing, name: str = "s") -> dict[str, Any]:
    found: dict[str, Any] = await stands.until_true(
        lambda sweep: sweep["state"] != "running" and not sweep["running"] and not sweep["parked"],
        f"sweeps/{name}",
    )
    return found


def let_go(folder: Path) -> None:
    """Let the slow trial train."""
    (folder / "go").touch()


def trained(folder: Path, trial: int) -> list[int]:
    return [int(line) for line in (folder / f"s-{trial}").read_text().split()]


def check_promotions(stands: Standing, sweep: dict[str, Any]) -> None:
    """Each promotion was of one of the best of those that had reached the rung before, as recorded."""
    record = stands.pool.store.sweeps.get(sweep["name"])
    assert record is not None
    recorded = stands.pool.store.sweeps.results(record.id)
    for rung in range(len(sweep["rungs"]) - 1):
        here = [each for each in recorded if each.rung == rung]
        promoted = {each.number for each in here if each.promoted_among is not None}
        assert {each.number for each in recorded if each.rung == rung + 1} <= promoted
        for result in here:
            if result.promoted_among is not None:
                best = sorted(each.value or 0.0 for each in here[: result.promoted_among])
                assert result.value in best[: max(1, result.promoted_among // sweep["eta"])]
