"""Record the rungs that trials reach, and park the trials there, before control learns of it.

A result and the suspension of its trial are one transaction, on the control thread, ahead of the facts that
follow from them. So a trial that leaves its GPU at a rung is parked and hasn't ended, whenever the server
is killed. Its exit is reported until control has settled it.

A trial is parked when it leaves, or once it has saved its state since it reached its rung. One that does
neither goes on to its end, and passes the later rungs on its way.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from weir.control.journal import TrialPlan, WorkloadRecord
from weir.control.port import CancelRequested, Fact, LifecycleRule, PodExit, PodExited
from weir.local.records.pod_records import REPORTED, RUNG, SAVED, JobMessage
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.state.pool_state import PoolState
from weir.local.server.trials.trial_launch import parked_reason
from weir.state.events import WorkloadSuspended
from weir.store.records import RungResult


@dataclass(slots=True)
class WatchedTrial:
    """A trial that isn't over. `passed` is the number of rungs that it has reached.

    `reached_*` and `saved_*`: when it last reached a rung and saved its state, in this run and at which step.
    """

    plan: TrialPlan
    uid: int
    name: str
    passed: int = 0
    parked: bool = False
    reached_s: float | None = None
    reached_step: int = 0
    saved_s: float = -1.0
    saved_step: int = -1

    def reach(self, message: JobMessage) -> list[RungResult]:
        """Return the results of the rungs that a trial has reached with a message."""
        results: list[RungResult] = []
        step, plan = message.step, self.plan
        if step is None:
            return results
        while self.passed < len(plan.rungs) and plan.rungs[self.passed] <= step:
            value = message.values.get(plan.metric)
            results.append(RungResult(plan.sweep, plan.number, self.passed, step, value, message.at_s))
            self.passed += 1
            self.reached_s, self.reached_step = message.at_s, step
        return results

    def save(self, message: JobMessage) -> None:
        """Record that it has saved its state."""
        self.saved_s = max(self.saved_s, message.at_s)
        self.saved_step = max(self.saved_step, -1 if message.step is None else message.step)

    def is_due(self, *, leaves: bool) -> bool:
        """Return True if the trial has to be parked now. `leaves`: its pod has exited."""
        if self.parked or self.passed <= self.plan.target or self.passed == len(self.plan.rungs):
            return False
        if leaves or self.reached_s is None:
            return leaves
        return self.saved_s >= self.reached_s or self.saved_step >= self.reached_step

    @property
    def reason(self) -> str:
        """Return the reason of its suspension at the rung that it has reached."""
        return parked_reason(self.plan.sweep_name, self.plan.rungs[self.passed - 1])

    def overran(self, message: JobMessage) -> bool:
        """Return True if a message shows that the trial trains on past the last rung."""
        is_last = self.passed == len(self.plan.rungs)
        return is_last and message.step is not None and message.step > self.reached_step


class RungRecorder:
    """Watches the trials of a pool. `after` and `begin` belong to the control thread."""

    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self._trials: dict[str, WatchedTrial] = {}
        self._notes: deque[tuple[WatchedTrial, JobMessage]] = deque()
        self._recorded: deque[tuple[RungResult, ...]] = deque()
        self._lock = Lock()

    def begin(self) -> None:
        """Read the trials that aren't over, for a control that connects."""
        with self._lock:
            before = dict(self._trials)
        trials = {trial.name: trial for trial in _live_trials(self._pool)}
        with self._lock:
            self._notes.clear()
            added = {name: trial for name, trial in self._trials.items() if before.get(name) is not trial}
            self._trials = trials | added  # `added` were stored after the others were read

    def add(self, trial: WatchedTrial) -> None:
        """Watch a new trial, or one that was promoted."""
        with self._lock:
            self._trials[trial.name] = trial

    def watch(self, record: WorkloadRecord) -> None:
        """Watch a workload that was just written down, if it is a trial: before the backend can start it."""
        if record.trial is not None:
            self.add(WatchedTrial(record.trial, record.launch.uid, record.workload.name))

    def parked(self, name: str) -> WatchedTrial | None:
        """Return the trial of this name if it is parked."""
        with self._lock:
            trial = self._trials.get(name)
        return trial if trial is not None and trial.parked else None

    def refuse_if_parked(self, name: str) -> None:
        """Refuse to suspend or resume a trial that is parked: its sweep does that.

        Raises:
            RequestRefused: it is parked.
        """
        if (trial := self.parked(name)) is not None:
            sweep = trial.plan.sweep_name
            raise RequestRefused(
                409,
                f"{name} is {trial.reason}: it goes on once its sweep promotes it. "
                f"`weir sweep show {sweep}` shows how it stands.",
            )

    def forget(self, name: str, uid: int) -> None:
        """Watch a trial no longer: it is over."""
        with self._lock:
            if (trial := self._trials.get(name)) is not None and trial.uid == uid:
                del self._trials[name]

    def noted(self, name: str, uid: int, message: JobMessage) -> bool:
        """Process a message of a job; return True if control has to read it."""
        with self._lock:
            trial = self._trials.get(name)
            if trial is None or trial.uid != uid:
                return False
            if message.kind == REPORTED and not trial.overran(message):
                return False
            self._notes.append((trial, message))
        return True

    def recorded(self) -> list[RungResult]:
        """Return the results that were written down since the last call."""
        results: list[RungResult] = []
        while self._recorded:
            results += self._recorded.popleft()
        return results

    def after(self, facts: Sequence[Fact]) -> list[Fact]:
        """Return facts with those that follow for trials: they are parked, and didn't end, at a rung.

        Raises:
            StoreFailed: the results can't be written down; a control that connects reads them again.
        """
        if not self._trials:
            return list(facts)
        with self._lock:
            notes, trials = list(self._notes), dict(self._trials)
            self._notes.clear()
        results: list[RungResult] = []
        told: list[Fact] = []
        touched: dict[str, WatchedTrial] = {}
        for trial, message in notes:
            touched[trial.name] = trial
            if message.kind == RUNG:
                results += trial.reach(message)
            elif message.kind == SAVED:
                trial.save(message)
            elif message.kind == REPORTED:
                told.append(self._stop(trial))
        leaving = {
            fact.pod.workload: trials[fact.pod.workload]
            for fact in facts
            if isinstance(fact, PodExited) and fact.pod.workload in trials
        }
        parked = [
            trial for name, trial in (touched | leaving).items() if trial.is_due(leaves=name in leaving)
        ]
        if results or parked:
            reasons = {trial.uid: trial.reason for trial in parked}
            self._pool.store.sweeps.record(results, reasons).result()
            for parked_trial in parked:
                parked_trial.parked = True
            self._recorded.append(tuple(results))
        told += [
            WorkloadSuspended(trial.name, True, trial.reason) for trial in parked if trial.name not in leaving
        ]
        return [*_parked_exits(facts, leaving), *told]

    def _stop(self, trial: WatchedTrial) -> Fact:
        plan = trial.plan
        sentence = f"{trial.name} trained on past {plan.rungs[-1]}, the last rung of sweep {plan.sweep_name}."
        return CancelRequested(
            trial.name, self._pool.clock(), sentence=sentence, rule=LifecycleRule.WITHDRAWN
        )


def _parked_exits(facts: Iterable[Fact], leaving: dict[str, WatchedTrial]) -> Iterable[Fact]:
    """Yield facts; the exit of a parked trial becomes a suspension, with any exit code."""
    for fact in facts:
        if isinstance(fact, PodExited):
            trial = leaving.get(fact.pod.workload)
            if trial is not None and trial.parked:
                yield WorkloadSuspended(trial.name, True, trial.reason)
                how = PodExit.LOST if fact.how is PodExit.LOST else PodExit.STOPPED
                yield replace(fact, how=how, final=False)
                continue
        yield fact


def _live_trials(pool: PoolState) -> Iterable[WatchedTrial]:
    table = pool.store.sweeps
    for sweep in table.unfinished("running"):
        results: dict[int, list[RungResult]] = {}
        for result in table.results(sweep.id):
            results.setdefault(result.number, []).append(result)
        for trial in table.trials(sweep):
            if trial.state != "live":
                continue
            reached = results.get(trial.plan.number, [])
            watched = WatchedTrial(trial.plan, trial.uid, trial.name, len(reached), trial.parked)
            if reached:
                watched.reached_s, watched.reached_step = reached[-1].at_s, reached[-1].step
            yield watched
