"""A trial for tests: its loss is known for each step, it saves its state, and it notes each step it trains."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import weir

STEPS = int(sys.argv[1])
WAY = sys.argv[2]
"""Its behaviour: at a rung it `asks` (weir.stopping), `saves` (weir.checkpointed alone) or `ignores` it; or it `fails`."""
lr = float(json.loads(os.environ["WEIR_PARAMS"])["lr"])
saved = Path(os.environ["WEIR_CHECKPOINT_DIR"]) / "step"
trained = Path(os.environ["TRAINED"]) / os.environ["WEIR_WORKLOAD"]
step = int(saved.read_text()) if saved.exists() else 0
gate = trained.with_name("gate")


def is_held() -> bool:
    """Return True while the trial may not train yet."""
    if os.environ.get("GATED"):  # the file holds the number of trials that may
        return int(os.environ["WEIR_SWEEP_TRIAL"]) >= int(gate.read_text() or 0)
    return os.environ["SLOW"] == os.environ["WEIR_WORKLOAD"] and not trained.with_name("go").exists()


if WAY == "asks":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # weir.stopping() tells, after each step
while is_held():
    time.sleep(0.05)
    if WAY == "asks" and weir.stopping():
        sys.exit()
if WAY == "fails":
    sys.exit("it fails")
while step < STEPS:
    step += 1
    time.sleep(float(os.environ["STEP_S"]))
    with trained.open("a") as file:
        file.write(f"{step}\n")
    weir.report(step=step, loss=abs(lr - 0.3) + 1 / step)
    if WAY == "ignores":
        continue
    if WAY == "saves" or weir.stopping():
        beside = saved.with_suffix(".new")
        beside.write_text(str(step))
        beside.replace(saved)
        weir.checkpointed(step=step)
    if WAY == "asks" and weir.stopping():
        sys.exit()
