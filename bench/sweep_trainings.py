"""Trainings of the benchmark of sweeps: two real ones, small enough for plain numpy.

`digits` learns to read handwritten digits, with momentum. Its loss falls for some epochs and rises again.
`text` learns the next letter of the documentation of Python, with Adam. Its loss falls until the end.
"""

import gzip
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from weir.sweeps.parameters import SweepParameter, parse_parameter

UNSEEN = 297
LETTERS, LETTERS_SEEN, LETTERS_UNSEEN = 48, 6000, 2000
VECTOR = 8
"""Numbers that stand for a letter."""


class Training:
    """Training of one trial, which can be continued. `losses` are those of its epochs so far."""

    def __init__(self, params: dict[str, Any], seed: int) -> None:
        self.params, self.seed = params, seed
        self.losses: list[float] = []
        self.weights: list[Any] = []

    @staticmethod
    def space() -> list[SweepParameter]:
        """Return the parameters to search."""
        raise NotImplementedError

    @property
    def epoch_s(self) -> float:
        """Virtual time of an epoch: larger networks and smaller batches take longer."""
        return 1.0 + int(self.params["hidden"]) / 64 + 16 / int(self.params["batch"])

    def loss_at(self, epoch: int) -> float:
        """Train up to an epoch, and return the loss on what was never seen."""
        while len(self.losses) < epoch:
            self._epoch()
        return self.losses[epoch - 1]

    def _epoch(self) -> None:
        raise NotImplementedError


class Digits(Training):
    """Handwritten digits of scikit-learn, read by one hidden layer."""

    _data: tuple[Any, Any] | None = None

    def __init__(self, params: dict[str, Any], seed: int) -> None:
        super().__init__(params, seed)
        chance = np.random.default_rng(seed)
        hidden = int(params["hidden"])
        self.weights = [
            chance.normal(0, 0.2, (64, hidden)),
            np.zeros(hidden),
            chance.normal(0, 0.2, (hidden, 10)),
            np.zeros(10),
        ]
        self.speed = [np.zeros_like(array) for array in self.weights]

    @staticmethod
    def space() -> list[SweepParameter]:
        """Return the parameters to search."""
        return [
            parse_parameter("lr", "log:1e-3..1"),
            parse_parameter("hidden", "int:4..64"),
            parse_parameter("momentum", "float:0..0.95"),
            parse_parameter("batch", "choice:16,32,64,128"),
        ]

    @classmethod
    def data(cls) -> tuple[Any, Any]:
        """Return the pictures and what they show."""
        if cls._data is None:
            spec = find_spec("sklearn")
            assert spec is not None
            assert spec.origin is not None
            with gzip.open(Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as file:
                table = np.loadtxt(file, delimiter=",")
            cls._data = table[:, :-1] / 16.0, table[:, -1].astype(int)
        return cls._data

    def _forward(self, x: Any) -> tuple[Any, Any]:
        inside = np.tanh(x @ self.weights[0] + self.weights[1])
        return inside, _chances(inside @ self.weights[2] + self.weights[3])

    def _epoch(self) -> None:
        pictures, shown = self.data()
        batch, lr, momentum = (self.params[name] for name in ("batch", "lr", "momentum"))
        order = np.random.default_rng([self.seed, len(self.losses)]).permutation(len(shown) - UNSEEN)
        for offset in range(0, len(order), batch):
            some = order[offset : offset + batch]
            inside, chances = self._forward(pictures[some])
            chances[np.arange(len(some)), shown[some]] -= 1
            back = (chances @ self.weights[2].T) * (1 - inside**2)
            slopes = (pictures[some].T @ back, back.sum(0), inside.T @ chances, chances.sum(0))
            for which, slope in enumerate(slopes):
                self.speed[which] = momentum * self.speed[which] - lr * slope / len(some)
                self.weights[which] = self.weights[which] + self.speed[which]
        _, chances = self._forward(pictures[-UNSEEN:])
        self.losses.append(_mean_loss(chances, shown[-UNSEEN:]))


class Text(Training):
    """Next letter of the documentation that comes with Python, from the letters before it."""

    _data: Any = None

    def __init__(self, params: dict[str, Any], seed: int) -> None:
        super().__init__(params, seed)
        chance = np.random.default_rng(seed)
        hidden, before = int(params["hidden"]), int(params["before"])
        self.weights = [
            chance.normal(0, 0.3, (LETTERS, VECTOR)),
            chance.normal(0, (before * VECTOR) ** -0.5, (before * VECTOR, hidden)),
            np.zeros(hidden),
            chance.normal(0, hidden**-0.5, (hidden, LETTERS)),
            np.zeros(LETTERS),
        ]
        self.means = [np.zeros_like(array) for array in self.weights]
        self.squares = [np.zeros_like(array) for array in self.weights]
        self.updates = 0
        text = self.data()
        places = np.arange(before, LETTERS_SEEN + LETTERS_UNSEEN)
        self.contexts = np.stack([text[places - back] for back in range(1, before + 1)], axis=1)
        self.letters = text[places]

    @staticmethod
    def space() -> list[SweepParameter]:
        """Return the parameters to search."""
        return [
            parse_parameter("lr", "log:1e-4..1e-1"),
            parse_parameter("hidden", "int:4..64"),
            parse_parameter("before", "int:1..8"),
            parse_parameter("decay", "log:1e-6..1e-1"),
            parse_parameter("batch", "choice:32,64,128,256"),
        ]

    @classmethod
    def data(cls) -> Any:
        """Return the text as numbers: the commonest letters, and one number for all others."""
        if cls._data is None:
            from pydoc_data.topics import topics

            text = "".join(topics[name] for name in sorted(topics))[: LETTERS_SEEN + LETTERS_UNSEEN].lower()
            common = sorted(sorted(set(text)), key=text.count, reverse=True)[: LETTERS - 1]
            numbers = {letter: number for number, letter in enumerate(common)}
            cls._data = np.array([numbers.get(letter, LETTERS - 1) for letter in text])
        return cls._data

    def _forward(self, contexts: Any) -> tuple[Any, Any, Any]:
        vectors, enter, bias, leave, last_bias = self.weights
        x = vectors[contexts].reshape(len(contexts), -1)
        inside = np.tanh(x @ enter + bias)
        return x, inside, _chances(inside @ leave + last_bias)

    def _epoch(self) -> None:
        seen, batch = len(self.letters) - LETTERS_UNSEEN, int(self.params["batch"])
        order = np.random.default_rng([self.seed, len(self.losses)]).permutation(seen)
        for offset in range(0, seen, batch):
            some = order[offset : offset + batch]
            self._update(self._slopes(self.contexts[some], self.letters[some]))
        _, _, chances = self._forward(self.contexts[seen:])
        self.losses.append(_mean_loss(chances, self.letters[seen:]))

    def _slopes(self, contexts: Any, letters: Any) -> Sequence[Any]:
        """Return the derivatives of the loss of a batch by each weight."""
        x, inside, chances = self._forward(contexts)
        chances[np.arange(len(letters)), letters] -= 1
        chances /= len(letters)
        back = (chances @ self.weights[3].T) * (1 - inside**2)
        vectors = np.zeros_like(self.weights[0])
        np.add.at(vectors, contexts.ravel(), (back @ self.weights[1].T).reshape(-1, VECTOR))
        return vectors, x.T @ back, back.sum(0), inside.T @ chances, chances.sum(0)

    def _update(self, slopes: Sequence[Any]) -> None:
        """Change the weights with Adam and decoupled decay."""
        self.updates += 1
        lr, decay = self.params["lr"], self.params["decay"]
        for which, slope in enumerate(slopes):
            self.means[which] += 0.1 * (slope - self.means[which])
            self.squares[which] += 0.001 * (slope * slope - self.squares[which])
            mean = self.means[which] / (1 - 0.9**self.updates)
            square = self.squares[which] / (1 - 0.999**self.updates)
            self.weights[which] -= lr * (mean / (np.sqrt(square) + 1e-8) + decay * self.weights[which])


TRAININGS: dict[str, type[Training]] = {"digits": Digits, "text": Text}


def _chances(scores: Any) -> Any:
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    return chances / chances.sum(axis=1, keepdims=True)


def _mean_loss(chances: Any, right: Any) -> float:
    return float(-np.log(chances[np.arange(len(right)), right] + 1e-12).mean())
