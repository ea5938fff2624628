"""Progress of one sweep: its recorded trials, and its next steps. It knows no cluster."""

import json
from collections.abc import Sequence

from weir.api.sweep_submissions import SweepSubmission
from weir.kubernetes.crd.sweep_objects import (
    FAILED_TRIAL,
    LIVE,
    PARKED,
    STOPPED_TRIAL,
    SUCCEEDED_TRIAL,
    ReachedRung,
    SweepTrial,
)
from weir.sweeps.halving import BestResult, Halving, Promotion
from weir.sweeps.outcome import missing_result, outcome, result_words
from weir.sweeps.past_trials import PastTrial


class SweepProgress:
    """Trials of a sweep by number, and the promotions that their results allow."""

    def __init__(self, plan: SweepSubmission, trials: list[SweepTrial]) -> None:
        """Create it.

        Raises:
            ValueError: the trials are of another search.
        """
        if any(len(trial.results) > len(plan.rungs) for trial in trials):
            raise ValueError("its rungs were changed: begin another sweep")
        self.plan = plan
        self.trials = trials
        self._halving = Halving(len(plan.rungs), plan.eta)
        for number, trial in enumerate(trials):
            self._record(number, trial.results)
            if trial.state != PARKED:
                self._halving.leave(number)

    def _record(self, number: int, results: Sequence[ReachedRung]) -> None:
        for result in results:
            self._halving.record(number, result.rung, self.plan.loss(result.value))

    def end_run(self, number: int, results: Sequence[ReachedRung], seconds: float, *, failed: bool) -> None:
        """Record that the Job of a trial is over, with the results that it had."""
        trial = self.trials[number]
        trial.results = [*trial.results, *results]
        trial.seconds += seconds
        self._record(number, results)
        passed = len(trial.results)
        if passed == len(self.plan.rungs):
            trial.state = SUCCEEDED_TRIAL
        elif passed > trial.target:
            trial.state, trial.target = PARKED, passed - 1
            return
        else:
            trial.state = FAILED_TRIAL if failed else SUCCEEDED_TRIAL
        self._halving.leave(number)

    def stop(self, number: int) -> None:
        """Record that a trial was stopped."""
        self.trials[number].state = STOPPED_TRIAL
        self._halving.leave(number)

    def promotion(self) -> Promotion | None:
        """Return the next promotion of a parked trial; None if none is due."""
        ready = {number for number, trial in enumerate(self.trials) if trial.state == PARKED}
        return self._halving.promotion(ready=ready, last=self.is_exhausted and not self.live)

    def promote(self, promotion: Promotion) -> None:
        """Let a trial run to its next rung."""
        trial = self.trials[promotion.trial]
        trial.results[promotion.rung].promoted_among = promotion.reached
        trial.state, trial.target, trial.job = LIVE, promotion.rung + 1, ""
        self._halving.leave(promotion.trial)

    def prospects(self, running: Sequence[int]) -> dict[int, int]:
        """Return the prospects of running trials: 0 for the one that is the least likely to be promoted."""
        return self._halving.prospects(running)

    @property
    def live(self) -> list[int]:
        """Return the numbers of the trials that run or are to run."""
        return [number for number, trial in enumerate(self.trials) if trial.state == LIVE]

    @property
    def is_exhausted(self) -> bool:
        """Return True if no further trial is begun."""
        return len(self.trials) >= self.plan.trials_max

    @property
    def has_failed(self) -> bool:
        """Return True if the first trials have all failed."""
        failed = sum(trial.state == FAILED_TRIAL for trial in self.trials)
        return self._halving.has_failed(failed, self.plan.trials_max)

    def best(self) -> BestResult | None:
        """Return the best result at any rung; None before the first."""
        return self._halving.best()

    def past(self) -> list[PastTrial]:
        """Return the trials as samplers see them."""
        rungs = self.plan.rungs
        return [
            PastTrial(
                json.loads(trial.params),
                {rungs[result.rung]: self.plan.loss(result.value) for result in trial.results},
                is_complete=len(trial.results) == len(rungs),
                is_over=trial.state in (FAILED_TRIAL, STOPPED_TRIAL, SUCCEEDED_TRIAL),
                state=json.loads(trial.sampler_state or "{}"),
            )
            for trial in self.trials
        ]

    def outcome(self) -> str:
        """Return the sentence about a sweep whose trials are over."""
        best = self.best()
        named = None if best is None else f"trial {best.trial}"
        return outcome(len(self.trials), named, self.best_words(), self._missing_result)

    def silence(self) -> str:
        """Return that a trial has succeeded without a result; an empty text if there is a result."""
        if self._first_succeeded is None or self.best() is not None:
            return ""
        return f"trial {self._first_succeeded} has succeeded {self._missing_result}"

    @property
    def _missing_result(self) -> str:
        succeeded = self._first_succeeded is not None
        return missing_result(self.plan.metric, self.plan.rungs[0], succeeded=succeeded)

    @property
    def _first_succeeded(self) -> int | None:
        succeeded = (number for number, trial in enumerate(self.trials) if trial.state == SUCCEEDED_TRIAL)
        return next(succeeded, None)

    def best_words(self) -> str:
        """Return the best result in words; nothing without one."""
        best = self.best()
        if best is None:
            return ""
        result = self.trials[best.trial].results[best.rung]
        return result_words(self.plan.metric, result.value, self.plan.rungs[result.rung])
