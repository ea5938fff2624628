"""Controller of sweeps: begins and promotes trials, one decision at a time, from stored records.

It belongs to the event loop. Parameters are sampled in a thread. The controller may stop anywhere: its state
is rebuilt from the records, and a decision that wasn't stored is made again.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from structlog import get_logger

from weir.api.answers import WorkloadRow
from weir.api.name_endings import random_ending
from weir.api.sweep_submissions import SweepSubmission
from weir.control.journal import TrialPlan, WorkloadRecord
from weir.control.port import CancelRequested
from weir.local.server.access.absent_person import present_person
from weir.local.server.access.account_mode import PoolAccounts
from weir.local.server.access.authorization import Action, Person, RoleLookup, require
from weir.local.server.changes.cancellations import Cancellations
from weir.local.server.http.problem_details import RequestRefused, read_as
from weir.local.server.state.pool_state import PoolState
from weir.local.server.submissions.submitter import NAMES_TRIED_MAX, ReadSubmission, Submitter
from weir.local.server.sweeps.live_sweep import LiveSweep, LiveTrial
from weir.local.server.trials.rung_recorder import RungRecorder, WatchedTrial
from weir.local.server.trials.trial_launch import TrialLaunch, trial_submission
from weir.state.cluster import Cluster
from weir.state.events import WorkloadChanged, WorkloadSuspended
from weir.store.errors import NameTaken, NoSuchWorkload, StoreFailed, WorkloadOver
from weir.store.records import HistoryEvent, RungResult, SweepRecord, TrialRecord
from weir.sweeps.halving import Promotion
from weir.sweeps.outcome import outcome, result_words
from weir.sweeps.restart_cost import restart_cost_s
from weir.sweeps.samplers import suggest
from weir.sweeps.trial_variables import target_variables, trial_variables

RETRY_S, RETRY_S_MAX = 2.0, 60.0
PAST_MAX = 100
"""Sweeps that are over and kept in memory for lists."""
STOPPED_TOGETHER = 200
"""Trials of an ended sweep whose stops share a write."""
_LATER = (429, 503)
"""Refusals after which a submission is tried again."""
_LOG = get_logger(__name__)


class SweepPool(Protocol):
    """Parts of a pool that the controller needs besides its state."""

    accounts: PoolAccounts
    cancellations: Cancellations
    submitter: Submitter

    async def query(self, fn: Callable[[Cluster], None]) -> None:
        """Run a query on the cluster between steps of control."""
        ...


class SweepController:
    """Begins, promotes and ends the trials of a pool's sweeps."""

    def __init__(
        self, state: PoolState, pool: SweepPool, recorder: RungRecorder, roles_of: RoleLookup
    ) -> None:
        self._state = state
        self._pool = pool
        self.recorder = recorder
        self._roles_of = roles_of
        self.live: dict[str, LiveSweep] = {}
        self._past: dict[int, LiveSweep] = {}
        self._inbox: deque[RungResult | WorkloadRow] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wakes = asyncio.Event()
        self._reload = True
        self.trouble: str | None = None

    # Calls from other threads

    def changed(self, rows: Iterable[WorkloadRow]) -> None:
        """Queue the changed rows of trials for the event loop. Control calls this on its own thread."""
        results = self.recorder.recorded()
        trial_rows = [row for row in rows if row.sweep is not None]
        if results or trial_rows:
            self._inbox.extend((*results, *trial_rows))
            self.wake()
        for row in trial_rows:
            if row.ended_s is not None:
                self.recorder.forget(row.name, row.uid)

    def connected(self) -> None:
        """Read everything again after control has restarted. On the control thread."""
        self.recorder.begin()
        self._reload = True
        self.wake()

    def wake(self) -> None:
        """Wake the controller to check its sweeps. Any thread may call it."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, because the server is stopping
                self._loop.call_soon_threadsafe(self._wakes.set)

    # Calls on the event loop

    async def run(self) -> None:
        """Go on with all sweeps until the server stops."""
        self._loop = asyncio.get_running_loop()
        while not self._state.closing:
            wait_s = RETRY_S
            try:
                if self._reload:
                    await self._load()
                self._drain()
                for sweep in list(self.live.values()):
                    await self._go_on(sweep)
                wait_s = self._wait_s()
                self.trouble = None
            except (OSError, RequestRefused) as error:
                _LOG.warning("sweeps_wait", why=str(error))
                self._reload, self.trouble = True, f"Sweeps wait: {error}"
            except Exception as error:  # noqa: BLE001 - everything is read again
                _LOG.exception("sweeps_failed")
                self._reload, self.trouble = True, f"Control of sweeps failed, and starts again: {error}"
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wakes.wait(), wait_s)
            self._wakes.clear()

    def _wait_s(self) -> float:
        now_s = self._state.clock()
        dues = [sweep.retry_s - now_s for sweep in self.live.values() if sweep.retry_s > now_s]
        return max(0.05, min([*dues, RETRY_S_MAX]))

    async def _load(self) -> None:
        """Make the state of all sweeps that go on from the records."""
        self._reload = False
        self._inbox.clear()
        before = set(self.live)
        await self._pool.query(lambda _: None)  # waits until control knows the running workloads
        table = self._state.store.sweeps
        records = await asyncio.to_thread(table.unfinished, "running")
        live = {}
        for record in records:
            try:
                live[record.name] = await self.read_sweep(record)
            except RequestRefused as refused:  # another version may have written it: continue with the others
                _LOG.error("sweep_unreadable", sweep=record.name, why=refused.detail)
        begun = {
            name: sweep for name, sweep in self.live.items() if name not in before
        }  # added during the read
        self.live = begun | live

    async def take(self, record: SweepRecord) -> None:
        """Go on with a sweep that was just written down."""
        self.live.setdefault(record.name, await self.read_sweep(record))
        self._wakes.set()

    async def past(self, record: SweepRecord) -> LiveSweep:
        """Return a sweep that doesn't go on; the last ones that were asked for are kept in memory."""
        sweep = self._past.pop(record.id, None)
        if sweep is None:
            sweep = await self.read_sweep(record)
        if record.ended_s is not None:
            self._past[record.id] = sweep
            while len(self._past) > PAST_MAX:
                del self._past[next(iter(self._past))]
        return sweep

    def forget(self, record: SweepRecord) -> None:
        """Drop a deleted sweep from memory."""
        self._past.pop(record.id, None)

    async def read_sweep(self, record: SweepRecord) -> LiveSweep:
        """Return a sweep as it is written down."""
        table = self._state.store.sweeps
        results = await asyncio.to_thread(table.results, record.id)
        text = json.dumps(dict(record.spec))
        spec = read_as(SweepSubmission, text, f"Sweep {record.name}", self._state.priority_classes)
        trials = await asyncio.to_thread(table.trials, record)
        return LiveSweep(record, spec, [(trial, self._status_of(trial)) for trial in trials], results)

    def _status_of(self, trial: TrialRecord) -> Any:
        row = self._state.view.row_of(trial.uid)
        if row is not None:
            return row.status
        return "stopped" if trial.state in (None, "live") else trial.state

    def _drain(self) -> None:
        while self._inbox:
            item = self._inbox.popleft()
            if isinstance(item, RungResult):
                sweep = next((live for live in self.live.values() if live.record.id == item.sweep), None)
                if sweep is not None and item.number < len(sweep.trials):
                    sweep.take_result(item)
            elif item.sweep is not None and (named := self.live.get(item.sweep)) is not None:
                now = self._state.view.row_of(item.uid)  # the loaded row may be newer than `item`
                named.take_row(item if now is None else now)

    async def _go_on(self, sweep: LiveSweep) -> None:
        """Take the decisions of one sweep that may be taken now."""
        try:
            if sweep.has_ended():
                await self._clear(sweep)
                return
            while sweep.retry_s <= self._state.clock() and not self._state.closing:
                if not await self._step(sweep):
                    break
                self._drain()
                if sweep.has_ended():  # the sweep was stopped meanwhile: stop the new trial, too
                    self.live[sweep.record.name] = sweep
                    self._wakes.set()
                    return
            self._tell_prospects(sweep)
        except RequestRefused as refused:
            if refused.status in _LATER:
                sweep.failures += 1
                sweep.trouble = refused.detail
                pause_s = min(RETRY_S * 2 ** min(sweep.failures - 1, 10), RETRY_S_MAX)
                sweep.retry_s = self._state.clock() + pause_s
            else:
                await self.end(sweep, "failed", f"A trial can't be submitted: {refused.detail}")
        except NameTaken as error:
            await self.end(sweep, "failed", f"A trial can't be submitted: {error}")
        except StoreFailed:
            raise
        except Exception as error:  # noqa: BLE001 - one sweep that fails doesn't stop the others
            _LOG.exception("sweep_failed", sweep=sweep.record.name)
            await self.end(sweep, "failed", f"The sweep can't continue: {error}")

    async def _step(self, sweep: LiveSweep) -> bool:
        """Take one decision; return True if another one may follow at once."""
        if sweep.has_failed:
            first = sweep.trials[0].record.name
            await self.end(sweep, "failed", f"Its first trials have all failed: see `weir logs {first}`.")
            return False
        if not sweep.may_begin():
            return False
        promotion = sweep.promotion()
        if promotion is not None:
            return await self._promote(sweep, promotion)
        if not sweep.is_exhausted:
            await self._begin(sweep)
            return True
        if not sweep.active:
            await self.end(sweep, "finished", _outcome(sweep))
        return False

    async def _begin(self, sweep: LiveSweep) -> None:
        """Begin a new trial."""
        spec, number = sweep.spec, len(sweep.trials)
        suggested = await asyncio.to_thread(
            suggest, spec.sampler, sweep.space, spec.seed, number, sweep.past()
        )
        name, written = sweep.record.name, sweep.record.spec["workload"]
        assert isinstance(written, Mapping)
        raw = trial_submission(spec, written, name, number, suggested.params)
        submission = spec.workload.model_copy(update={"command": raw["command"], "name": raw["name"]})
        owner = await self._owner(sweep)
        plan = TrialPlan(
            *(sweep.record.id, name, number, suggested.params, suggested.state),
            *(tuple(spec.rungs), spec.metric),
        )
        variables = trial_variables(
            *(sweep.space, suggested.params),
            sweep=name,
            number=number,
            metric=spec.metric,
            rungs=spec.rungs,
        )
        launch = TrialLaunch(plan, variables)
        asked = ReadSubmission(submission, raw, 0, trial=launch)
        record = await self._submit(asked, owner)
        sweep.add(TrialRecord(plan, record.launch.uid, record.workload.name, devices=record.devices))
        sweep.failures, sweep.trouble = 0, ""

    async def _owner(self, sweep: LiveSweep) -> Person:
        """Return the person of a sweep with their present rights."""
        state, accounts = self._state, self._pool.accounts
        return await present_person(
            sweep.record.owner, state.store.tokens.all, accounts, self._roles_of, state.clock.with_time_off()
        )

    async def _submit(self, asked: ReadSubmission, owner: Person) -> WorkloadRecord:
        """Queue a trial; under a longer name if a workload of another project has the usual one.

        Names of trials are easy to guess, and workloads of all projects share the names.
        """
        usual = asked.submission.name
        for tries_left in reversed(range(NAMES_TRIED_MAX)):
            try:
                return (await self._pool.submitter.submit(asked, owner))[0]
            except NameTaken:
                if not tries_left:
                    raise
            name = f"{usual}-{random_ending()}"
            submission = asked.submission.model_copy(update={"name": name})
            asked = replace(asked, submission=submission, raw={**asked.raw, "name": name})
        raise AssertionError("the last try returns or raises")

    async def _promote(self, sweep: LiveSweep, promotion: Promotion) -> bool:
        """Let a parked trial run to its next rung; return False if the decision has become old.

        The person of the sweep needs the right to submit, as for a new trial.
        """
        try:
            require(await self._owner(sweep), Action.SUBMIT, sweep.record.project)
        except RequestRefused as refused:
            if refused.status in _LATER:
                raise
            await self.end(sweep, "failed", f"A trial can't be promoted: {refused.detail}")
            return False
        trial, rungs = sweep.trials[promotion.trial], sweep.spec.rungs
        environment = target_variables(rungs, promotion.rung + 1)
        reason = sweep.rung_reason(trial)
        record = await asyncio.wrap_future(
            self._state.store.sweeps.promote(
                trial.record, promotion.rung, promotion.reached, environment, reason
            )
        )
        if record is None:
            return False
        sweep.promoted(trial, promotion.reached)
        name, reached = trial.record.name, promotion.rung + 1
        plan = replace(trial.record.plan, target=reached)
        self.recorder.add(WatchedTrial(plan, trial.record.uid, name, passed=reached))
        sentence = (
            f"{name} is promoted from rung {rungs[promotion.rung]} to rung {rungs[reached]} "
            f"of sweep {sweep.record.name}, as one of the best of {promotion.reached} trials."
        )
        self._event(sweep, "promoted", sentence, trial)
        self._state.backend.changed(record, self._state.clock())
        if record.suspended is None:
            self._state.backend.tell(WorkloadSuspended(name, False))
        return True

    def _tell_prospects(self, sweep: LiveSweep) -> None:
        """Tell the engine the cost of stopping each running trial: the least likely to be promoted first."""
        now_s, base_s = self._state.clock(), self._state.policy.price.restart
        for trial, prospect in sweep.changed_prospects():
            line = self._state.view.workloads.get(trial.record.name)
            if line is not None and line.uid == trial.record.uid:
                cost_s = restart_cost_s(base_s, prospect, line.devices)
                self._state.backend.tell(WorkloadChanged(replace(line.spec, restart_s=cost_s), now_s))

    async def end(self, sweep: LiveSweep, state: str, sentence: str) -> None:
        """End a sweep: write it down, then stop the trials that aren't over."""
        at_s = self._state.clock()
        await asyncio.wrap_future(self._state.store.sweeps.end(sweep.record.id, state, sentence, at_s))
        sweep.record = replace(sweep.record, state=state, sentence=sentence, ended_s=at_s)
        self._event(sweep, "sweep", f"Sweep {sweep.record.name} is {state}. {sentence}")
        await self._clear(sweep)

    async def _clear(self, sweep: LiveSweep) -> None:
        """Stop the trials of a sweep that is over; forget it once none is left."""
        name = sweep.record.name
        left = [*sweep.active, *sweep.parked]
        new = [trial for trial in left if trial.record.plan.number not in sweep.stopped]
        for first in range(0, len(new), STOPPED_TOGETHER):
            some = new[first : first + STOPPED_TOGETHER]
            sweep.stopped.update(trial.record.plan.number for trial in some)
            await asyncio.gather(*(self._stop(sweep, trial) for trial in some))
        if not left:
            self.live.pop(name, None)

    async def _stop(self, sweep: LiveSweep, trial: LiveTrial) -> None:
        where = sweep.rung_reason(trial) if trial.parked else "not parked"
        sentence = f"Sweep {sweep.record.name} is over: {trial.record.name} was {where}."
        line = self._state.view.workloads.get(trial.record.name)
        if line is None or line.uid != trial.record.uid:
            return
        stop = CancelRequested(trial.record.name, self._state.clock(), sentence=sentence)
        with suppress(NoSuchWorkload, WorkloadOver):
            await self._pool.cancellations.withdraw(stop, lambda _workload, _uid: None)

    def _event(self, sweep: LiveSweep, kind: str, sentence: str, trial: LiveTrial | None = None) -> None:
        record = None if trial is None else trial.record
        self._state.user_events.append(
            HistoryEvent(
                self._state.clock(),
                kind,
                sentence,
                uid=None if record is None else record.uid,
                workload=None if record is None else record.name,
                project=sweep.record.project,
                numbers={"sweep": sweep.record.name},
            )
        )


def _outcome(sweep: LiveSweep) -> str:
    """Return the sentence about a sweep whose trials are over."""
    spec, best = sweep.spec, sweep.best()
    if best is None:
        return outcome(len(sweep.trials), None, "", sweep.missing_result)
    trial = sweep.trials[best.trial]
    result = result_words(spec.metric, trial.results[best.rung].value, spec.rungs[best.rung])
    return outcome(len(sweep.trials), trial.record.name, result, "")
