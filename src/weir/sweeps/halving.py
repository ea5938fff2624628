"""Asynchronous successive halving (ASHA; Li et al., 2020) over recorded results.

A trial that reaches a rung waits there. It may be promoted while it is among the best `1/eta` of all trials
that have reached this rung so far. The next step of a sweep is the promotion at the highest rung that has
one, or else a new trial. Nothing waits for a rung to fill.
"""

from bisect import bisect_left, insort
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

FAILED_FIRST = 5
"""Failed trials from which on a sweep is given up if none has reached a rung."""
Score = tuple[float, int]
"""Value, smaller is better, and the number of the trial, by which ties are broken."""


class Promotion(NamedTuple):
    """A trial that goes on from a rung, which `reached` trials have reached so far."""

    trial: int
    rung: int
    reached: int


class BestResult(NamedTuple):
    """The best result of a sweep: its trial, and the rung at which it had it."""

    trial: int
    rung: int


@dataclass(slots=True)
class _Rung:
    """Scores of the trials that have reached a rung, best first, and the trials that wait at it."""

    scores: list[Score] = field(default_factory=list)
    waiting: list[Score] = field(default_factory=list)


class Halving:
    """Recorded results of a sweep, and the next promotion that they allow.

    Rungs are numbered from 0; the last one is the end of a trial.
    """

    def __init__(self, rungs: int, eta: int) -> None:
        assert rungs >= 1
        assert eta >= 2
        self._eta = eta
        self._rungs = [_Rung() for _ in range(rungs)]
        self._score: dict[int, list[Score]] = {}  # score of each trial by rung

    def record(self, trial: int, rung: int, value: float) -> bool:
        """Add a result; return False for a known one. A trial passes each rung in turn."""
        passed = self._score.setdefault(trial, [])
        if rung < len(passed):
            return False
        assert rung == len(passed), f"trial {trial} skipped a rung before {rung}"
        self.leave(trial)
        score = (value if value == value else inf, trial)  # noqa: PLR0124 - not a number is the worst
        passed.append(score)
        insort(self._rungs[rung].scores, score)
        if rung + 1 < len(self._rungs):
            insort(self._rungs[rung].waiting, score)
        return True

    def leave(self, trial: int) -> None:
        """Remove a trial from its rung: it was promoted, or it is over. Its results stay."""
        passed = self._score.get(trial)
        if not passed:
            return
        waiting, score = self._rungs[len(passed) - 1].waiting, passed[-1]
        position = bisect_left(waiting, score)
        if position < len(waiting) and waiting[position] == score:
            del waiting[position]

    def promotion(self, *, ready: Container[int] | None = None, last: bool = False) -> Promotion | None:
        """Return the next promotion, of the highest rung that has one.

        `ready` are the trials that can go on now; None for all. `last`: no trial runs or will begin. Then the
        best trial of a rung goes on even if fewer than `eta` have reached it and none has gone on from it. So
        a sweep ends with a complete trial.
        """
        for rung in reversed(range(len(self._rungs) - 1)):
            rung_state = self._rungs[rung]
            if not rung_state.waiting:
                continue
            promoted_max = len(rung_state.scores) // self._eta
            if last and not promoted_max and not self._rungs[rung + 1].scores:
                promoted_max = 1
            for score in rung_state.waiting:
                if bisect_left(rung_state.scores, score) >= promoted_max:
                    break
                if ready is None or score[1] in ready:
                    return Promotion(score[1], rung, len(rung_state.scores))
        return None

    def reached(self, rung: int) -> int:
        """Return how many trials have reached a rung."""
        return len(self._rungs[rung].scores)

    def has_failed(self, failed: int, trials_max: int) -> bool:
        """Return True if the sweep is to be given up: the first trials, or all, have failed."""
        return failed >= min(FAILED_FIRST, trials_max) and not self.reached(0)

    def rung_of(self, trial: int) -> int:
        """Return the last rung of a trial; -1 if it has reached none."""
        return len(self._score.get(trial, ())) - 1

    def best(self) -> BestResult | None:
        """Return the best result at any rung; None before the first.

        A trial may get worse after its best rung, as one that overfits does. Of equal results the one at the
        highest rung is returned.
        """
        leaders = (
            (rung_state.scores[0], -rung) for rung, rung_state in enumerate(self._rungs) if rung_state.scores
        )
        (_, trial), rung = min(leaders, key=lambda leader: (leader[0][0], leader[1]), default=((0, -1), 0))
        return None if trial < 0 else BestResult(trial, -rung)

    def by_prospect(self, trials: Iterable[int]) -> list[int]:
        """Return trials by their prospect of a promotion, best first.

        A higher rung is better, then a better part of the trials there, then an earlier number.
        """
        return sorted(trials, key=self._prospect)

    def prospects(self, trials: Iterable[int]) -> dict[int, int]:
        """Return the prospect of each trial as a number: 0 for the one to stop first."""
        order = self.by_prospect(trials)
        return {trial: len(order) - 1 - position for position, trial in enumerate(order)}

    def _prospect(self, trial: int) -> tuple[int, float, int]:
        rung = self.rung_of(trial)
        if rung < 0:
            return (1, 0.0, trial)
        scores = self._rungs[rung].scores
        return (-rung, bisect_left(scores, self._score[trial][-1]) / len(scores), trial)
