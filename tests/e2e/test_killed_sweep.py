"""The server is killed again and again while a sweep goes on: its table is that of a sweep left alone.

One trial runs at a time, so the table follows from the seed: it is computed here without a server.
WEIR_EFFORT multiplies the kills: 25 makes a hundred.
"""

import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.unit.local.server.server_process import Serving

from weir.sweeps.halving import Halving
from weir.sweeps.parameters import parse_parameter
from weir.sweeps.samplers import random_point

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
KILLS = 4 * EFFORT
TRIALS, RUNGS, ETA, SEED = 7 * EFFORT, [1, 3, 9], 3, 5
TRIAL = Path(__file__).parents[1] / "unit" / "local" / "server" / "sweep_trial.py"


def loss(lr: float, step: int) -> float:
    """Return the loss that a trial reports."""
    return abs(lr - 0.3) + 1 / step


def expected_table() -> dict[int, list[tuple[int, float]]]:
    """Return the results of each trial, as a sweep that nothing disturbs has them."""
    space = [parse_parameter("lr", "float:0..1")]
    halving = Halving(len(RUNGS), ETA)
    table: dict[int, list[tuple[int, float]]] = {}
    lrs = [float(random_point(space, SEED, number)["lr"]) for number in range(TRIALS)]
    while True:
        begun = len(table)
        promotion = halving.promotion(last=begun == TRIALS)
        if promotion is not None:
            trial, rung = promotion.trial, promotion.rung + 1
            halving.leave(trial)
        elif begun < TRIALS:
            trial, rung = begun, 0
        else:
            return table
        value = loss(lrs[trial], RUNGS[rung])
        table.setdefault(trial, []).append((RUNGS[rung], value))
        halving.record(trial, rung, value)


def begin(server: Serving, marks: Path, way: str) -> None:
    env = {"TRAINED": str(marks), "PYTHONPATH": ":".join(sys.path), "SLOW": "", "STEP_S": "0.05"}
    body: dict[str, Any] = {
        "name": "s",
        "params": {"lr": "float:0..1"},
        "trials": TRIALS,
        "rungs": RUNGS,
        "eta": ETA,
        "seed": SEED,
        "sampler": "random",
        "parallel": 1,
        "arguments": False,
        "workload": {
            "project": "default",
            "command": [sys.executable, str(TRIAL), "9", way],
            "env": env,
            "gpus": 1,
            "cpu": "100m",
            "memory": "16Mi",
        },
    }
    status, answer = server.ask("POST", "/api/v1/sweeps", body)
    assert status == 201, answer


@pytest.mark.parametrize("way", ["asks", "saves"])
def test_killed_server_goes_on_to_the_same_table_and_trains_no_step_twice(tmp_path: Path, way: str) -> None:
    dice = random.Random(f"{way}{EFFORT}")
    marks = tmp_path / "marks"
    marks.mkdir()
    server = Serving(tmp_path / "home", gpus=2)
    ends = time.monotonic() + 240 + 30 * KILLS
    try:
        begin(server, marks, way)
        for _ in range(KILLS):
            time.sleep(dice.uniform(0.0, 1.5))
            server.end(signal.SIGKILL)
            time.sleep(dice.uniform(0.0, 0.5))
            server.begin()
        while (sweep := server.get("/api/v1/sweeps/s"))["state"] == "running" or sweep["parked"]:
            assert time.monotonic() < ends, sweep
            time.sleep(0.1)
    finally:
        with suppress(AssertionError, OSError):
            server.stop_all()
        server.end()
    assert sweep["state"] == "finished", sweep["sentence"]
    expected = expected_table()
    found = {
        trial["number"]: [(each["rung"], each["value"]) for each in trial["results"]]
        for trial in sweep["trial_rows"]
    }
    assert found == {
        number: [(rung, pytest.approx(value)) for rung, value in results]
        for number, results in expected.items()
    }
    for number, results in expected.items():
        steps = [int(line) for line in (marks / f"s-{number}").read_text().split()]
        assert steps == list(range(1, results[-1][0] + 1)), number
