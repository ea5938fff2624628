"""Learn to read handwritten digits: a small network in plain numpy, written as a job of a pool should be.

It can be stopped at any moment, after its last step too. What it knows (weights, momentum, step, loss, random
numbers) is saved whole or not at all; started again, it goes on at the very step, and ends with the same loss
as without the stop.

    weir submit -p vision --gpus 1 -- python digits.py --seed 1
"""

import argparse
import gzip
import hashlib
import json
import os
import signal
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import weir

HIDDEN, BATCH, RATE, MOMENTUM, UNSEEN = 32, 64, 0.01, 0.9, 297
Arrays = dict[str, np.ndarray[Any, np.dtype[np.float64]]]


def digits() -> tuple[Any, Any]:
    """1,797 pictures of 8 x 8 points and what they show: the file in scikit-learn, read without it."""
    found = find_spec("sklearn")
    assert found is not None, "pip install scikit-learn: the digits are in it"
    assert found.origin is not None
    with gzip.open(Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1] / 16.0, table[:, -1].astype(int)


class Training:
    """Everything the next step depends on."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.step = 0
        self.loss = float("nan")  # of the last step
        self.weights: Arrays = {
            "in": self.random.normal(0.0, 0.2, (64, HIDDEN)),
            "in_bias": np.zeros(HIDDEN),
            "out": self.random.normal(0.0, 0.2, (HIDDEN, 10)),
            "out_bias": np.zeros(10),
        }
        self.speed: Arrays = {name: np.zeros_like(each) for name, each in self.weights.items()}

    def save(self, path: Path) -> None:
        """Whole or not at all: written beside it, then put in its place."""
        arrays = {
            f"{kind}.{name}": each for kind in ("weights", "speed") for name, each in vars(self)[kind].items()
        }
        beside = path.with_suffix(".new.npz")
        with beside.open("wb") as file:
            progress = {"step": self.step, "loss": self.loss}
            np.savez(file, **progress, random=json.dumps(self.random.bit_generator.state), **arrays)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)

    def load(self, path: Path) -> None:
        """Restore what was saved."""
        with np.load(path) as saved:
            self.step, self.loss = int(saved["step"]), float(saved["loss"])
            self.random.bit_generator.state = json.loads(str(saved["random"]))
            for kind, arrays in (("weights", self.weights), ("speed", self.speed)):
                arrays.update({name: saved[f"{kind}.{name}"] for name in arrays})

    def batches(self, count: int) -> Iterator[Any]:
        """Yield the pictures in a new order, some at a time."""
        order = self.random.permutation(count)
        for at in range(0, count, BATCH):
            yield order[at : at + BATCH]

    def move(self, slopes: Arrays) -> None:
        """Move one small step down the slope."""
        for name, slope in slopes.items():
            self.speed[name] = MOMENTUM * self.speed[name] - RATE * slope
            self.weights[name] = self.weights[name] + self.speed[name]

    def fingerprint(self) -> str:
        """Return a checksum, equal only for exactly equal weights."""
        return hashlib.sha256(b"".join(each.tobytes() for each in self.weights.values())).hexdigest()[:12]


def slopes(weights: Arrays, pictures: Any, shown: Any) -> tuple[float, Arrays]:
    """Return the loss, summed over the pictures, and its gradient by the weights."""
    hidden = np.tanh(pictures @ weights["in"] + weights["in_bias"])
    scores = hidden @ weights["out"] + weights["out_bias"]
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    at = np.arange(len(shown))
    loss = float(-np.log(chances[at, shown]).sum())
    chances[at, shown] -= 1.0
    back = (chances @ weights["out"].T) * (1.0 - hidden**2)
    found = {
        "in": pictures.T @ back,
        "in_bias": back.sum(0),
        "out": hidden.T @ chances,
        "out_bias": chances.sum(0),
    }
    return loss, {name: each / BATCH for name, each in found.items()}


def right(weights: Arrays, pictures: Any, shown: Any) -> float:
    """Return the share of the pictures that are read right."""
    hidden = np.tanh(pictures @ weights["in"] + weights["in_bias"])
    return float(((hidden @ weights["out"] + weights["out_bias"]).argmax(1) == shown).mean())


def train(seed: int, steps: int, save_every: int, at_least_s: float, kept: Path) -> None:
    """Train from what is kept there, or from the beginning; a step sees every picture once."""
    pictures, shown = digits()
    training = Training(seed)
    if kept.exists():
        training.load(kept)
    print(f"{'goes on from' if training.step else 'begins at'} step {training.step}", flush=True)
    while training.step < steps:
        began = time.monotonic()
        total = 0.0
        for some in training.batches(len(shown) - UNSEEN):
            lost, down = slopes(training.weights, pictures[some], shown[some])
            training.move(down)
            total += lost
        training.step += 1
        training.loss = total / (len(shown) - UNSEEN)
        stopping = weir.stopping()
        if stopping or training.step % save_every == 0 or training.step == steps:
            training.save(kept)
            weir.checkpointed(step=training.step)
        if stopping or training.step % 5 == 0 or training.step == steps:
            weir.report(step=training.step, loss=training.loss)
        if stopping:
            print(f"stops at step {training.step}, which is saved", flush=True)
            return
        time.sleep(max(0.0, at_least_s - (time.monotonic() - began)))
    known = right(training.weights, pictures[-UNSEEN:], shown[-UNSEEN:])
    print(f"done after step {steps}: loss {training.loss!r}, weights {training.fingerprint()}", flush=True)
    print(f"it reads {100 * known:.1f} % of {UNSEEN} digits right that it never saw", flush=True)


def main() -> None:
    """Read the words of the command line and train."""
    words = argparse.ArgumentParser(description="Learn to read handwritten digits.")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--steps", type=int, default=400)
    words.add_argument("--save-every", type=int, default=20, metavar="STEPS")
    words.add_argument("--at-least", type=float, default=0.0, metavar="SECONDS", help="how long a step takes")
    asked = words.parse_args()
    if "WEIR_WORKLOAD" in os.environ:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # weir.stopping() tells, between two steps
    kept = Path(os.environ.get("WEIR_CHECKPOINT_DIR", ".")) / "digits.npz"
    train(asked.seed, asked.steps, asked.save_every, asked.at_least, kept)


if __name__ == "__main__":
    main()
