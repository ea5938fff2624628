"""The life of workloads: what becomes of one when a pod of it exits, and the time rules.

A workload's pods start, fail and end together. So nothing is concluded from a single exit: when the
last of its pods that are alive is gone, the verdict is spoken over what all of them said.

- All that its gang needs are done: it succeeded.
- One failed: the others are stopped, and it is tried again after a pause that doubles, up to a limit.
- It ran longer than it may, or was withdrawn: it ends as stopped.
- Otherwise it was taken, or its node is gone: it waits again, with the run it saved.

A gang left incomplete by a lost node isn't judged here: whether it can be completed is the
engine's to know, and `gang_grace` is its rule.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weir.control.lifecycle_state import LifecycleState, SuspendReason, kept_runtime_s
from weir.control.outbox import Outbox
from weir.control.port import (
    CancelRequested,
    EndWorkload,
    Fact,
    GateChanged,
    LifecycleCause,
    LifecycleRule,
    PodExit,
    PodExited,
    PodRunning,
    ReleaseNomination,
    SaveProgress,
    StatusRecovered,
    StopPod,
    UtilizationSampled,
    WorkloadFinished,
)
from weir.control.time_limits import (
    LimitResult,
    LimitWarning,
    TimeLimits,
    check_idle,
    check_limits,
    has_time_limits,
    limits_of,
    next_check_s,
)
from weir.control.timers import TimerKind, Timers
from weir.model.policy import LifecyclePolicy
from weir.model.queues import QueueTimeLimits
from weir.model.reasons import EvictionCause, as_clause
from weir.model.resources import span
from weir.state.events import (
    BudgetRemoved,
    BudgetSet,
    Checkpointed,
    HistoryRestored,
    NodeLost,
    NodeSet,
    Nominated,
    NominationReleased,
    NoteAdded,
    PodAssigned,
    PodKey,
    PodProtected,
    PodStopped,
    PodStopping,
    QueuesSet,
    StopRefused,
    TopologiesSet,
    WorkloadChanged,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
    WorkloadSuspended,
)
from weir.state.jobs import Job


class WorkloadLifecycle:
    """Lifecycles of all workloads: facts come in, events and effects go to the outbox."""

    def __init__(self, outbox: Outbox, rules: LifecyclePolicy) -> None:
        self._out = outbox
        self.rules = rules
        self._lives: dict[str, LifecycleState] = {}
        self._jobs = outbox.cluster.jobs
        self.now_s = 0.0
        self.timers = Timers()
        happen = outbox.happen
        self._takes: dict[type, Callable[[Any], None]] = {
            NodeSet: happen,
            NodeLost: happen,
            QueuesSet: self._queues_set,
            TopologiesSet: happen,
            Checkpointed: happen,
            HistoryRestored: happen,
            Nominated: happen,
            WorkloadSubmitted: self._submitted,
            WorkloadChanged: self._changed,
            WorkloadSuspended: self._suspended,
            GateChanged: self._gated,
            WorkloadFinished: self._finished,
            StatusRecovered: self._status_found,
            PodRunning: self._runs,
            PodStopping: happen,
            StopRefused: self._stop_refused,
            BudgetSet: happen,
            BudgetRemoved: happen,
            PodProtected: happen,
            PodExited: self._exited,
            UtilizationSampled: self._use_seen,
            CancelRequested: self._withdrawn,
        }

    def take_in(self, facts: Iterable[Fact], now_s: float) -> None:
        """Apply facts."""
        self.now_s = now_s
        takes = self._takes
        for fact in facts:
            takes[type(fact)](fact)

    def due(self, now_s: float) -> None:
        """Do what is due by now."""
        self.now_s = now_s
        while (timer := self.timers.pop(now_s)) is not None:
            workload, due, since_s = timer
            job = self._jobs.get(workload)
            if job is None:
                continue
            life = self._lives[workload]
            if due is TimerKind.RETRY:
                self._free(job, life, SuspendReason.PAUSE)
            elif due is TimerKind.FAULT:
                self._free(job, life, SuspendReason.FAULT)
            elif life.watch.looks_s == since_s:
                life.watch.looks_s = None
                self._look(job, life)
                self._watch(job, life)

    def assigned(self, assigned: PodAssigned) -> int:
        """Start a pod at its placement and return the number of this start."""
        pod = assigned.place.pod
        life = self._lives[pod.workload]
        life.starts += 1
        life.start_of[pod] = life.starts
        life.alive.add(pod)
        life.done.discard(pod)  # it released its capacity and runs again with its gang
        self._out.happen(assigned)
        self._begun(self._jobs[pod.workload], life)
        return life.starts

    def stop(
        self,
        pod: PodKey,
        cause: EvictionCause | LifecycleCause,
        now_s: float,
        moves: bool = False,
        overrides: bool = False,
    ) -> None:
        """Stop a pod. A pod that has finished only releases its capacity."""
        life = self._lives[pod.workload]
        by_plan = cause if isinstance(cause, EvictionCause) else None
        self._out.happen(PodStopping(pod, now_s, by_plan))
        if pod in life.alive:
            grace_s = self._limits(self._jobs[pod.workload]).grace_s
            self._out.order(StopPod(pod, life.start_of[pod], grace_s, cause, moves, overrides))
        else:
            self._out.happen(PodStopped(pod, now_s))

    def _stop_refused(self, fact: StopRefused) -> None:
        """Let a pod run on whose eviction was refused, and release the nomination it was for."""
        life, job = self._lives.get(fact.pod.workload), self._jobs.get(fact.pod.workload)
        if life is None or job is None or fact.pod not in life.alive:
            return
        beneficiary = None if fact.by is None else self._jobs.get(fact.by)
        for name in dict.fromkeys((job.name, fact.by)):
            if name is not None:
                self._release_nomination(name)
        self._out.happen(fact)
        if beneficiary is not None:
            sentence = f"{job.name} could not be stopped for it: {fact.sentence}"
            self._note(beneficiary, "stop_refused", sentence, {"pod": str(fact.pod)}, fact.at_s)

    # What facts do

    def _submitted(self, fact: WorkloadSubmitted) -> None:
        if fact.workload.name not in self._lives:
            self._lives[fact.workload.name] = LifecycleState()
            self._out.happen(fact)

    def _changed(self, fact: WorkloadChanged) -> None:
        """It asks for something else; nothing is remembered of pods there are no longer any of."""
        life = self._lives.get(fact.workload.name)
        if life is not None:
            life.keep([group.count for group in fact.workload.groups])
            self._out.happen(fact)
            self._watch(self._jobs[fact.workload.name], life)

    def _gated(self, fact: GateChanged) -> None:
        life, job = self._lives.get(fact.workload), self._jobs.get(fact.workload)
        if life is None or job is None:
            return
        if not fact.gated:
            self._free(job, life, SuspendReason.GATED)
        elif life.holds.get(SuspendReason.GATED) != (fact.reason or SuspendReason.GATED.value, None):
            self._hold(job, life, SuspendReason.GATED, fact.reason)

    def _finished(self, fact: WorkloadFinished) -> None:
        life, job = self._lives.get(fact.workload), self._jobs.get(fact.workload)
        if life is not None and job is not None:
            self._over(job, life, fact.how, fact.at_s, life.ending)

    def _status_found(self, fact: StatusRecovered) -> None:
        life, job, status = self._lives.get(fact.workload), self._jobs.get(fact.workload), fact.status
        if life is None or job is None:
            return
        life.found(status)
        if status.retry_at_s is not None:  # on another machine's clock, perhaps: no pause is longer than this
            self._pause(job, life, min(status.retry_at_s, self.now_s + self.rules.pause_most))

    def _runs(self, fact: PodRunning) -> None:
        pod = fact.place.pod
        life = self._lives.get(pod.workload)
        if life is None or fact.start <= max(life.settled, life.start_of.get(pod, 0)):
            return
        life.start_of[pod] = fact.start
        life.alive.add(pod)
        life.starts = max(life.starts, fact.start)
        self._out.happen(PodAssigned(fact.place, fact.at_s))
        if fact.stopping:
            self._out.happen(PodStopping(pod, fact.at_s))
        self._begun(self._jobs[pod.workload], life)

    def _exited(self, fact: PodExited) -> None:
        pod, at_s = fact.pod, fact.at_s
        life = self._lives.get(pod.workload)
        if life is None or pod not in life.alive or life.start_of[pod] != fact.start:
            return
        life.alive.remove(pod)
        job = self._jobs[pod.workload]
        if fact.how is PodExit.DONE:
            life.done.add(pod)
            if life.alive:
                if any(job.pending):
                    self._hold(job, life, SuspendReason.FINISHING)
                return
        else:
            if fact.how is PodExit.FAILED and life.ending is None:
                self._failing(job, life, fact)
            life.lost = life.lost or fact.own_loss
            self._gone(job, pod, at_s)
        if not life.alive:
            self._verdict(job, life, at_s)

    def _suspended(self, fact: WorkloadSuspended) -> None:
        life, job = self._lives.get(fact.workload), self._jobs.get(fact.workload)
        if life is None or job is None:
            return
        if not fact.held:
            self._free(job, life, SuspendReason.SUSPENDED)
        elif SuspendReason.SUSPENDED not in life.holds:
            self._hold(job, life, SuspendReason.SUSPENDED, fact.reason)
            sentence = f"{fact.workload} is suspended: {fact.reason or SuspendReason.SUSPENDED.value}."
            cause = LifecycleCause(LifecycleRule.SUSPENDED, sentence)
            self._note(job, cause.rule, sentence, cause.numbers, self.now_s)
            self._stop_all(job, cause, self.now_s)

    def _withdrawn(self, fact: CancelRequested) -> None:
        life, job = self._lives.get(fact.workload), self._jobs.get(fact.workload)
        if life is not None and job is not None and life.ending is None:
            by = f" by {fact.by}" if fact.by else ""
            cause = LifecycleCause(LifecycleRule.WITHDRAWN, f"{fact.workload} was stopped{by}.")
            self._end(job, life, cause, fact.at_s)

    def _queues_set(self, fact: QueuesSet) -> None:
        self._out.happen(fact)
        self.look_at_all()

    def _use_seen(self, fact: UtilizationSampled) -> None:
        life, job = self._lives.get(fact.workload), self._jobs.get(fact.workload)
        if life is not None and job is not None and life.ending is None and job.devices_milli:
            said = check_idle(job, self._limits(job), life.watch, fact.fraction, fact.at_s)
            self._heed(job, life, said, fact.at_s)

    # Time rules

    def look_at_all(self) -> None:
        """Check the time limits of all running workloads again after a change of rules."""
        for name, life in list(self._lives.items()):
            if life.alive:
                self._watch(self._jobs[name], life)

    def _limits(self, job: Job) -> TimeLimits:
        return limits_of(job.spec, self._times(job), self.rules)

    def _times(self, job: Job) -> QueueTimeLimits:
        """The rules of its project."""
        ledger = self._out.cluster.ledger
        at = ledger.position.get(job.spec.project)
        return QueueTimeLimits() if at is None else ledger.queues[at].times

    def _watch(self, job: Job, life: LifecycleState) -> None:
        """Come back when the time rules say something: at once perhaps, but never in the midst of facts."""
        watch = life.watch
        if job.started_s is None or life.ending is not None:
            return
        watch.begin(job.started_s)
        if not has_time_limits(job.spec, self._times(job), self.rules):
            return
        next_s = next_check_s(job, self._limits(job), watch)
        if next_s is not None and (watch.looks_s is None or next_s < watch.looks_s):
            watch.looks_s = next_s
            self.timers.set(next_s, TimerKind.LIMIT, job.name, next_s)

    def _begun(self, job: Job, life: LifecycleState) -> None:
        """A pod runs; the rules count from the first."""
        life.begun(job.started_s)
        if life.watch.started_s != job.started_s:
            self._watch(job, life)

    def _look(self, job: Job, life: LifecycleState) -> None:
        """Hold a workload against the time rules."""
        if job.started_s is not None and life.ending is None:
            self._heed(job, life, check_limits(job, self._limits(job), life.watch, self.now_s), self.now_s)

    def _heed(self, job: Job, life: LifecycleState, said: LimitResult | None, at_s: float) -> None:
        if isinstance(said, LimitWarning):
            self._note(job, f"{said.rule.value}_warning", said.sentence, said.numbers, at_s)
        elif said is not None:
            self._end(job, life, said, at_s)

    def _note(self, job: Job, kind: str, sentence: str, numbers: Mapping[str, object], at_s: float) -> None:
        self._out.happen(NoteAdded(job.name, at_s, str(kind), sentence, numbers))

    def set_aside(self, name: str, why: str, now_s: float, until_s: float) -> None:
        """Hold back a workload at which decisions break, until a time. Its running pods go on."""
        job, life = self._jobs[name], self._lives[name]
        self._note(job, "set_aside", f"It was set aside: {why}.", {}, now_s)
        self._hold(job, life, SuspendReason.FAULT, why, until_s)
        self.timers.set(until_s, TimerKind.FAULT, name, until_s)

    # What follows

    def _end(self, job: Job, life: LifecycleState, cause: LifecycleCause, now_s: float) -> None:
        """Stop a workload for good."""
        life.ending = cause
        self._note(job, cause.rule, cause.sentence, cause.numbers, now_s)
        self._hold(job, life, SuspendReason.ENDING)
        self._stop_all(job, cause, now_s)
        if not life.alive:
            self._verdict(job, life, now_s)

    def _failing(self, job: Job, life: LifecycleState, fact: PodExited) -> None:
        """A pod failed: the others of its gang are stopped."""
        pod, at_s = fact.pod, fact.at_s
        if job.saved_s is not None:
            life.failures = 0
        life.note_failure(fact, first=SuspendReason.FAILING not in life.holds)
        self._hold(job, life, SuspendReason.FAILING)
        group = job.spec.groups[pod.group].name
        name = f"{group}/{pod.index}"
        life.failed = fact.said or "It failed."
        if job.spec.pods > 1:
            life.failed = f"Pod {name} failed: {as_clause(life.failed)}"
        sentence = f"Pod {name} of {pod.workload} failed."
        cause = LifecycleCause(LifecycleRule.GANG_FAILED, sentence, {"pod": name})
        self._note(job, cause.rule, sentence, cause.numbers, at_s)
        self._stop_all(job, cause, at_s, but=pod)

    def _stop_all(self, job: Job, cause: LifecycleCause, now_s: float, but: PodKey | None = None) -> None:
        for pod in job.running_pods():
            key = PodKey(job.name, pod.group, pod.index)
            if key != but:
                self.stop(key, cause, now_s)

    def _gone(self, job: Job, pod: PodKey, at_s: float) -> None:
        """Release a pod's capacity; with the last pod, report the run time that the workload keeps."""
        others = any(
            other.node >= 0 and (other.group, other.index) != (pod.group, pod.index)
            for group in job.pods
            for other in group
        )
        self._out.happen(PodStopped(pod, at_s, None if others else kept_runtime_s(job)))

    def _verdict(self, job: Job, life: LifecycleState, at_s: float) -> None:
        """None of its pods is alive any more: what becomes of it?"""
        failing = SuspendReason.FAILING in life.holds
        if not failing and life.done and life.is_done(job.needed):
            self._over(job, life, WorkloadOutcome.SUCCEEDED, at_s)
        elif life.ending is not None:
            self._over(job, life, WorkloadOutcome.STOPPED, at_s, life.ending)
        else:
            for pod in sorted(life.done):
                self._gone(job, pod, at_s)  # without effect on one that released its capacity before
            life.done.clear()
            life.restarts += life.starts > life.settled
            losses = life.count_losses(at_s, self.rules.pause_most)
            life.run_over(at_s)
            if failing:
                self._failed(job, life, at_s)
            else:
                self._wait_again(job, life, losses, at_s)

    def _failed(self, job: Job, life: LifecycleState, at_s: float) -> None:
        """It failed, and all its pods are gone: again after a pause, or never."""
        life.failures += 1
        life.losses = 0
        if life.final or life.failures > self._limits(job).retries:
            sentence = life.failed or "It failed."
            if life.failures > 1 and not life.final:
                last = f" The last time: {as_clause(sentence)}" if life.failed else ""
                sentence = f"It failed {life.failures} times in a row.{last}"
            rule = LifecycleRule.FAILED_FOR_GOOD if life.final else LifecycleRule.FAILED_OFTEN
            cause = LifecycleCause(rule, sentence, {"failures": life.failures})
            self._over(job, life, WorkloadOutcome.FAILED, at_s, cause)
            return
        pause_s = self.rules.pause_s(life.failures)
        retry_at_s = at_s + pause_s
        sentence = f"It failed ({life.failures} in a row) and is tried again in {span(pause_s)}."
        self._note(job, "retry", sentence, {"failures": life.failures, "retry_at_s": retry_at_s}, at_s)
        self._pause(job, life, retry_at_s)
        self._free(job, life, SuspendReason.FAILING)
        self._free(job, life, SuspendReason.FINISHING)
        self._remember(job, life, retry_at_s)

    def _wait_again(self, job: Job, life: LifecycleState, losses: int, at_s: float) -> None:
        """Queue it again: at once after the first loss in a row, after a growing pause from the second."""
        retry_at_s = None
        if losses > 1:
            pause_s = self.rules.pause_s(losses - 1)
            retry_at_s = at_s + pause_s
            sentence = f"It was lost ({losses} in a row) and is started again in {span(pause_s)}."
            self._note(job, "retry", sentence, {"losses": losses, "retry_at_s": retry_at_s}, at_s)
            self._pause(job, life, retry_at_s)
        self._free(job, life, SuspendReason.FINISHING)
        self._remember(job, life, retry_at_s)

    def _pause(self, job: Job, life: LifecycleState, retry_at_s: float) -> None:
        sentence = f"it failed ({life.failures} in a row) and is tried again after a pause"
        if life.losses or not life.failures:
            sentence = "it was lost several times in a row and is started again after a pause"
        self._hold(job, life, SuspendReason.PAUSE, sentence, retry_at_s)
        self.timers.set(retry_at_s, TimerKind.RETRY, job.name, retry_at_s)

    def _over(
        self,
        job: Job,
        life: LifecycleState,
        how: WorkloadOutcome,
        at_s: float,
        cause: LifecycleCause | None = None,
    ) -> None:
        name, since_s = job.name, job.started_s
        if since_s is None and how is WorkloadOutcome.SUCCEEDED:
            since_s = life.watch.started_s  # its pods released their capacity as they ended
        ran_s = job.ran_s + (at_s - since_s if since_s is not None else 0.0)
        life.run_over(at_s)
        code = (
            0
            if how is WorkloadOutcome.SUCCEEDED
            else life.exit_code
            if how is WorkloadOutcome.FAILED
            else None
        )
        self._release_nomination(name)
        del self._lives[name]
        self._out.happen(WorkloadEnded(name, how, at_s, ran_s))
        sentence = cause.sentence if cause is not None else ""
        times = life.watch.started_s, cause, life.wall_s, life.first_started_s
        self._out.order(EndWorkload(name, how, at_s, sentence, ran_s, *times, code))

    def _remember(self, job: Job, life: LifecycleState, retry_at_s: float | None = None) -> None:
        self._out.order(SaveProgress(job.name, life.status(job.ran_s, retry_at_s)))

    # Holds

    def _hold(
        self, job: Job, life: LifecycleState, hold: SuspendReason, why: str = "", until_s: float | None = None
    ) -> None:
        life.holds[hold] = (why or hold.value, until_s)
        self._release_nomination(job.name)
        self._out.happen(WorkloadSuspended(job.name, True, *life.holds[hold]))

    def _release_nomination(self, name: str) -> None:
        """Release the nomination of a workload, if it has one."""
        if name in self._out.cluster.nominated:
            self._out.happen(NominationReleased(name))
            self._out.order(ReleaseNomination(name))

    def _free(self, job: Job, life: LifecycleState, hold: SuspendReason) -> None:
        """Remove one reason of the suspension, and report the next one, if any."""
        if life.holds.pop(hold, None) is None:
            return
        left = list(life.holds.values())
        said = WorkloadSuspended(job.name, True, *left[-1]) if left else WorkloadSuspended(job.name, False)
        self._out.happen(said)
