"""Time rules of one workload, and their result at a moment: nothing, a warning, or the end of the workload.

The rule of the project applies if it has one, else that of the policy for workloads of the type. A workload
can request only less. (The time that it needs to stop is its own setting, up to `max_stop_grace`.)

Run time and lifetime count from when the workload started, which every backend remembers. Idle time has rules
of its own (`idle_ladder`).
"""

from dataclasses import dataclass
from typing import NamedTuple

from weir.control.port import LifecycleCause, LifecycleRule
from weir.model.policy import LifecyclePolicy
from weir.model.queues import QueueTimeLimits
from weir.model.resources import span
from weir.model.run_limits import longest_run_s, rule_of, stop_grace_s
from weir.model.workloads import Workload, WorkloadType
from weir.state.jobs import Job


class TimeLimits(NamedTuple):
    """Time rules of one workload in seconds; None: no such rule."""

    max_runtime_s: float | None
    lifetime_s: float | None
    lifetime_warning_s: float
    grace_s: float
    retries: int


def limits_of(spec: Workload, project: QueueTimeLimits, rules: LifecyclePolicy) -> TimeLimits:
    """Return the time limits of a workload in a project."""
    type_ = spec.type
    lifetime_s = rule_of(project.lifetime_s, rules.lifetime) if type_ is WorkloadType.BUILD else None
    return TimeLimits(
        max_runtime_s=longest_run_s(spec, project, rules),
        lifetime_s=lifetime_s,
        lifetime_warning_s=rules.lifetime_warning,
        grace_s=stop_grace_s(spec, project, rules),
        retries=rules.max_failures if spec.retries is None else spec.retries,
    )


def has_time_limits(spec: Workload, project: QueueTimeLimits, rules: LifecyclePolicy) -> bool:
    """Return True if the run time or the lifetime of a workload can be limited."""
    return bool(
        spec.max_runtime_s
        or project.max_runtime_s
        or project.lifetime_s
        or rules.max_runtime.any
        or rules.lifetime
    )


@dataclass(slots=True, eq=False)
class LimitTracker:
    """State between two checks of a workload, about its current run."""

    started_s: float | None = None
    looks_s: float | None = None  # time of its next timer
    lifetime_warned: bool = False

    def begin(self, started_s: float) -> None:
        """Record that a run starts or continues."""
        if self.started_s != started_s:
            self.started_s = started_s
            self.lifetime_warned = False


class LimitTimes(NamedTuple):
    """Times at which run time and lifetime limits act. Timers and checks use the same numbers."""

    out_s: float | None  # end of its maximum run time
    warns_s: float | None  # time of the warning of a session's end
    closes_s: float | None


def limit_times(job: Job, limits: TimeLimits) -> LimitTimes:
    """Return the limit times of a workload's current run."""
    started_s = job.started_s
    assert started_s is not None
    most_s, lifetime_s = limits.max_runtime_s, limits.lifetime_s
    return LimitTimes(
        out_s=None if most_s is None else started_s + most_s - job.ran_s,
        warns_s=None if lifetime_s is None else started_s + max(0.0, lifetime_s - limits.lifetime_warning_s),
        closes_s=None if lifetime_s is None else started_s + lifetime_s,
    )


def next_check_s(job: Job, limits: TimeLimits, watch: LimitTracker) -> float | None:
    """Return the next time at which a limit acts, even if it has passed; None without one."""
    times = limit_times(job, limits)
    out_s, lived_s = times.out_s, times.closes_s if watch.lifetime_warned else times.warns_s
    if out_s is None or lived_s is None:
        return lived_s if out_s is None else out_s
    return min(out_s, lived_s)


def limit_end(job: Job, limits: TimeLimits, now_s: float) -> LifecycleCause | None:
    """Return the run-time or lifetime limit that ends a workload now, as the cause; None without one."""
    times, name, started_s = limit_times(job, limits), job.name, job.started_s
    assert started_s is not None
    if times.out_s is not None and now_s >= times.out_s:
        assert limits.max_runtime_s is not None
        return _ran_out(name, limits.max_runtime_s, job.ran_s + now_s - started_s)
    if times.closes_s is not None and now_s >= times.closes_s:
        assert limits.lifetime_s is not None
        return _lived(name, limits.lifetime_s, now_s - started_s)
    return None


def limit_warning(job: Job, limits: TimeLimits, watch: LimitTracker, now_s: float) -> LifecycleCause | None:
    """Return a coming end that people have to be warned about now, once; None without one."""
    times = limit_times(job, limits)
    if watch.lifetime_warned or times.closes_s is None or times.warns_s is None or now_s < times.warns_s:
        return None
    assert limits.lifetime_s is not None
    watch.lifetime_warned = True
    return _will_have_lived(job.name, limits.lifetime_s, times.closes_s - now_s)


def _ran_out(name: str, most_s: float, ran_s: float) -> LifecycleCause:
    sentence = f"{name} has run for {span(most_s)}, the most it may."
    return LifecycleCause(LifecycleRule.MAX_RUNTIME, sentence, {"max_runtime_s": most_s, "ran_s": ran_s})


def _lived(name: str, most_s: float, lived_s: float) -> LifecycleCause:
    sentence = f"{name} has been open for {span(most_s)}, the most a build session may be."
    return LifecycleCause(LifecycleRule.LIFETIME, sentence, {"lifetime_s": most_s, "lived_s": lived_s})


def _will_have_lived(name: str, most_s: float, left_s: float) -> LifecycleCause:
    sentence = (
        f"{name} ends in {span(left_s)}: a build session may be open for {span(most_s)}. Save your work."
    )
    return LifecycleCause(LifecycleRule.LIFETIME, sentence, {"lifetime_s": most_s, "left_s": left_s})
