"""A sweep that goes on, in memory: its trials, their results, and its next step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from weir.api.answers import Status, WorkloadRow
from weir.api.sweep_submissions import SweepSubmission
from weir.local.server.trials.trial_launch import parked_reason
from weir.store.records import RungResult, SweepRecord, TrialRecord
from weir.sweeps.halving import BestResult, Halving, Promotion
from weir.sweeps.outcome import missing_result
from weir.sweeps.parameters import SweepParameter, Values
from weir.sweeps.past_trials import PastTrial

ENDS: frozenset[Status] = frozenset(("succeeded", "failed", "stopped"))


@dataclass(slots=True)
class LiveTrial:
    """A trial of a sweep that goes on."""

    record: TrialRecord
    target: int
    parked: bool
    status: Status
    has_left: bool = True  # True: control has confirmed that it isn't running
    results: dict[int, RungResult] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Return True if its workload has ended."""
        return self.status in ENDS

    @property
    def is_active(self) -> bool:
        """Return True if the trial runs, or is to run."""
        return not self.is_over and not self.parked

    @property
    def is_parked(self) -> bool:
        """Return True if the trial waits at a rung."""
        return self.parked and not self.is_over


class LiveSweep:
    """Decides the next step of one sweep. Belongs to the event loop."""

    def __init__(
        self,
        record: SweepRecord,
        spec: SweepSubmission,
        trials: Iterable[tuple[TrialRecord, Status]],
        results: Iterable[RungResult],
    ) -> None:
        self.record = record
        self.spec = spec
        self.space: Sequence[SweepParameter] = spec.space()
        self.trouble = ""
        self.retry_s = 0.0  # time of the earliest retry
        self.failures = 0  # consecutive failed submissions
        self.trials: list[LiveTrial] = []
        self._numbers: dict[str, int] = {}  # by the name of the workload
        self.stopped: set[int] = set()  # trials that were asked to stop after the end of the sweep
        self._active: set[int] = set()
        self._parked: set[int] = set()
        self._failed = 0
        self._halving = Halving(len(spec.rungs), spec.eta)
        self.prospects: dict[int, int] = {}  # last reported prospects of running trials, by number
        for trial, status in trials:
            self._append(LiveTrial(trial, trial.plan.target, trial.parked, status, status == "pending"))
        for result in results:
            self._add_result(result)
        for live_trial in self.trials:
            if live_trial.target > self._halving.rung_of(live_trial.record.plan.number):
                self._halving.leave(live_trial.record.plan.number)
            self._update(live_trial)

    def add(self, record: TrialRecord) -> None:
        """Add a new trial."""
        self._append(LiveTrial(record, record.plan.target, parked=False, status="pending"))
        self._update(self.trials[-1])

    def _append(self, trial: LiveTrial) -> None:
        self._numbers[trial.record.name] = len(self.trials)
        self.trials.append(trial)

    def take_result(self, result: RungResult) -> None:
        """Process a result that was just written down: the trial still has to leave its rung."""
        if self._add_result(result):
            self.trials[result.number].has_left = False

    def _add_result(self, result: RungResult) -> bool:
        trial = self.trials[result.number]
        if result.rung in trial.results:
            return False
        trial.results[result.rung] = result
        return self._halving.record(result.number, result.rung, self.spec.loss(result.value))

    def take_row(self, row: WorkloadRow) -> LiveTrial | None:
        """Process the row of a trial, as control has published it; return the trial.

        The answer is None if it isn't a live trial of this sweep.
        """
        trial = self.named(row.name)
        if trial is None or trial.record.uid != row.uid or trial.is_over:
            return None
        trial.status, trial.has_left = row.status, row.status == "pending"
        self._update(trial)
        return trial

    def _update(self, trial: LiveTrial) -> None:
        """Bring the state of a changed trial up to date."""
        number = trial.record.plan.number
        rung = self._halving.rung_of(number)
        if trial.is_over:
            self._halving.leave(number)
            self._failed += trial.status == "failed"
        elif trial.has_left and trial.target <= rung < len(self.spec.rungs) - 1:
            trial.parked, trial.target = True, rung
        for numbers, belongs in ((self._active, trial.is_active), (self._parked, trial.is_parked)):
            (numbers.add if belongs else numbers.discard)(number)

    def promoted(self, trial: LiveTrial, among: int) -> None:
        """Record that a trial was promoted from its rung, which `among` trials had reached."""
        self.failures, self.trouble = 0, ""
        trial.results[trial.target] = replace(trial.results[trial.target], promoted_among=among)
        trial.target, trial.parked = trial.target + 1, False
        self._halving.leave(trial.record.plan.number)
        self._update(trial)

    def promotion(self) -> Promotion | None:
        """Return the next promotion of a trial that is parked; None if none is due."""
        done = self.is_exhausted and not self._active
        return self._halving.promotion(ready=self._parked, last=done)

    def has_ended(self) -> bool:
        """Return True if the end of the sweep is in the database."""
        return self.record.ended_s is not None

    @property
    def active(self) -> list[LiveTrial]:
        """Return the trials that run or are queued."""
        return [self.trials[number] for number in sorted(self._active)]

    @property
    def parked(self) -> list[LiveTrial]:
        """Return the trials that wait at a rung."""
        return [self.trials[number] for number in sorted(self._parked)]

    @property
    def is_exhausted(self) -> bool:
        """Return True if no further trial is begun."""
        return len(self.trials) >= self.spec.trials_max

    @property
    def has_failed(self) -> bool:
        """Return True if the first trials have all failed."""
        return self._halving.has_failed(self._failed, self.spec.trials_max)

    def may_begin(self) -> bool:
        """Return True if another trial may begin: none is pending, and fewer run than the sweep allows."""
        active = self.active
        if self.spec.parallel is not None and len(active) >= self.spec.parallel:
            return False
        return all(trial.status != "pending" for trial in active)

    def best(self) -> BestResult | None:
        """Return the best result at any rung; None before the first."""
        return self._halving.best()

    @property
    def missing_result(self) -> str:
        """Return the end of a sentence about its trials before one has a result."""
        return missing_result(
            self.spec.metric, self.spec.rungs[0], succeeded=self.first_succeeded() is not None
        )

    def first_succeeded(self) -> LiveTrial | None:
        """Return the first trial that has succeeded; None without one."""
        return next((trial for trial in self.trials if trial.status == "succeeded"), None)

    def past(self) -> list[PastTrial]:
        """Return its trials as samplers see them."""
        rungs = self.spec.rungs
        return [
            PastTrial(
                params_of(trial.record),
                {rungs[rung]: self.spec.loss(result.value) for rung, result in trial.results.items()},
                is_complete=len(trial.results) == len(rungs),
                is_over=trial.is_over,
                state=trial.record.plan.state_of_sampler,
            )
            for trial in self.trials
        ]

    def changed_prospects(self) -> list[tuple[LiveTrial, int]]:
        """Return running trials with their prospects where these changed: 0 for the one to stop first."""
        running = [trial.record.plan.number for trial in self.active if trial.status == "running"]
        prospects = self._halving.prospects(running)
        changed = [
            (self.trials[number], prospect)
            for number, prospect in prospects.items()
            if self.prospects.get(number) != prospect
        ]
        self.prospects = prospects
        return changed

    def rung_reason(self, trial: LiveTrial) -> str:
        """Return the reason for which a parked trial is suspended."""
        return parked_reason(self.record.name, self.spec.rungs[trial.target])

    def named(self, name: str) -> LiveTrial | None:
        """Return the trial with the name of a workload; None if there is none."""
        number = self._numbers.get(name)
        return None if number is None else self.trials[number]


def params_of(record: TrialRecord) -> Values:
    """Return the parameters of a trial as they were written down."""
    return {name: value for name, value in record.plan.params.items() if isinstance(value, float | int | str)}
