r"""Learn to read handwritten digits with parameters of a sweep: a small network in plain numpy.

It reports its loss after each epoch, and saves its state when it is to stop: at a rung of the sweep, or for
other work. Promoted, it goes on with the next epoch.

    weir sweep -p vision --gpus 1 --param lr=log:1e-4..1 --param hidden=int:4..64 \
      --param momentum=float:0..0.95 --trials 60 --rungs 1,3,9,27 -- python sweep_digits.py
"""

import argparse
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
from digits import UNSEEN, digits

import weir


def losses(weights: dict[str, Any], pictures: Any, shown: Any) -> tuple[Any, Any, Any]:
    """Return the loss of each picture, the probability of each digit, and the hidden layer."""
    hidden = np.tanh(pictures @ weights["in"] + weights["in_bias"])
    scores = hidden @ weights["out"] + weights["out_bias"]
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return -np.log(chances[np.arange(len(shown)), shown] + 1e-12), chances, hidden


def train(lr: float, hidden: int, momentum: float, epochs: int, batch: int, kept: Path) -> None:
    """Train from what is kept there, or from the beginning."""
    pictures, shown = digits()
    seen, unseen = (pictures[:-UNSEEN], shown[:-UNSEEN]), (pictures[-UNSEEN:], shown[-UNSEEN:])
    random = np.random.default_rng(0)
    weights = {
        "in": random.normal(0, 0.2, (64, hidden)),
        "in_bias": np.zeros(hidden),
        "out": random.normal(0, 0.2, (hidden, 10)),
        "out_bias": np.zeros(10),
    }
    speed = {name: np.zeros_like(each) for name, each in weights.items()}
    epoch = 0
    if kept.exists():
        with np.load(kept) as saved:
            epoch = int(saved["epoch"])
            for name in weights:
                weights[name], speed[name] = saved[name], saved[f"speed.{name}"]
    while epoch < epochs:
        order = np.random.default_rng(epoch).permutation(len(seen[1]))
        for at in range(0, len(order), batch):
            some = order[at : at + batch]
            x, y = seen[0][some], seen[1][some]
            _, chances, inside = losses(weights, x, y)
            chances[np.arange(len(y)), y] -= 1
            back = (chances @ weights["out"].T) * (1 - inside**2)
            slopes = {
                "in": x.T @ back,
                "in_bias": back.sum(0),
                "out": inside.T @ chances,
                "out_bias": chances.sum(0),
            }
            for name, slope in slopes.items():
                speed[name] = momentum * speed[name] - lr * slope / len(y)
                weights[name] = weights[name] + speed[name]
        epoch += 1
        weir.report(step=epoch, loss=losses(weights, *unseen)[0].mean())
        if weir.stopping() or epoch == epochs:
            beside = kept.with_suffix(".new.npz")
            np.savez(
                beside, epoch=epoch, **weights, **{f"speed.{name}": each for name, each in speed.items()}
            )
            beside.replace(kept)
            weir.checkpointed(step=epoch)
        if weir.stopping():
            break
    print(f"epoch {epoch}: loss {losses(weights, *unseen)[0].mean():.6f}", flush=True)


def main() -> None:
    """Read the parameters and train."""
    words = argparse.ArgumentParser(description="Learn to read handwritten digits.")
    words.add_argument("--lr", type=float, default=0.1)
    words.add_argument("--hidden", type=int, default=32)
    words.add_argument("--momentum", type=float, default=0.5)
    words.add_argument("--batch", type=int, default=32)
    words.add_argument("--epochs", type=int, default=27)
    asked = words.parse_args()
    if "WEIR_WORKLOAD" in os.environ:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # weir.stopping() tells, after an epoch
    weir.stopping()  # on a cluster it listens to SIGTERM from here on
    kept = Path(os.environ.get("WEIR_CHECKPOINT_DIR", ".")) / "sweep.npz"
    train(asked.lr, asked.hidden, asked.momentum, asked.epochs, asked.batch, kept)


if __name__ == "__main__":
    main()
