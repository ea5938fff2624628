"""The transitions of one workload that follow from a fact: stop, suspension, pause, another run, end."""

from collections.abc import Mapping

from weir.control.lifecycle_state import REASONS, LifecycleState, SuspendReason, kept_runtime_s
from weir.control.outbox import Outbox
from weir.control.port import (
    EndWorkload,
    KeepSuspension,
    LifecycleCause,
    LifecycleRule,
    PodExited,
    ReleaseNomination,
    SaveProgress,
    StopPod,
)
from weir.control.time_limits import (
    TimeLimits,
    limits_of,
)
from weir.control.timers import TimerKind, Timers
from weir.model.policy import LifecyclePolicy
from weir.model.queues import QueueTimeLimits
from weir.model.reasons import EvictionCause, ReasonCode, as_clause
from weir.model.resources import span
from weir.state.events import (
    NominationReleased,
    NoteAdded,
    PodKey,
    PodStopped,
    PodStopping,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSuspended,
)
from weir.state.jobs import Job, Phase

LONGEST_PAUSES = 36
"""Pauses of the longest kind, six hours by default, after which a lost workload isn't tried any more: a file
server that was away for a while costs no person's time.
"""


class LifecycleTransitions:
    """Transitions of workloads between the states of their lifecycles; each emits events and effects."""

    def __init__(self, outbox: Outbox, rules: LifecyclePolicy) -> None:
        self.rules = rules
        self.timers = Timers()
        self.states: dict[str, LifecycleState] = {}
        self._out = outbox

    def stop(
        self,
        pod: PodKey,
        cause: EvictionCause | LifecycleCause,
        now_s: float,
        moves: bool = False,
        overrides: bool = False,
    ) -> None:
        """Stop a pod. A pod that has finished only releases its capacity."""
        life = self.states[pod.workload]
        by_plan = cause if isinstance(cause, EvictionCause) else None
        self._out.happen(PodStopping(pod, now_s, by_plan))
        if pod in life.alive:
            grace_s = self.limits(self._out.cluster.jobs[pod.workload]).grace_s
            self._out.order(StopPod(pod, life.start_of[pod], grace_s, cause, moves, overrides))
        else:
            self._out.happen(PodStopped(pod, now_s))

    def limits(self, job: Job) -> TimeLimits:
        """Return the time limits of a workload."""
        return limits_of(job.spec, self.queue_limits(job), self.rules)

    def queue_limits(self, job: Job) -> QueueTimeLimits:
        """Return the time limits of its project."""
        ledger = self._out.cluster.ledger
        position = ledger.position.get(job.spec.project)
        return QueueTimeLimits() if position is None else ledger.queues[position].times

    def note(self, job: Job, kind: str, sentence: str, numbers: Mapping[str, object], at_s: float) -> None:
        """Report something about a workload to people."""
        self._out.happen(NoteAdded(job.name, at_s, str(kind), sentence, numbers))

    def end(self, job: Job, life: LifecycleState, cause: LifecycleCause, now_s: float) -> None:
        """Stop a workload for good."""
        life.ending = cause
        self.note(job, cause.rule, cause.sentence, cause.numbers, now_s)
        self.hold(job, life, SuspendReason.ENDING)
        self.stop_all(job, cause, now_s)
        if not life.alive:
            self.conclude(job, life, now_s)

    def fail(self, job: Job, life: LifecycleState, fact: PodExited) -> None:
        """Stop the other pods of a gang in which a pod failed."""
        pod, at_s = fact.pod, fact.at_s
        if job.saved_s is not None:
            life.failures = 0
        life.note_failure(fact, first=SuspendReason.FAILING not in life.holds)
        self.hold(job, life, SuspendReason.FAILING)
        group = job.spec.groups[pod.group].name
        name = f"{group}/{pod.index}"
        life.failed = fact.sentence or "It failed."
        if job.spec.pods > 1:
            life.failed = f"Pod {name} failed: {as_clause(life.failed)}"
        sentence = f"Pod {name} of {pod.workload} failed."
        cause = LifecycleCause(LifecycleRule.GANG_FAILED, sentence, {"pod": name})
        self.note(job, cause.rule, sentence, cause.numbers, at_s)
        self.stop_all(job, cause, at_s, but=pod)

    def stop_all(self, job: Job, cause: LifecycleCause, now_s: float, but: PodKey | None = None) -> None:
        """Stop all pods of a workload, or all but one; pods being evicted stop even if that is refused."""
        life = self.states[job.name]
        for key in life.alive:
            if key != but and job.pods[key.group][key.index].phase is Phase.STOPPING:
                life.stop_anyway.setdefault(key, cause)
        for pod in job.running_pods():
            key = PodKey(job.name, pod.group, pod.index)
            if key != but:
                self.stop(key, cause, now_s)

    def release_pod(self, job: Job, pod: PodKey, at_s: float) -> None:
        """Release a pod's capacity; with the last pod, report the run time that the workload keeps."""
        others = any(
            other.node >= 0 and (other.group, other.index) != (pod.group, pod.index)
            for group in job.pods
            for other in group
        )
        self._out.happen(PodStopped(pod, at_s, None if others else kept_runtime_s(job)))

    def conclude(self, job: Job, life: LifecycleState, at_s: float) -> None:
        """Decide on the end or another run of a workload without a live pod."""
        failing = SuspendReason.FAILING in life.holds
        if not failing and life.done and life.is_done(job.needed):
            self.finish(job, life, WorkloadOutcome.SUCCEEDED, at_s)
        elif life.ending is not None:
            self.finish(job, life, WorkloadOutcome.STOPPED, at_s, life.ending)
        else:
            for pod in sorted(life.done):
                self.release_pod(job, pod, at_s)  # no effect on a pod that has released its capacity
            life.done.clear()
            life.restarts += life.starts > life.settled
            losses = life.count_losses(at_s, self.rules.max_pause)
            life.run_over(at_s)
            if failing:
                self._failed(job, life, at_s)
            else:
                self._wait_again(job, life, losses, at_s)

    def _failed(self, job: Job, life: LifecycleState, at_s: float) -> None:
        """Try a failed workload without pods again after a pause, or end it."""
        life.failures += 1
        life.losses = 0
        if life.final or life.failures > self.limits(job).retries:
            sentence = life.failed or "It failed."
            if life.failures > 1 and not life.final:
                sentence = f"It failed {life.failures} times in a row{_last_time(life.failed)}."
            rule = LifecycleRule.FAILED_FOR_GOOD if life.final else LifecycleRule.FAILED_OFTEN
            cause = LifecycleCause(rule, sentence, {"failures": life.failures})
            self.finish(job, life, WorkloadOutcome.FAILED, at_s, cause)
            return
        pause_s = self.rules.pause_s(life.failures)
        retry_at_s = at_s + pause_s
        sentence = f"It failed ({life.failures} in a row) and is tried again in {span(pause_s)}."
        self.note(job, "retry", sentence, {"failures": life.failures, "retry_at_s": retry_at_s}, at_s)
        self.pause(job, life, retry_at_s)
        self.release_hold(job, life, SuspendReason.FAILING)
        self.release_hold(job, life, SuspendReason.FINISHING)
        self.remember(job, life, retry_at_s)

    def _wait_again(self, job: Job, life: LifecycleState, losses: int, at_s: float) -> None:
        """Queue a lost workload again: at once after the first loss in a row, then after growing pauses.

        After many of the longest pauses it is suspended, because each try may evict other work.
        """
        retry_at_s = None
        pause_s = self.rules.pause_s(losses - 1)
        was_longest = self.rules.pause_s(losses - 1 - LONGEST_PAUSES) >= self.rules.max_pause
        if losses > max(1, self.limits(job).retries) and was_longest:
            self._suspend_lost(job, life, losses, at_s)
        elif losses > 1:
            retry_at_s = at_s + pause_s
            sentence = f"It was lost ({losses} in a row) and is started again in {span(pause_s)}."
            self.note(job, "retry", sentence, {"losses": losses, "retry_at_s": retry_at_s}, at_s)
            self.pause(job, life, retry_at_s)
        self.release_hold(job, life, SuspendReason.FINISHING)
        self.remember(job, life, retry_at_s)

    def _suspend_lost(self, job: Job, life: LifecycleState, losses: int, at_s: float) -> None:
        """Suspend a workload that was lost too often in a row, until a person resumes it."""
        life.losses = 0
        reason = f"it was lost {losses} times in a row{_last_time(life.lost_why)}"
        sentence = f"{job.name} is suspended: {reason}. `weir resume {job.name}` lets it go on."
        self.hold(job, life, SuspendReason.SUSPENDED, reason)
        self._out.order(KeepSuspension(job.name, reason))
        self.note(job, LifecycleRule.SUSPENDED, sentence, {"losses": losses}, at_s)

    def lose_pod(self, job: Job, life: LifecycleState, fact: PodExited) -> None:
        """Pause a workload whose pods are lost while others run; not after the first loss in a row.

        The workload starts no pod during the pause, and its other pods run on.
        """
        pod, at_s = fact.pod, fact.at_s
        losses = life.count_pod_losses(fact.start, at_s, self.rules.max_pause)
        if losses < 2:
            return
        pause_s = self.rules.pause_s(losses - 1)
        life.pod_again_s = at_s + pause_s
        name = f"{job.spec.groups[pod.group].name}/{pod.index}"
        sentence = f"Pods were lost ({losses} in a row), and pod {name} is started again in {span(pause_s)}."
        self.note(job, "retry", sentence, {"losses": losses, "retry_at_s": life.pod_again_s}, at_s)
        why = "pods were lost several times in a row and are started again after a pause"
        why += _last_time(fact.sentence)
        self.hold(job, life, SuspendReason.PAUSE, why, life.pod_again_s)
        self.timers.set(life.pod_again_s, TimerKind.RETRY, job.name, life.pod_again_s)

    def pause(self, job: Job, life: LifecycleState, retry_at_s: float) -> None:
        """Suspend a workload until its next try."""
        sentence = f"it failed ({life.failures} in a row) and is tried again after a pause"
        last = life.failed
        if life.losses or not life.failures:
            sentence = "it was lost several times in a row and is started again after a pause"
            last = life.lost_why
        self.hold(job, life, SuspendReason.PAUSE, sentence + _last_time(last), retry_at_s)
        self.timers.set(retry_at_s, TimerKind.RETRY, job.name, retry_at_s)

    def finish(
        self,
        job: Job,
        life: LifecycleState,
        how: WorkloadOutcome,
        at_s: float,
        cause: LifecycleCause | None = None,
    ) -> None:
        """End a workload, whose pods are gone."""
        name, since_s = job.name, job.started_s
        if since_s is None and how is WorkloadOutcome.SUCCEEDED:
            since_s = life.watch.started_s  # its pods released their capacity when they ended
        ran_s = job.ran_s + (at_s - since_s if since_s is not None else 0.0)
        life.run_over(at_s)
        code = (
            0
            if how is WorkloadOutcome.SUCCEEDED
            else life.exit_code
            if how is WorkloadOutcome.FAILED
            else None
        )
        self.release_nomination(name)
        del self.states[name]
        self._out.happen(WorkloadEnded(name, how, at_s, ran_s))
        sentence = cause.sentence if cause is not None else ""
        times = life.watch.started_s, cause, life.wall_s, life.first_started_s
        self._out.order(EndWorkload(name, how, at_s, sentence, ran_s, *times, code))

    def remember(self, job: Job, life: LifecycleState, retry_at_s: float | None = None) -> None:
        """Store the progress of a workload."""
        self._out.order(SaveProgress(job.name, life.status(job.ran_s, retry_at_s)))

    def hold(
        self, job: Job, life: LifecycleState, hold: SuspendReason, why: str = "", until_s: float | None = None
    ) -> None:
        """Suspend a workload for a reason."""
        life.holds[hold] = (why or hold.value, until_s)
        self.release_nomination(job.name)
        self._suspend(job, life, hold)

    def release_nomination(self, name: str) -> None:
        """Release the nomination of a workload, if it has one."""
        if name in self._out.cluster.nominated:
            self._out.happen(NominationReleased(name))
            self._out.order(ReleaseNomination(name))

    def release_hold(self, job: Job, life: LifecycleState, hold: SuspendReason) -> None:
        """Remove one reason of a suspension; if others remain, report the next one."""
        if life.holds.pop(hold, None) is None:
            return
        if life.holds:
            self._suspend(job, life, next(reversed(life.holds)))
        else:
            self._out.happen(WorkloadSuspended(job.name, False))

    def _suspend(self, job: Job, life: LifecycleState, hold: SuspendReason) -> None:
        why, until_s = life.holds[hold]
        code = REASONS.get(hold, ReasonCode.SUSPENDED)
        self._out.happen(WorkloadSuspended(job.name, True, why, until_s, code))


def _last_time(sentence: str) -> str:
    """Return the part of a sentence that names the cause of the last failure; empty if it is unknown."""
    return f". The last time: {as_clause(sentence).rstrip('.')}" if sentence else ""
