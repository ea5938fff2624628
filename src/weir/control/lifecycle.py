"""The lifecycle of workloads: their outcome when pods exit, and the time rules.

A workload's pods start, fail and end together. So nothing is concluded from a single exit. When the last
live pod is gone, the outcome follows from the exits of all of them.

- All pods that its gang needs are done: it succeeded.
- One failed: the others are stopped, and it is tried again after a pause that doubles, up to a limit.
- It reached a time limit, or was cancelled: it ends as stopped.
- Otherwise it was preempted, or lost its node: it is pending again, and keeps the run time up to its last
checkpoint.

A gang that is incomplete because of a lost node isn't handled here. The engine knows if it can be completed,
and applies `gang_grace`.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from weir.control.fault_isolation import SET_ASIDE
from weir.control.idle_lifecycle import IdleLifecycle
from weir.control.lifecycle_state import LifecycleState, SuspendReason
from weir.control.node_drains import NodeDrains
from weir.control.outbox import Outbox
from weir.control.port import (
    ActivitySampled,
    CancelRequested,
    Fact,
    Gate,
    GateChanged,
    IdleExcused,
    LifecycleCause,
    LifecycleRule,
    NodeDrained,
    PodExit,
    PodExited,
    PodRunning,
    StatusRecovered,
    UtilizationSampled,
    WorkloadFinished,
)
from weir.control.time_limits import (
    has_time_limits,
    limit_end,
    limit_warning,
    next_check_s,
)
from weir.control.timers import TimerKind
from weir.control.transitions import LifecycleTransitions
from weir.engine.plan import Eviction
from weir.model.policy import LifecyclePolicy
from weir.model.reasons import EvictionRule
from weir.state.events import (
    BudgetRemoved,
    BudgetSet,
    Checkpointed,
    HistoryRestored,
    NodeLost,
    NodeSet,
    Nominated,
    PodAssigned,
    PodProtected,
    PodStopping,
    QueuesSet,
    StopRefused,
    TopologiesSet,
    WorkloadChanged,
    WorkloadSubmitted,
    WorkloadSuspended,
)
from weir.state.jobs import Job, Phase

_HOLDS = {
    Gate.SCHEDULING: SuspendReason.GATED,
    Gate.BEGIN_TIME: SuspendReason.BEGIN_TIME,
    Gate.DEPENDENCY: SuspendReason.DEPENDENCY,
}


class WorkloadLifecycle:
    """Lifecycles of all workloads: facts come in, events and effects go to the outbox."""

    def __init__(
        self,
        outbox: Outbox,
        rules: LifecyclePolicy,
        *,
        suspension_refusal: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._out = outbox
        self._transitions = LifecycleTransitions(outbox, rules)
        self._lives = self._transitions.states
        self.timers = self._transitions.timers
        self.stop = self._transitions.stop
        self._jobs = outbox.cluster.jobs
        self._drains = NodeDrains(
            outbox, self._transitions, self._lives, lambda job: self._transitions.limits(job).max_runtime_s
        )
        self._idle = IdleLifecycle(outbox, self._transitions, suspension_refusal)
        self.now_s = 0.0
        happen = outbox.happen
        self._takes: dict[type, Callable[[Any], None]] = {
            NodeSet: self._node_set,
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
            ActivitySampled: self._activity_seen,
            IdleExcused: self._excused,
            CancelRequested: self._withdrawn,
            NodeDrained: self._drained,
        }

    @property
    def rules(self) -> LifecyclePolicy:
        """The rules of the policy. New ones apply from the next fact on."""
        return self._transitions.rules

    @rules.setter
    def rules(self, rules: LifecyclePolicy) -> None:
        self._transitions.rules = rules

    def take_in(self, facts: Iterable[Fact], now_s: float) -> None:
        """Apply facts to the lifecycles."""
        self.now_s = now_s
        takes = self._takes
        for fact in facts:
            takes[type(fact)](fact)

    def due(self, now_s: float) -> None:
        """Apply all time limits, idle rules and retries whose time has come."""
        self.now_s = now_s
        while (timer := self.timers.pop(now_s)) is not None:
            workload, due, since_s = timer
            if due is TimerKind.OUTAGE:
                self._drains.due(workload, since_s, now_s)
                continue
            job = self._jobs.get(workload)
            if job is None:
                continue
            life = self._lives[workload]
            if due is TimerKind.RETRY:
                self._transitions.release_hold(job, life, SuspendReason.PAUSE)
            elif due is TimerKind.FAULT:
                self._transitions.release_hold(job, life, SuspendReason.FAULT)
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
        life.done.discard(pod)  # a gang that released its capacity runs again, with this pod
        self._out.happen(assigned)
        self._begun(self._jobs[pod.workload], life)
        return life.starts

    def _stop_refused(self, fact: StopRefused) -> None:
        """Keep a pod running whose eviction was refused, and release the nomination of the beneficiary."""
        life, job = self._lives.get(fact.pod.workload), self._jobs.get(fact.pod.workload)
        if life is None or job is None or fact.pod not in life.alive:
            return
        if job.pods[fact.pod.group][fact.pod.index].phase is not Phase.STOPPING:
            return  # an outdated answer: a newer plan may have nominated the capacity
        beneficiary = None if fact.by is None else self._jobs.get(fact.by)
        for name in dict.fromkeys((job.name, fact.by)):
            if name is not None:
                self._transitions.release_nomination(name)
        self._out.happen(fact)
        if beneficiary is not None:
            sentence = f"{job.name} could not be stopped for it: {fact.sentence}"
            self._transitions.note(beneficiary, "stop_refused", sentence, {"pod": str(fact.pod)}, fact.at_s)
        cause = life.stop_anyway.pop(fact.pod, None)
        if cause is not None:
            self._transitions.stop(fact.pod, cause, self.now_s)

    # Effects of facts

    def _submitted(self, fact: WorkloadSubmitted) -> None:
        if fact.workload.name not in self._lives:
            self._lives[fact.workload.name] = LifecycleState()
            self._out.happen(fact)

    def _changed(self, fact: WorkloadChanged) -> None:
        """Apply a changed request, and forget the exits of pods that it no longer has."""
        life = self._lives.get(fact.workload.name)
        if life is not None:
            life.keep([group.count for group in fact.workload.groups])
            unprotected = life.idle.progress.unprotected
            spec = replace(fact.workload, unprotected=True) if unprotected else fact.workload
            self._out.happen(WorkloadChanged(spec, fact.at_s, fact.absent) if unprotected else fact)
            self._watch(self._jobs[fact.workload.name], life)

    def _gated(self, fact: GateChanged) -> None:
        life, job = self._lives.get(fact.workload), self._jobs.get(fact.workload)
        if life is None or job is None:
            return
        hold = _HOLDS[fact.gate]
        if not fact.gated:
            self._transitions.release_hold(job, life, hold)
        elif life.holds.get(hold) != (fact.reason or hold.value, fact.until_s):
            self._transitions.hold(job, life, hold, fact.reason, fact.until_s)

    def _finished(self, fact: WorkloadFinished) -> None:
        life, job = self._lives.get(fact.workload), self._jobs.get(fact.workload)
        if life is not None and job is not None:
            self._transitions.finish(job, life, fact.how, fact.at_s, life.ending)

    def _status_found(self, fact: StatusRecovered) -> None:
        life, job, status = self._lives.get(fact.workload), self._jobs.get(fact.workload), fact.status
        if life is None or job is None:
            return
        life.restore(status)
        self._idle.restored(job, life, self.now_s)
        if status.retry_at_s is not None:  # bounded: another machine's clock may be wrong
            self._transitions.pause(job, life, min(status.retry_at_s, self.now_s + self.rules.max_pause))

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
        life.stop_anyway.pop(pod, None)
        job = self._jobs[pod.workload]
        if fact.how is PodExit.DONE:
            life.done.add(pod)
            if life.alive:
                if any(job.pending):
                    self._transitions.hold(job, life, SuspendReason.FINISHING)
                return
        else:
            if fact.how is PodExit.FAILED and life.ending is None:
                self._transitions.fail(job, life, fact)
            if fact.own_loss:
                life.note_loss(fact.sentence, progressed=job.saved_s is not None)
            self._transitions.release_pod(job, pod, at_s)
            if fact.own_loss and life.alive and life.ending is None:
                self._transitions.lose_pod(job, life, fact)
        if not life.alive:
            self._transitions.conclude(job, life, at_s)
            if job.name in self._lives:
                self._idle.run_over(job, life, at_s)

    def _suspended(self, fact: WorkloadSuspended) -> None:
        life, job = self._lives.get(fact.workload), self._jobs.get(fact.workload)
        if life is None or job is None:
            return
        if not fact.suspended:
            self._transitions.release_hold(job, life, SuspendReason.SUSPENDED)
        elif SuspendReason.SUSPENDED not in life.holds:
            self._transitions.hold(job, life, SuspendReason.SUSPENDED, fact.reason)
            sentence = f"{fact.workload} is suspended: {fact.reason or SuspendReason.SUSPENDED.value}."
            cause = LifecycleCause(LifecycleRule.SUSPENDED, sentence)
            self._transitions.note(job, cause.rule, sentence, cause.numbers, self.now_s)
            self._transitions.stop_all(job, cause, self.now_s)

    def _withdrawn(self, fact: CancelRequested) -> None:
        life, job = self._lives.get(fact.workload), self._jobs.get(fact.workload)
        if life is not None and job is not None and life.ending is None:
            by = f" by {fact.by}" if fact.by else ""
            sentence = fact.sentence or f"{fact.workload} was stopped{by}."
            cause = LifecycleCause(fact.rule, sentence)
            self._transitions.end(job, life, cause, fact.at_s)

    def _drained(self, fact: NodeDrained) -> None:
        self._drains.drained(fact, self.now_s)

    def _node_set(self, fact: NodeSet) -> None:
        self._out.happen(fact)
        self._drains.node_set(fact.node, self.now_s)

    def _queues_set(self, fact: QueuesSet) -> None:
        self._out.happen(fact)
        self.look_at_all()

    def _use_seen(self, fact: UtilizationSampled) -> None:
        life, job = self._lives.get(fact.workload), self._jobs.get(fact.workload)
        if life is not None and job is not None and life.ending is None:
            self._idle.used(job, life, fact)

    def _activity_seen(self, fact: ActivitySampled) -> None:
        life, job = self._lives.get(fact.workload), self._jobs.get(fact.workload)
        if life is not None and job is not None and life.ending is None:
            self._idle.seen(job, life, fact)

    def _excused(self, fact: IdleExcused) -> None:
        life, job = self._lives.get(fact.workload), self._jobs.get(fact.workload)
        if life is not None and job is not None and life.ending is None:
            self._idle.excused(job, life, fact, self.now_s)

    def gave_way(self, evictions: Iterable[Eviction], now_s: float) -> None:
        """Suspend idle workloads that a plan evicts as a whole."""
        for eviction in evictions:
            name, cause = eviction.pod.workload, eviction.cause
            if cause.rule is EvictionRule.IDLE and SuspendReason.SUSPENDED not in self._lives[name].holds:
                self._idle.gave_way(self._jobs[name], self._lives[name], cause.by, now_s)

    # Time rules

    def look_at_all(self) -> None:
        """Check the time limits of all running workloads after a change of the rules."""
        for name, life in list(self._lives.items()):
            if life.alive:
                self._watch(self._jobs[name], life)

    def _watch(self, job: Job, life: LifecycleState) -> None:
        """Set the timer of the time rules; due rules are applied later, never between facts."""
        watch = life.watch
        if job.started_s is None or life.ending is not None:
            return
        watch.begin(job.started_s)
        if not has_time_limits(job.spec, self._transitions.queue_limits(job), self.rules):
            return
        next_s = next_check_s(job, self._transitions.limits(job), watch)
        if next_s is not None and (watch.looks_s is None or next_s < watch.looks_s):
            watch.looks_s = next_s
            self.timers.set(next_s, TimerKind.LIMIT, job.name, next_s)

    def _begun(self, job: Job, life: LifecycleState) -> None:
        """Start the time rules of a workload at its first running pod."""
        life.begun(job.started_s)
        self._drains.started(job, self.now_s)
        if life.watch.started_s != job.started_s:
            self._watch(job, life)

    def _look(self, job: Job, life: LifecycleState) -> None:
        """Check a workload against the time rules."""
        if job.started_s is None or life.ending is not None:
            return
        limits, now_s = self._transitions.limits(job), self.now_s
        if (cause := limit_end(job, limits, now_s)) is not None:
            self._transitions.end(job, life, cause, now_s)
        elif (coming := limit_warning(job, limits, life.watch, now_s)) is not None:
            self._transitions.note(
                job, f"{coming.rule.value}_warning", coming.sentence, coming.numbers, now_s
            )

    def set_aside(self, name: str, why: str, now_s: float, until_s: float) -> None:
        """Suspend a workload that makes decisions fail, until a time. Its running pods continue."""
        job, life = self._jobs[name], self._lives[name]
        self._transitions.note(job, SET_ASIDE, f"It was set aside: {why}.", {}, now_s)
        self._transitions.hold(job, life, SuspendReason.FAULT, why, until_s)
        self.timers.set(until_s, TimerKind.FAULT, name, until_s)
