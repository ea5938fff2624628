"""The idle ladder: the idle time of a workload, and the step of the idle rules that is due.

The steps follow measured idle time: notice, loss of protection, last notice, suspension or stop. Each step
has its own delay. Two notices come before any suspension or stop, and the last notice names the time left.
Use of devices, waiting for data, an extension and a new run reset the ladder. Time that wasn't measured
doesn't count: neither a gap, nor a jump of the clock, nor the time while control was down.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from weir.control.port import IdleProgress
from weir.model.activity import IDLE, Activity
from weir.model.policy import LifecyclePolicy
from weir.model.queues import QueueTimeLimits
from weir.model.run_limits import least_limit, rule_of
from weir.model.workloads import Workload

UNMEASURED_S_MAX: Final = 300.0
"""Longest time between two measurements that they cover; a longer gap counts as unknown."""
SAVE_EVERY_S: Final = 600.0
"""Idle time after which the position on the ladder is stored again."""


class IdleStep(StrEnum):
    """Steps of the ladder, in the order in which they are taken."""

    NOTICE = "notice"
    UNPROTECT = "unprotect"
    LAST_NOTICE = "last_notice"
    SUSPEND = "suspend"
    STOP = "stop"


class IdleRules(NamedTuple):
    """Delays of one workload's steps in seconds of idle time; None for a step that it doesn't have.

    `warning_s` lies between the last notice and the step that it warns of. `below` is the use under which a
    device counts as quiet. `left_out`: why the steps before a stop are left out, as a clause.
    """

    notice_s: float | None
    unprotect_s: float | None
    suspend_s: float | None
    stop_s: float | None
    warning_s: float
    below: float
    left_out: str = ""

    @property
    def end_s(self) -> float | None:
        """Return the delay of suspension or stop, the earlier one; None without both."""
        return least_limit(self.suspend_s, self.stop_s)

    @property
    def lead_s(self) -> float:
        """Return the time between the last notice and the end: at most a quarter of a short delay."""
        return min(self.warning_s, (self.end_s or 0.0) / 4)

    @property
    def first_notice_s(self) -> float | None:
        """Return the delay of the first notice: at the latest halfway to the first step after it.

        The answer is None without a notice and without steps.
        """
        rungs = [rung_s for rung_s in (self.unprotect_s, self.end_s) if rung_s is not None]
        halfway = min(rungs) / 2 if rungs else None
        return least_limit(self.notice_s, halfway)

    def without_suspensions(self, why: str = "") -> "IdleRules":
        """Return the steps of a workload that can't be suspended; `why` is a clause.

        A workload that lost its protection is suspended once it is evicted, so both steps need suspensions.
        The delay of the notice stays the same.
        """
        return self._replace(notice_s=self.first_notice_s, unprotect_s=None, suspend_s=None, left_out=why)


def idle_rules(spec: Workload, project: QueueTimeLimits, rules: LifecyclePolicy) -> IdleRules:
    """Return the steps of a workload, with its project's delays, else those of the policy for its type."""
    type_ = spec.type
    return IdleRules(
        rule_of(project.idle_notice_s, rules.idle_notice.for_type(type_)),
        rule_of(project.idle_unprotect_s, rules.idle_unprotect.for_type(type_)),
        rule_of(project.idle_suspend_s, rules.idle_suspend.for_type(type_)),
        least_limit(spec.idle_limit_s, rule_of(project.idle_limit_s, rules.idle_limit.for_type(type_))),
        rules.idle_warning.for_type(type_),
        rules.idle_below.for_type(type_),
    )


class IdleTracker:
    """Position of one workload on the ladder. A backend stores its `progress`."""

    __slots__ = ("progress", "saved", "seen_s")

    def __init__(self) -> None:
        self.progress = IdleProgress()
        self.saved = IdleProgress()  # the progress that was last stored
        self.seen_s: float | None = None

    def restore(self, progress: IdleProgress) -> None:
        """Continue from a stored position."""
        self.progress = self.saved = progress
        self.seen_s = None

    def begin_run(self, run: int) -> None:
        """Reset the ladder for another run. An extension is kept."""
        if self.progress.run != run:
            self.progress = IdleProgress(run=run, excused_until_s=self.progress.excused_until_s)
            self.seen_s = None

    def excuse(self, until_s: float) -> None:
        """Reset the ladder, and count no idle time before the given time."""
        self.progress = IdleProgress(run=self.progress.run, excused_until_s=until_s)

    def measure(self, activity: Activity | None, quiet_s: float, at_s: float) -> None:
        """Count the time up to a measurement; an outdated measurement is ignored.

        `quiet_s` is idle time measured before the state was certain; it counts when the idle time begins.
        """
        last_s, progress = self.seen_s, self.progress
        if last_s is not None and at_s <= last_s:
            return
        self.seen_s = at_s
        until_s = progress.excused_until_s
        if activity is Activity.WORKING or activity is Activity.STARVED:
            self.progress = IdleProgress(run=progress.run, excused_until_s=until_s)
        elif activity in IDLE and (until_s is None or at_s >= until_s):
            measured = last_s is not None and at_s - last_s <= UNMEASURED_S_MAX
            passed_s = at_s - last_s if measured and last_s is not None else 0.0
            if until_s is not None:  # the window may lie before the end of an extension
                quiet_s = min(quiet_s, at_s - until_s)
            counted_s = progress.idle_s + passed_s if progress.is_idle else progress.idle_s + quiet_s
            self.progress = progress._replace(idle_s=counted_s, is_idle=True, excused_until_s=None)

    def step(self, rules: IdleRules) -> IdleStep | None:
        """Take the step that is due, at most one at a time, and return it; None if none is due."""
        progress = self.progress
        due = _due(rules, progress) if progress.is_idle else None
        if due in (IdleStep.NOTICE, IdleStep.LAST_NOTICE):
            self.progress = progress._replace(notices=progress.notices + 1, noticed_s=progress.idle_s)
        elif due is IdleStep.UNPROTECT:
            self.progress = progress._replace(unprotected=True)
        return due

    @property
    def must_save(self) -> bool:
        """Return True if the position differs enough from the stored one."""
        progress, saved = self.progress, self.saved
        places = [(state.notices, state.unprotected, state.excused_until_s) for state in (progress, saved)]
        return places[0] != places[1] or abs(progress.idle_s - saved.idle_s) >= SAVE_EVERY_S


def _due(rules: IdleRules, progress: IdleProgress) -> IdleStep | None:
    first_s, unprotect_s = rules.first_notice_s, rules.unprotect_s
    if first_s is None or progress.idle_s < first_s:
        return None
    if not progress.notices:
        return IdleStep.NOTICE
    if unprotect_s is not None and not progress.unprotected and progress.idle_s >= unprotect_s:
        return IdleStep.UNPROTECT
    return None if rules.end_s is None else _end(rules, progress, rules.end_s)


def _end(rules: IdleRules, progress: IdleProgress, end_s: float) -> IdleStep | None:
    """Return the last notice or the end, whichever is due; None if neither is due."""
    idle_s = progress.idle_s
    if progress.notices < 2 and idle_s >= end_s - rules.lead_s and idle_s > progress.noticed_s:
        return IdleStep.LAST_NOTICE
    if progress.notices >= 2 and idle_s >= max(end_s, progress.noticed_s + rules.lead_s):
        return IdleStep.SUSPEND if rules.suspend_s == end_s else IdleStep.STOP
    return None
