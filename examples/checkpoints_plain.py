"""A job in plain Python that can be stopped at any moment and goes on where it was.

It works out pi by throwing darts. What the next step depends on (how many were thrown, how many hit, the
state of the random numbers) is saved whole or not at all: it ends with the same number whether it was stopped
or not.

    weir submit -p vision --gpus 1 -- python checkpoints_plain.py --steps 600
"""

import argparse
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import weir

DARTS = 2_000


def main() -> None:
    """Throw, save now and then, and go when told to."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--steps", type=int, default=600)
    asked.add_argument("--save-every", type=int, default=50)
    asked.add_argument("--pause", type=float, default=0.02, help="seconds a step takes besides")
    options = asked.parse_args()

    signal.signal(signal.SIGTERM, lambda *_: None)  # notice: `weir.stopping()` says so from now on
    weir.stopping()  # on a cluster it listens to the signal from here on
    saved = Path(os.environ.get("WEIR_CHECKPOINT_DIR", ".")) / "state.json"

    dice = random.Random(1)
    state: dict[str, Any] = {"step": 0, "hits": 0}
    if saved.exists():
        state = json.loads(saved.read_text())
        version, numbers, more = state.pop("dice")
        dice.setstate((version, tuple(numbers), more))
        print(f"goes on at step {state['step']}", flush=True)

    while state["step"] < options.steps:
        state["hits"] += sum(dice.random() ** 2 + dice.random() ** 2 < 1 for _ in range(DARTS))
        state["step"] += 1
        time.sleep(options.pause)

        told = weir.stopping()
        if told or state["step"] % options.save_every == 0:
            save(saved, {**state, "dice": dice.getstate()})
            weir.checkpointed(step=state["step"])
        if told:
            print(f"stops at step {state['step']}", flush=True)
            return
        weir.report(step=state["step"], pi=4 * state["hits"] / (state["step"] * DARTS))

    print(f"pi is about {4 * state['hits'] / (state['step'] * DARTS):.6f}", flush=True)


def save(path: Path, state: dict[str, Any]) -> None:
    """Whole or not at all: written beside it, on the disk, then put in its place."""
    beside = path.with_suffix(".new")
    with beside.open("w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


if __name__ == "__main__":
    main()
