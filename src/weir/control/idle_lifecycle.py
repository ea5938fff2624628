"""Idle workloads: the ladder's steps as events and effects of their lifecycles."""

from collections.abc import Callable
from dataclasses import replace

from weir.control.idle_ladder import IdleRules, IdleStep, IdleTracker, idle_rules
from weir.control.lifecycle_state import LifecycleState, SuspendReason
from weir.control.outbox import Outbox
from weir.control.port import (
    ActivitySampled,
    IdleExcused,
    KeepSuspension,
    LifecycleCause,
    LifecycleRule,
    UtilizationSampled,
)
from weir.control.transitions import LifecycleTransitions
from weir.model.activity import Activity
from weir.model.resources import span
from weir.state.events import PodKey, WorkloadChanged
from weir.state.jobs import Job, Phase

IDLE_WARNING, PROTECTION_LOST, IDLE_SUSPENDED = "idle_warning", "protection_lost", "idle_suspended"
_SAME_S = 1.0
"""Difference up to which two reported ends of an extension count as equal."""
PROTECTION_RESTORED, IDLE_EXTENDED = "protection_restored", "idle_extended"


class IdleLifecycle:
    """Applies measurements and extensions to the ladders of workloads."""

    def __init__(
        self, outbox: Outbox, transitions: LifecycleTransitions, suspension_refusal: Callable[[str], str]
    ) -> None:
        self._suspension_refusal = suspension_refusal
        self._out = outbox
        self._transitions = transitions

    def rules(self, job: Job) -> IdleRules:
        """Return the steps of the idle rules for a workload; a notice says if it can't be suspended."""
        rules = idle_rules(job.spec, self._transitions.queue_limits(job), self._transitions.rules)
        if rules.unprotect_s is None and rules.suspend_s is None:
            return rules
        refusal = self._suspension_refusal(job.name)
        return rules.without_suspensions(refusal) if refusal else rules

    def used(self, job: Job, life: LifecycleState, fact: UtilizationSampled) -> None:
        """Process the utilization of a workload's devices, if no activity is measured."""
        below = self.rules(job).below
        activity = Activity.WORKING if fact.fraction >= below else Activity.PARKED
        self.seen(job, life, ActivitySampled(job.name, activity, fact.at_s))

    def seen(self, job: Job, life: LifecycleState, fact: ActivitySampled) -> None:
        """Process a measurement of activity, and take the step that is due."""
        started_s = job.started_s
        if started_s is None or fact.at_s < started_s or not job.devices_milli or not job.running_pods():
            return
        tracker = life.idle
        tracker.begin_run(life.restarts)
        tracker.measure(fact.activity, fact.quiet_s, fact.at_s)
        self._protect(job, tracker, fact.at_s)
        rules = self.rules(job)
        self._take(job, life, tracker.step(rules), rules, fact.at_s)
        self._save(job, life)

    def excused(self, job: Job, life: LifecycleState, fact: IdleExcused, now_s: float) -> None:
        """Count no idle time until the given time, at most as far ahead as the policy allows.

        A time that has passed changes nothing: backends report old messages again when they recover. The same
        holds for a time before a known one.
        """
        until_s = min(fact.until_s, now_s + self._transitions.rules.max_idle_extend)
        tracker = life.idle
        known_s = tracker.progress.excused_until_s or 0.0
        if until_s <= now_s or until_s < known_s + _SAME_S:
            return
        tracker.excuse(until_s)
        self._protect(job, tracker, now_s)
        left = span(until_s - now_s)
        why = f": {fact.why}" if fact.why else ""
        sentence = (
            f"{fact.by} extends {job.name}: the idle rules leave it alone for {left}."
            if fact.by
            else f"{job.name} says that it is busy for {left}{why}."
        )
        numbers = {"until_s": until_s, **({"user": fact.by} if fact.by else {})}
        self._transitions.note(job, IDLE_EXTENDED, sentence, numbers, now_s)
        self._save(job, life)

    def restored(self, job: Job, life: LifecycleState, now_s: float) -> None:
        """Remove the protection again that a workload had lost before control restarted."""
        life.idle.begin_run(life.restarts)
        if life.idle.progress.unprotected:
            self._set_unprotected(job, True, now_s)

    def run_over(self, job: Job, life: LifecycleState, now_s: float) -> None:
        """Reset the ladder after the end of a run."""
        life.idle.begin_run(life.restarts)
        if job.spec.unprotected:
            self._set_unprotected(job, False, now_s)
        self._save(job, life)

    def gave_way(self, job: Job, life: LifecycleState, by: str | None, now_s: float) -> None:
        """Suspend an idle workload that was evicted as a whole: else it would claim its devices again."""
        if job.running_pods() or life.ending is not None:
            return
        reason = f"it was idle, and its GPUs went to {by}" if by else "it was idle"
        sentence = f"{job.name} is suspended: {reason}. `weir resume {job.name}` lets it go on."
        self._suspend(job, life, reason, sentence, now_s)

    # Steps

    def _take(
        self, job: Job, life: LifecycleState, step: IdleStep | None, rules: IdleRules, at_s: float
    ) -> None:
        idle_s, name = life.idle.progress.idle_s, job.name
        numbers: dict[str, object] = {"idle_s": idle_s}
        if step is IdleStep.NOTICE or step is IdleStep.LAST_NOTICE:
            sentence = f"{name} has been idle for {span(idle_s)}. {_outlook(name, rules, idle_s, step)}"
            end_s = rules.end_s
            if end_s is not None:
                numbers["left_s"] = max(end_s - idle_s, rules.lead_s if step is IdleStep.LAST_NOTICE else 0.0)
            self._transitions.note(job, IDLE_WARNING, sentence, numbers, at_s)
        elif step is IdleStep.UNPROTECT:
            self._set_unprotected(job, True, at_s)
            sentence = (
                f"{name} has been idle for {span(idle_s)} and has lost its protection: its GPUs go to the "
                f"next request that needs them. {_answer(name)}"
            )
            self._transitions.note(job, PROTECTION_LOST, sentence, numbers, at_s)
        elif step is IdleStep.SUSPEND:
            reason = f"it was idle for {span(idle_s)}"
            sentence = f"{name} is suspended: {reason}. `weir resume {name}` lets it go on."
            self._suspend(job, life, reason, sentence, at_s)
            cause = LifecycleCause(LifecycleRule.IDLE, sentence, numbers)
            self._transitions.stop_all(job, cause, at_s)
        elif step is IdleStep.STOP:
            sentence = f"{name} was idle for {span(idle_s)}, the most it may be."
            numbers["idle_limit_s"] = rules.stop_s
            self._transitions.end(job, life, LifecycleCause(LifecycleRule.IDLE, sentence, numbers), at_s)

    def _suspend(self, job: Job, life: LifecycleState, reason: str, sentence: str, at_s: float) -> None:
        numbers: dict[str, object] = {"idle_s": life.idle.progress.idle_s}
        self._transitions.hold(job, life, SuspendReason.SUSPENDED, reason)
        self._out.order(KeepSuspension(job.name, reason))
        self._transitions.note(job, IDLE_SUSPENDED, sentence, numbers, at_s)

    def _protect(self, job: Job, tracker: IdleTracker, at_s: float) -> None:
        """Restore the protection of a workload that is no longer idle."""
        if job.spec.unprotected and not tracker.progress.unprotected:
            self._set_unprotected(job, False, at_s)
            self._transitions.note(
                job, PROTECTION_RESTORED, f"{job.name} is no longer idle: its protection is back.", {}, at_s
            )

    def _set_unprotected(self, job: Job, unprotected: bool, at_s: float) -> None:
        absent = frozenset(
            PodKey(job.name, pod.group, pod.index)
            for group in job.pods
            for pod in group
            if pod.phase is Phase.ABSENT
        )
        self._out.happen(WorkloadChanged(replace(job.spec, unprotected=unprotected), at_s, absent))

    def _save(self, job: Job, life: LifecycleState) -> None:
        if life.idle.must_save and life.ending is None:
            life.idle.saved = life.idle.progress
            self._transitions.remember(job, life)


def _outlook(name: str, rules: IdleRules, idle_s: float, step: IdleStep) -> str:
    """Return the next step for an idle workload, and the remedy for its owner."""
    parts = []
    if rules.unprotect_s is not None and idle_s < rules.unprotect_s:
        parts.append(f"loses its protection in {span(rules.unprotect_s - idle_s)}")
    end_s = rules.end_s
    if end_s is not None:
        left_s = max(end_s - idle_s, rules.lead_s if step is IdleStep.LAST_NOTICE else 0.0)
        verb = "is suspended" if rules.suspend_s == end_s else "is stopped"
        parts.append(f"{verb} in {span(left_s)}")
    sentences = [f"It {' and '.join(parts)} unless it works."] if parts else []
    if rules.left_out:
        sentences.append(f"Weir doesn't suspend it: {rules.left_out}.")
    return " ".join((*sentences, _answer(name)))


def _answer(name: str) -> str:
    return f"`weir extend {name} 2h` keeps it."
